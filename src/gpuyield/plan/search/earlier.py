"""Nothing waits without a reason: each job of a finished schedule moved as early as the others leave room for it."""

from __future__ import annotations

from collections.abc import Sequence

from gpuyield.plan.instance.board import Board, Steps
from gpuyield.plan.instance.profile import Profile
from gpuyield.plan.instance.schedule import Placement, Schedule, hold

MOST_TASKS = 10_000
"""Beyond so many jobs that takes longer than it is worth."""


def as_early_as_it_fits(board: Board, steps: Sequence[Steps], schedule: Schedule) -> Schedule:
    """The schedule with each job in one piece moved forward, in order of starts; none ends later.

    Fixed jobs and such as are paused stay where they are. What was full before a job's start is full before its new
    one: those that started before it have only moved forward.
    """
    if len(board.tasks) > MOST_TASKS:
        return schedule
    placed: list[Placement | None] = list(schedule.placed)
    profile = Profile(steps)
    movable: list[tuple[int, int, int]] = []
    rank = {at: place for place, at in enumerate(board.topological)} if board.chained else {}
    for at, one in enumerate(placed):
        if one is None:
            continue
        if one.parts or board.tasks[at].fixed_ms is not None:
            hold(profile, one)
        else:
            movable.append((one.start_ms, rank.get(at, 0), at))
    for start_ms, _, at in sorted(movable):
        task, one = board.tasks[at], placed[at]
        assert one is not None
        ready_ms = max([task.release_ms, *(before.end_ms for number in task.before if (before := placed[number]))])
        earliest = profile.earliest(one.mode, ready_ms, start_ms)
        if earliest is not None and earliest < start_ms:
            placed[at] = one = Placement(one.mode, earliest)
        hold(profile, one)
    return Schedule(placed)
