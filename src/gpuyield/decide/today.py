"""What happens without a plan: each job starts as soon as it fits, in the order of submission."""

from __future__ import annotations

from dataclasses import dataclass

from gpuyield.model.job import Problem
from gpuyield.plan.instance.board import arrange, in_order
from gpuyield.plan.instance.profile import NEVER, Profile


@dataclass(frozen=True, slots=True, kw_only=True)
class Today:
    """Start of each job in ms from the origin (None: it never fits), and who then ends in time."""

    starts: dict[str, int | None]
    on_time: frozenset[str]


def first_come(problem: Problem) -> Today:
    """Jobs by release, each at the first time at which it fits, none held back for another.

    A job with several shapes takes that which ends first. Running and frozen jobs keep their place.
    """
    board = arrange(problem)
    profile = Profile(board.steps)
    ends: dict[int, int] = {}
    starts: dict[str, int | None] = {task.job.id: None for task in board.tasks}
    wanted = sorted(
        range(len(board.tasks)),
        key=lambda at: (board.tasks[at].fixed_ms is None, board.tasks[at].release_ms, board.tasks[at].job.id),
    )
    for at in in_order(wanted, [task.before for task in board.tasks]):
        task = board.tasks[at]
        if any(one not in ends for one in task.before):
            continue
        ready = max([task.release_ms, *(ends[one] for one in task.before)])
        found = []
        for mode in task.modes:
            if task.fixed_ms is not None:
                start = (
                    task.fixed_ms
                    if profile.fits(mode.demand, task.fixed_ms, task.fixed_ms + mode.duration_ms)
                    else None
                )
            else:
                start = profile.earliest(mode, ready, NEVER)
            if start is not None:
                found.append((start + mode.duration_ms, mode.shape, start, mode))
        if found:
            end, _, start, mode = min(found, key=lambda one: one[:3])
            profile.reserve(mode.demand, start, end)
            ends[at], starts[task.job.id] = end, start
    on_time = frozenset(
        board.tasks[at].job.id
        for at, end in ends.items()
        if all(limit is None or end <= limit for limit in (board.tasks[at].deadline_ms, board.tasks[at].due_ms))
    )
    return Today(starts=starts, on_time=on_time)
