"""The earliest end of everything: a schedule, and the latest end that is proven to be too early."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

from gpuyield.model.plan import Certificate, ObjectiveValue
from gpuyield.plan.case import Case
from gpuyield.plan.deadlines import LEARN_TASKS, find_plan, prove, rule_schedules
from gpuyield.plan.instance.budget import Budget
from gpuyield.plan.instance.frame import grid_of
from gpuyield.plan.instance.schedule import Manner, Schedule, ShapeChoice, meets_all
from gpuyield.plan.proof.overload import tightest
from gpuyield.plan.search.bred import bred

MOST_TRIES = 8
"""Ends that are tried for many jobs."""
CLOSELY = 1_000
"""The bound of many jobs is known to such a part of the end."""


@dataclass(frozen=True, slots=True)
class Shortest:
    """The schedule with the earliest end, and the end before which, by the certificate, nothing can end."""

    schedule: Schedule
    bound_ms: int = 0
    certificate: Certificate | None = None


def shortest(case: Case, best: Schedule, seed: int, budget: Budget, better: Callable[[Schedule], Schedule]) -> Shortest:
    """A schedule of all jobs that ends early, and what is proven; hard deadlines stay met.

    List rules, then what is bred from them, then whatever `better` finds; then what is left between bound and end is
    halved: an end has a plan, or is proven to be too early, or stays open.
    """
    if best.missing() or not meets_all(case.board, best):
        return Shortest(best)
    for manner in (Manner(ShapeChoice.EARLIEST), Manner()):
        for schedule in rule_schedules(case, budget, (manner,)):
            if not schedule.missing() and meets_all(case.board, schedule) and schedule.end_ms() < best.end_ms():
                best = schedule
    known = _bounded(case, best, budget)
    if known.schedule.end_ms() > known.bound_ms:
        known = replace(known, schedule=bred(case, known.schedule, known.bound_ms, seed, budget))
    if known.schedule.end_ms() > known.bound_ms:
        known = replace(known, schedule=better(known.schedule))
    return _closed(case, known, budget)


def makespan_objective(schedule: Schedule, known: Shortest) -> ObjectiveValue:
    """The last end in seconds, and the bound; none is said of a plan that leaves jobs out."""
    return ObjectiveValue(
        name="makespan",
        value=Fraction(schedule.end_ms(), 1000),
        bound=None if schedule.missing() else Fraction(known.bound_ms, 1000),
        certificate=known.certificate,
    )


def bounded(case: Case, schedule: Schedule, budget: Budget) -> Shortest:
    """A schedule as it is, with what is proven cheaply."""
    return Shortest(schedule) if schedule.missing() or not schedule.end_ms() else _bounded(case, schedule, budget)


def _bounded(case: Case, best: Schedule, budget: Budget) -> Shortest:
    """Halve for the latest end that an interval (or a job alone) rules out.

    No end before the jobs alone allow it is looked at, and of many jobs none that would raise the bound by little.
    """
    low, high = min(_end_alone(case), best.end_ms()), best.end_ms()
    if low < high and not _ruled_out(ended_by(case, low)):
        high = low
    closely = max(1, high // CLOSELY) if len(case.board.tasks) > LEARN_TASKS else 1
    while high - low >= closely and budget.spend(len(case.board.tasks)):
        middle = (low + high + 1) // 2
        if _ruled_out(ended_by(case, middle - 1)):
            low = middle
        else:
            high = middle - 1
    certificate = prove(ended_by(case, low - 1), budget) if low else None
    return Shortest(best) if certificate is None else Shortest(best, low, certificate)


def _end_alone(case: Case) -> int:
    """The earliest end of everything, were each job alone with those that it waits for."""
    windows = case.windows
    alone = [windows.heads[at] + min(mode.duration_ms for mode in held) for at, held in enumerate(windows.held) if held]
    return max([0, *alone])


def _closed(case: Case, known: Shortest, budget: Budget) -> Shortest:
    """Halve what is left; with many jobs an end that is not reached proves nothing, and few are tried."""
    many = len(case.board.tasks) > LEARN_TASKS
    grid = grid_of(case.board, case.steps)
    low, tried = known.bound_ms // grid, 0
    while (
        low * grid < known.schedule.end_ms()
        and budget.left > 0
        and budget.spend(0)
        and not (many and tried == MOST_TRIES)
    ):
        high = -(-known.schedule.end_ms() // grid) - 1
        middle = low if many and not tried else (low + high) // 2
        tried += 1
        trial = ended_by(case, (middle + 1) * grid - 1)
        found = find_plan(trial, budget, hint=_carried(case, known.schedule, trial))
        if found.schedule is not None and not found.schedule.missing():
            known = replace(known, schedule=_carried(trial, found.schedule, case))
            continue
        low = middle + 1
        proof = prove(trial, budget, known=found) if found.none_exists else None
        if proof is not None:
            known = replace(known, bound_ms=low * grid, certificate=proof)
    return known


def _carried(case: Case, schedule: Schedule, other: Case) -> Schedule:
    """A schedule of one case for another one of the same jobs."""
    by_id = {task.job.id: one for task, one in zip(case.board.tasks, schedule.placed, strict=True)}
    return Schedule([by_id[task.job.id] for task in other.board.tasks])


def ended_by(case: Case, end_ms: int) -> Case:
    """The same where every job must end by an instant."""
    jobs = tuple(
        replace(job, deadline_ms=end_ms if job.deadline_ms is None else min(job.deadline_ms, end_ms))
        for job in case.problem.jobs
    )
    return Case.of(replace(case.problem, jobs=jobs))


def _ruled_out(case: Case) -> bool:
    if case.hard_impossible:
        return True
    return any(tightest(forced, steps) is not None for forced, steps in zip(case.forced, case.steps, strict=True))
