"""Running and pinned jobs that need more together than there is: nothing can be moved to mend that, so it is a mistake.

Only what every plan has to hold counts: of a job with several shapes the least of each resource, of one that may be
paused nothing. A job that has no room even alone is not counted: a plan calls it impossible, by name.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gpuyield.errors import Mistake
from gpuyield.model.job import PlanObjective, Problem, amount_at
from gpuyield.plan.case import Case
from gpuyield.plan.instance.board import Task
from gpuyield.plan.instance.schedule import Schedule
from gpuyield.plan.outlook.wording import Clock, named, things
from gpuyield.plan.proof.objective import chosen_resource


@dataclass(frozen=True, slots=True)
class _Held:
    """What a fixed job holds of one resource, at least, and when."""

    task: Task
    from_ms: int
    to_ms: int
    amount: int


@dataclass(frozen=True, slots=True)
class _Clash:
    """The instant of an overloaded span at which most is missing, and who holds the resource then."""

    at_ms: int
    required: int
    there: int
    held: Sequence[_Held]


def clashes(problem: Problem) -> list[Mistake]:
    """One mistake for each span and resource in which fixed jobs need more together than there is.

    Raises:
        PlanError: The problem cannot be built.
    """
    if sum(1 for job in problem.jobs if job.started_ms is not None or job.pinned_ms is not None) < 2:
        return []
    case = Case.of(problem)
    free = chosen_resource(case) if problem.objective is PlanObjective.FEWEST_GPUS else None
    clock = Clock.of(case, Schedule([None] * len(case.board.tasks)))
    return [
        _mistake(case.board.resources[resource], clash, clock)
        for resource in range(len(case.board.resources))
        if resource != free
        for clash in _clashes(case, resource)
    ]


def _clashes(case: Case, resource: int) -> Iterator[_Clash]:
    """The worst instant of each span without a break in which too much is held."""
    held = list(_held(case, resource))
    steps = case.steps[resource]
    changes = sorted({at for one in held for at in (one.from_ms, one.to_ms)} | {at for at, _ in steps if at > 0})
    coming, holding = sorted(held, key=lambda one: one.from_ms, reverse=True), list[_Held]()
    worst: _Clash | None = None
    for at_ms in changes:
        holding = [one for one in holding if one.to_ms > at_ms]
        while coming and coming[-1].from_ms <= at_ms:
            holding.append(coming.pop())
        required, there = sum(one.amount for one in holding), amount_at(steps, at_ms)
        if required > there and len(holding) > 1:
            if worst is None or required - there > worst.required - worst.there:
                worst = _Clash(at_ms, required, there, holding)
        elif worst is not None:
            yield worst
            worst = None


def _held(case: Case, resource: int) -> Iterator[_Held]:
    alone = {one.task for one in case.impossible}
    for task in case.board.tasks:
        if task.fixed_ms is None or task.job.restart_ms is not None or task.index in alone:
            continue
        amount = min(mode.amount(resource) for mode in task.modes)
        end = task.fixed_ms + min(mode.duration_ms for mode in task.modes)
        if amount and end > 0:
            yield _Held(task, max(0, task.fixed_ms), end, amount)


def _mistake(resource: str, clash: _Clash, clock: Clock) -> Mistake:
    ids = sorted(one.task.job.id for one in clash.held)
    running = all(one.task.job.started_ms is not None for one in clash.held)
    any_running = any(one.task.job.started_ms is not None for one in clash.held)
    who = "run" if running else "run or are pinned" if any_running else "are pinned"
    need = f"need {things(clash.required, resource)} together at {clock.say(clash.at_ms)}"
    exist = f"{clash.there or 'none'} exist{'s' if clash.there == 1 else ''}"
    fix = (
        "Leave out what has ended, or correct a run time, a started_at or the capacity."
        if running
        else "Move a pinned_start, or correct a run time or the capacity."
    )
    where = f"job{'' if len(ids) == 1 else 's'} {named(ids)}"
    return Mistake(what=f"they {who}, never moved, and {need}, where {exist}.", where=where, fix=fix)
