"""Value and bound of each objective."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

from gpuyield.errors import PlanError
from gpuyield.model.plan import Certificate, ObjectiveValue, OnTime
from gpuyield.plan.case import Case
from gpuyield.plan.instance.board import Board, gpus_of
from gpuyield.plan.instance.budget import Budget
from gpuyield.plan.instance.profile import constant
from gpuyield.plan.instance.schedule import Schedule
from gpuyield.plan.kernel.pricing import hard_buyers, on_time_buyers, price_bound
from gpuyield.plan.proof.impossible import on_time_alone
from gpuyield.units import HOUR_MS


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


def unmeetable(case: Case, schedule: Schedule, budget: Budget) -> Certificate | None:
    """Prices that show that not all hard deadlines can be met; None where none were found."""
    buyers = hard_buyers(case)
    found = price_bound(case, buyers, schedule, Fraction(len(buyers) - 1), budget)
    return found.certificate if found is not None and found.weight < len(buyers) else None


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
