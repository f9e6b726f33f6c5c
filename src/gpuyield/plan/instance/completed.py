"""Whatever has no place yet, placed behind what is placed already, exactly."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from gpuyield.plan.instance.profile import Profile
from gpuyield.plan.instance.schedule import (
    Manner,
    Placement,
    Schedule,
    ShapeChoice,
    choose,
    hold,
    in_precedence,
    place_fixed,
)

if TYPE_CHECKING:
    from gpuyield.plan.case import Case


def complete(case: Case, placed: Mapping[int, Placement], *, overrun: bool = False) -> Schedule:
    """The placements kept, and every other job behind them as early as it fits; with `overrun` after its deadline."""
    board, manner = case.board, Manner(ShapeChoice.EARLIEST, overrun=overrun)
    profile = Profile(case.steps)
    rows: list[Placement | None] = [None] * len(board.tasks)
    for at, one in placed.items():
        hold(profile, one)
        rows[at] = one
    for at in board.topological:
        task = board.tasks[at]
        before = [rows[one] for one in task.before]
        if rows[at] is not None or any(one is None for one in before):
            continue
        ends = [one.end_ms for one in before if one is not None]
        if task.fixed_ms is not None:
            rows[at] = place_fixed(profile, task) if all(end <= task.fixed_ms for end in ends) else None
            continue
        ready_ms = max([task.release_ms, *ends])
        best = choose(profile, task, case.windows.tails[at], ready_ms, manner)
        if best is not None:
            hold(profile, best)
            rows[at] = best
    return Schedule(in_precedence(board, rows))
