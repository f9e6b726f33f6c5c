"""Value and bound of each objective."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

from gpuyield.errors import PlanError
from gpuyield.model.plan import Certificate, ObjectiveValue, OnTime
from gpuyield.plan.board import Board, gpus_of
from gpuyield.plan.budget import Budget
from gpuyield.plan.case import LEARN_TASKS, Case, find_plan, prove, rule_schedules
from gpuyield.plan.impossible import on_time_alone
from gpuyield.plan.kernel.pricing import on_time_buyers, price_bound
from gpuyield.plan.overload import forced_jobs, tightest
from gpuyield.plan.profile import constant
from gpuyield.plan.schedule import Manner, Schedule, ShapeChoice, meets_all
from gpuyield.units import HOUR_MS

MAKESPAN_TASKS = 40
"""Beyond so many jobs makespan is not closed by the exact lane."""


def on_time_shares(board: Board, schedule: Schedule) -> OnTime:
    """What is on time of the jobs with a deadline or a due time: by weight, number, GPU time (1 of nothing)."""
    weights: Counter[Decimal] = Counter()
    met_weights: Counter[Decimal] = Counter()
    count = met = gpu_time = met_gpu_time = 0
    for task, one in zip(board.tasks, schedule.placed, strict=True):
        wanted = [end for end in (task.deadline_ms, task.due_ms) if end is not None]
        if not wanted:
            continue
        size = _gpu_ms(board, task.index, schedule)
        weights[task.weight] += 1
        count += 1
        gpu_time += size
        if one is not None and one.end_ms <= min(wanted):
            met_weights[task.weight] += 1
            met += 1
            met_gpu_time += size
    weight, met_weight = total_of(weights), total_of(met_weights)
    return OnTime(
        weighted=met_weight / weight if weight else Fraction(1),
        jobs=Fraction(met, count) if count else Fraction(1),
        gpu_time=Fraction(met_gpu_time, gpu_time) if gpu_time else Fraction(1),
    )


def total_of(counted: Counter[Decimal]) -> Fraction:
    """The exact sum of weights, each so many times."""
    return sum((Fraction(weight) * times for weight, times in counted.items()), start=Fraction(0))


def _gpu_ms(board: Board, at: int, schedule: Schedule) -> int:
    """GPU time of a job as it runs; of its least shape where it does not."""
    one = schedule.placed[at]
    if one is not None:
        return one.mode.gpus * one.mode.duration_ms
    return min(_shape_gpu_ms(board, at))


def _shape_gpu_ms(board: Board, at: int) -> list[int]:
    return [gpus_of(shape) * shape.duration_ms for shape in board.tasks[at].job.shapes]


def on_time_objective(case: Case, schedule: Schedule) -> ObjectiveValue:
    """The weighted share; its bound leaves out what cannot be on time even alone."""
    shares = on_time_shares(case.board, schedule)
    able = on_time_alone(case.board, case.steps, case.windows)
    timed = [task for task in case.board.tasks if task.deadline_ms is not None or task.due_ms is not None]
    total = total_of(Counter(task.weight for task in timed))
    left = total_of(Counter(task.weight for task in timed if able[task.index]))
    return ObjectiveValue(name="on-time", value=shares.weighted, bound=left / total if total else Fraction(1))


def priced(case: Case, objective: ObjectiveValue, schedule: Schedule, budget: Budget) -> ObjectiveValue:
    """The share with the bound that prices prove, where that is lower."""
    buyers = on_time_buyers(case)
    total = sum((buyer.weight for buyer in buyers), start=Fraction(0))
    if not total or objective.value is None or objective.bound is None:
        return objective
    found = price_bound(case, buyers, schedule, objective.value * total, budget)
    if found is None or found.weight >= objective.bound * total:
        return objective
    return replace(objective, bound=found.weight / total, certificate=found.certificate)


def shorten(case: Case, best: Schedule, budget: Budget) -> Schedule:
    """A schedule of all jobs that ends earlier, where one is found; hard deadlines stay met."""
    if best.missing() or not meets_all(case.board, best):
        return best
    for manner in (Manner(ShapeChoice.EARLIEST), Manner()):
        for schedule in rule_schedules(case, budget, (manner,)):
            if schedule.missing() or not meets_all(case.board, schedule):
                continue
            if schedule.end_ms() < best.end_ms():
                best = schedule
    while len(case.board.tasks) <= MAKESPAN_TASKS and best.end_ms() > 1:
        earlier = ended_by(case, best.end_ms() - 1)
        if earlier.impossible:
            break
        found = find_plan(earlier, budget).schedule
        if found is None or found.missing():
            break
        by_id = {task.job.id: one for task, one in zip(earlier.board.tasks, found.placed, strict=True)}
        best = Schedule([by_id[task.job.id] for task in case.board.tasks])
    return best


def ended_by(case: Case, end_ms: int) -> Case:
    """The same where every job must end by an instant."""
    jobs = tuple(
        replace(job, deadline_ms=end_ms if job.deadline_ms is None else min(job.deadline_ms, end_ms))
        for job in case.problem.jobs
    )
    return Case.of(replace(case.problem, jobs=jobs))


def makespan_objective(case: Case, schedule: Schedule, budget: Budget) -> ObjectiveValue:
    """The last end in seconds; its bound is the latest instant for which a certificate says: not all by then."""
    value = schedule.end_ms()
    bound, certificate = 0, None
    if value and not schedule.missing():
        bound, certificate = _makespan_bound(case, value, budget)
    return ObjectiveValue(
        name="makespan", value=Fraction(value, 1000), bound=Fraction(bound, 1000), certificate=certificate
    )


def _makespan_bound(case: Case, value: int, budget: Budget) -> tuple[int, Certificate | None]:
    """Halve for the latest end that an interval (or a job alone) rules out; then ask the exact lane for the rest."""
    low, high = 0, value
    while high - low > 1 and budget.spend(len(case.board.tasks)):
        middle = (low + high) // 2
        if _ruled_out(ended_by(case, middle - 1)):
            low = middle
        else:
            high = middle
    certificate = prove(ended_by(case, low - 1), budget) if low else None
    if low < value and len(case.board.tasks) <= LEARN_TASKS:
        proof = prove(ended_by(case, value - 1), budget)
        if proof is not None:
            return value, proof
    return (low, certificate) if certificate is not None else (0, None)


def _ruled_out(case: Case) -> bool:
    if case.hard_impossible:
        return True
    return any(
        tightest(forced_jobs(case.board, case.windows, resource), case.steps[resource]) is not None
        for resource in range(len(case.board.resources))
    )


def run_costs(case: Case, prices: Mapping[str, Decimal]) -> dict[tuple[int, int], Fraction]:
    """What each task costs in each of its shapes, at a price per unit of a resource and hour.

    Raises:
        PlanError: A resource that is demanded has no price.
    """
    shapes = {(task.index, mode.shape): task.job.shapes[mode.shape] for task in case.board.tasks for mode in task.modes}
    unpriced = sorted({name for shape in shapes.values() for name in shape.demand} - set(prices))
    if unpriced:
        raise PlanError(
            f"objective cheapest needs a price of {', '.join(unpriced)}.",
            where="prices",
            fix="Add it to prices in gpuyield.yaml, or choose another objective.",
        )
    return {
        which: sum(
            (
                Fraction(prices[name]) * amount * Fraction(shape.duration_ms, HOUR_MS)
                for name, amount in shape.demand.items()
            ),
            start=Fraction(0),
        )
        for which, shape in shapes.items()
    }


def chosen_resource(case: Case) -> int:
    """The resource that objective fewest-gpus counts: the named one, else the only one.

    Raises:
        PlanError: None is named and there are several, or the named one does not exist.
    """
    names = case.board.resources[: case.board.named]
    wanted = case.problem.resource
    if wanted is None and len(names) == 1:
        return 0
    if wanted in names:
        return names.index(wanted)
    raise PlanError(
        "objective fewest-gpus needs one resource to count."
        if wanted is None
        else f'objective fewest-gpus counts "{wanted}", which capacity does not name.',
        where="resource",
        fix=f"Name one of: {', '.join(names)}.",
    )


def unlimited(case: Case, resource: int, amount: int) -> Case:
    """The same with so much of a resource that it never binds."""
    return case.with_steps(resource, constant(case.steps[resource], amount))
