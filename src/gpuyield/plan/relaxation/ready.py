"""Relaxations of large problems, read off plans that are known already instead of searched for.

The plan on fewer or more GPUs shows how many more are needed, and when; the best plan shows what to leave out; and
placing that behind the others shows how much later its deadlines would have to be.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpuyield.model.plan import AddGpus, Drop, GpuNeed, MoveDeadline, Relaxation
from gpuyield.plan.case import Case
from gpuyield.plan.instance.budget import Budget
from gpuyield.plan.instance.schedule import Schedule
from gpuyield.plan.relaxation.behind import behind, lateness
from gpuyield.plan.search.large import behind_all

EXACT_TASKS = 10_000
"""Beyond so many jobs an exact place for each takes too long."""


def ready_relaxations(case: Case, best: Schedule, needs: Sequence[GpuNeed], budget: Budget) -> list[Relaxation]:
    """The relaxations, in the order add-gpus, move-deadline, drop; none of them is said to be irreducible."""
    found: list[Relaxation] = []
    for need in needs:
        added = _added(case, need)
        if added is not None:
            found.append(added)
            break
    others = (_moved(case, best, budget), _dropped(case, best))
    return [*found, *(one for one in others if one is not None)]


def _added(case: Case, need: GpuNeed) -> AddGpus | None:
    """What the plan on a constant amount holds beyond the capacity, from its first to its last instant."""
    if need.needed is None or len(need.witness) < len(case.board.tasks):
        return None
    resource = case.board.resources.index(need.resource)
    steps = case.steps[resource]
    jobs = {task.job.id: task.job for task in case.board.tasks}
    rows = [
        (max(0, from_ms), to_ms, jobs[name].shapes[run.shape].demand.get(need.resource, 0))
        for name, run in need.witness.items()
        for from_ms, to_ms in run.segments
        if to_ms > 0
    ]
    starts, ends, amounts = np.array(rows, dtype=np.int64).T
    times = np.unique(np.concatenate([starts, ends, np.array([0, *(max(0, at) for at, _ in steps)], dtype=np.int64)]))
    held = np.zeros(len(times), dtype=np.int64)
    np.add.at(held, np.searchsorted(times, starts), amounts)
    np.subtract.at(held, np.searchsorted(times, ends), amounts)
    held = np.cumsum(held)
    begins = np.array([at for at, _ in steps], dtype=np.int64)
    there = np.array([0, *(amount for _, amount in steps)], dtype=np.int64)
    lacking = held - there[np.searchsorted(begins, times, side="right")]
    short = np.flatnonzero(lacking > 0)
    if not len(short):
        return None
    return AddGpus(
        resource=need.resource,
        amount=int(lacking.max()),
        from_ms=int(times[short[0]]),
        to_ms=int(times[short[-1] + 1]),
        witness=need.witness,
    )


def _moved(case: Case, best: Schedule, budget: Budget) -> MoveDeadline | None:
    """How late what the best plan gives up would be behind it: exactly, or of very many jobs on the kernel's slots."""
    exactly = len(case.board.tasks) <= EXACT_TASKS
    schedule = behind(case, best) if exactly else behind_all(case, best, budget)
    if schedule is None or schedule.missing():
        return None
    moved = lateness(case, schedule)
    return MoveDeadline(jobs=tuple(sorted(moved)), witness=case.runs(schedule)) if moved else None


def _dropped(case: Case, best: Schedule) -> Drop | None:
    """What the best plan gives up."""
    gone = sorted(case.board.tasks[at].job.id for at in best.missing())
    if not gone or len(gone) == len(case.board.tasks):
        return None
    return Drop(jobs=tuple(gone), witness=case.runs(best))
