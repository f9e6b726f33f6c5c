"""Change a plan in force as little as what happened asks for, and say of every job that moves why.

Every job keeps its start unless it has to move: because it no longer fits, because what it waits for ends later, or
to make room for one that would be late otherwise; and those that can start right now on GPUs that came free do. What
runs is never moved, and what starts within the freeze window only if it can no longer start then. A job that had a
place keeps one, unless more weight is on time without it; so the plan never falls behind the one that it starts from.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

import numpy as np

from gpuyield.plan.instance.board import Task
from gpuyield.plan.instance.budget import Budget
from gpuyield.plan.instance.order import in_order
from gpuyield.plan.instance.profile import NEVER
from gpuyield.plan.instance.schedule import Manner, Placement, choose
from gpuyield.plan.online.events import Event
from gpuyield.plan.online.reasons import Reasons
from gpuyield.plan.online.standing import Standing
from gpuyield.plan.online.working_copy import Live
from gpuyield.units import MINUTE_MS

FREEZE_MS = 10 * MINUTE_MS
"""Jobs that start within so long keep their start."""

WORK = 200
"""Placements that making room may try in one replan."""

TRIED_STARTS, TRIED = 16, 4
"""Starts looked at for a job that needs room, and how many of them are tried."""

MOST_MOVED = 12
"""Jobs that may make room for one."""

BROUGHT = 2_000
"""Jobs that are looked at for room earlier than they start."""

PULLED = 200
"""Jobs that are looked at for GPUs that are free now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A job whose start or shape changed; `after` None: it lost its place. `why` is a sentence."""

    job: str
    before: Placement
    after: Placement | None
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Replanned:
    """The plan after what happened, and what moved in it, by id."""

    standing: Standing
    moves: tuple[Move, ...]
    given_up: tuple[str, ...]


def replan(
    standing: Standing,
    events: Sequence[Event],
    *,
    now_ms: int,
    freeze_ms: int = FREEZE_MS,
    work: int = WORK,
    bring_forward: bool = False,
) -> Replanned:
    """The plan after these events, changed as little as they ask for.

    With `bring_forward` jobs without a deadline or due time run as early as there is room for them.

    Raises:
        PlanError: An event does not fit the plan.
    """
    changed = standing.after(events, now_ms)
    changing = _Replan(changed, Reasons.of(standing, events), freeze_ms, Budget(work))
    return changing.run(bring_forward=bring_forward)


class _Replan:
    def __init__(self, standing: Standing, reasons: Reasons, freeze_ms: int, budget: Budget) -> None:
        self.given, self.reasons, self.budget = standing, reasons, budget
        self.tasks, self.now = standing.tasks, standing.now_ms
        self.live = Live(standing, frozen_until_ms=standing.now_ms + freeze_ms)
        self.why: dict[str, str] = {}

    def run(self, *, bring_forward: bool) -> Replanned:
        displaced = self._take_out_what_no_longer_fits()
        waiting = [name for name in self.live.names if name not in self.live.placed and name not in displaced]
        for name in self._in_turn([*displaced, *waiting]):
            self._place(name)
        self._start_on_free_gpus()
        if bring_forward:
            self._bring_forward()
        return self._replanned()

    def _replanned(self) -> Replanned:
        moves = []
        for name, old in self.given.placed.items():
            new = self.live.placed.get(name)
            if new is not old and new != old:
                why = self.reasons.moved(old, new, self.why[name])
                moves.append(Move(job=name, before=old, after=new, why=why))
        standing = replace(self.given, placed=self.live.placed)
        given_up = tuple(name for name in self.live.names if name not in self.live.placed)
        return Replanned(standing=standing, moves=tuple(moves), given_up=given_up)

    # What no longer fits.

    def _take_out_what_no_longer_fits(self) -> list[str]:
        gone: list[str] = []
        for may_be_frozen in (False, True):
            for resource in range(len(self.live.profile.free)):
                gone += self._relieve(resource, may_be_frozen=may_be_frozen)
            gone += self._chained_too_early(may_be_frozen=may_be_frozen)
        return gone

    def _relieve(self, resource: int, *, may_be_frozen: bool) -> list[str]:
        """Take out jobs until there is enough of a resource, those that can wait longest first."""
        gone: list[str] = []
        row, times = self.live.profile.free[resource], self.live.profile.times
        if min(row) >= 0:
            return gone
        first = bisect_left(times, self.now)
        while True:
            short = next((at for at in range(first, len(row)) if row[at] < 0), None)
            if short is None:
                return gone
            at_ms = times[short]
            name = self.live.movable(at_ms, at_ms + 1, resource, may_be_frozen=may_be_frozen)
            if name is None:
                first = short + 1
                continue
            self.why[name] = self.reasons.too_few(resource, at_ms)
            self.live.take_out(name)
            gone.append(name)

    def _chained_too_early(self, *, may_be_frozen: bool) -> list[str]:
        gone = []
        waits = [(self.live.placed[name].start_ms, name) for name in self.live.chained if name in self.live.placed]
        for _, name in sorted(waits):
            one, at = self.live.placed[name], self.live.place_of[name]
            if one.start_ms <= self.now or (self.live.frozen[at] and not may_be_frozen):
                continue
            late = [other for other in self.live.waited_for(name) if self.live.end_of(other) > one.start_ms]
            if late:
                self.why[name] = self.reasons.waits(late[0], self.live.placed.get(late[0]))
                self.live.take_out(name)
                gone.append(name)
        return gone

    # Where to.

    def _in_turn(self, names: Sequence[str]) -> list[str]:
        """The most urgent first, and nobody before what it waits for."""
        if not names:
            return []
        ranked = sorted(names, key=lambda name: (self._latest_start(name), name))
        number = {name: at for at, name in enumerate(ranked)}
        before = [tuple(number[one] for one in self.tasks[name].job.after if one in number) for name in ranked]
        return [ranked[at] for at in in_order(range(len(ranked)), before)]

    def _latest_start(self, name: str) -> int:
        shortest = min((mode.duration_ms for mode in self.tasks[name].modes), default=0)
        return self.live.wanted(name) - shortest

    def _place(self, name: str) -> None:
        """Where there is room for it, in time if that can be; else others make room, else it is late or given up."""
        if name in self.live.placed or any(other not in self.live.placed for other in self.live.waited_for(name)):
            return
        found = self._earliest(name)
        if found is not None and found.end_ms <= self.live.wanted(name):
            self.live.put(name, found)
        elif self._make_room(name):
            return
        elif found is not None:
            self.live.put(name, found)
        elif self.tasks[name].fixed_ms is not None:
            self._put_fixed(name)

    def _put_fixed(self, name: str) -> None:
        """Where it is fixed, if that is still to come, in time, and there is room."""
        task = self.tasks[name]
        start = task.fixed_ms
        if start is None or start < self.live.head(name):
            return
        for mode in task.modes:
            end = start + mode.duration_ms
            in_time = task.deadline_ms is None or end <= task.deadline_ms
            if in_time and self.live.profile.fits(mode.demand, start, end):
                self.live.put(name, Placement(mode, start))
                return

    def _earliest(self, name: str) -> Placement | None:
        """The earliest place that leaves those that wait for it where they are; None without one."""
        task = self._bound(name)
        if task.fixed_ms is not None:
            return None
        return choose(self.live.profile, task, task.limit_ms, self.live.head(name), Manner())

    def _bound(self, name: str) -> Task:
        """The job with the latest end at which nobody who waits for it has to move."""
        task = self.tasks[name]
        limits = [self.live.placed[one].start_ms for one in self.live.behind.get(name, ()) if one in self.live.placed]
        if not limits:
            return task
        limit = min([*limits, *([task.deadline_ms] if task.deadline_ms is not None else [])])
        return replace(task, deadline_ms=limit, limit_ms=limit)

    # Making room.

    def _make_room(self, name: str) -> bool:
        """Place a job in time by moving others that stay in time; True if it worked."""
        task = self._bound(name)
        wanted = min(self.live.wanted(name), NEVER if task.limit_ms is None else task.limit_ms)
        if self.live.wanted(name) == NEVER or task.fixed_ms is not None:
            return False
        head = self.live.head(name)
        tries = [
            (self.live.lack(mode, start), start, mode.shape, mode)
            for mode in task.modes
            for start in self._some_starts(head, wanted - mode.duration_ms)
        ]
        for _, start, _, mode in sorted(tries, key=lambda one: one[:3])[:TRIED]:
            if not self.budget.spend(1):
                return False
            if self._make_room_at(name, Placement(mode, start)):
                return True
        return False

    def _some_starts(self, first: int, last: int) -> Iterable[int]:
        if last < first:
            return []
        times = self.live.profile.times
        between = range(bisect_right(times, first), bisect_left(times, last))
        step = max(1, -(-len(between) // (TRIED_STARTS - 2)))
        return sorted({first, last, *(times[at] for at in between[::step])})

    def _make_room_at(self, name: str, wish: Placement) -> bool:
        before = self._weight_on_time(name)
        moved: dict[str, Placement] = {}
        while (short := self.live.shortage(wish)) is not None:
            able = self.live.movable(*short, leads_nobody=True)
            if able is None or len(moved) >= MOST_MOVED or not self.budget.spend(1):
                self._undo(moved)
                return False
            moved[able] = self.live.placed[able]
            before += self._weight_on_time(able)
            self.live.take_out(able)
        self.live.put(name, wish)
        for one in self._in_turn(list(moved)):
            found = self._earliest(one) if self.budget.spend(1) else None
            if found is not None:
                self.live.put(one, found)
        after = sum(map(self._weight_on_time, (name, *moved)), start=Decimal(0))
        if not self._is_worth(name, after - before, [one for one in moved if one not in self.live.placed]):
            self.live.take_out(name)
            self._undo(moved)
            return False
        for one, old in moved.items():
            if self.live.placed.get(one) != old:
                self.why.setdefault(one, self.reasons.makes_room(name, self.live.wanted(name)))
        return True

    def _is_worth(self, name: str, gain: Decimal, lost: Sequence[str]) -> bool:
        """Whether a place for a job is worth what it costs others: hard deadlines first, then the weight on time."""
        if self.tasks[name].deadline_ms is None:
            return gain > 0 and not lost
        if lost:
            return gain > 0
        return gain >= 0 or all(other in self.live.placed for other, task in self.tasks.items() if task.is_hard)

    def _weight_on_time(self, name: str) -> Decimal:
        one = self.live.placed.get(name)
        wanted = self.live.wanted(name)
        in_time = one is not None and wanted < NEVER and one.end_ms <= wanted
        return self.tasks[name].weight if in_time else Decimal(0)

    def _undo(self, moved: dict[str, Placement]) -> None:
        for name in moved:
            if name in self.live.placed:
                self.live.take_out(name)
        for name, old in moved.items():
            self.live.put(name, old)

    # Room that is there now, or earlier.

    def _bring_forward(self) -> None:
        for at in np.argsort(self.live.starts, kind="stable")[:BROUGHT].tolist():
            name = self.live.names[at]
            old = self.live.placed.get(name)
            if old is None or old.start_ms <= self.now or self.tasks[name].fixed_ms is not None:
                continue
            if self.live.wanted(name) == NEVER:
                self.live.take_out(name)
                found = self._earliest(name)
                better = found is not None and found.end_ms < old.end_ms
                self.live.put(name, found if found is not None and better else old)
                if better:
                    self.why[name] = self.reasons.came_free()

    def _start_on_free_gpus(self) -> None:
        now = max(0, bisect_right(self.live.profile.times, self.now) - 1)
        free = np.array([row[now] for row in self.live.profile.free], dtype=np.int64)
        may = (
            (self.live.starts > self.now)
            & (self.live.starts < NEVER)
            & ~self.live.frozen
            & (self.live.demand <= free).all(axis=1)
        )
        ready = np.flatnonzero(may)
        for at in ready[np.argsort(self.live.starts[ready], kind="stable")][:PULLED].tolist():
            name = self.live.names[at]
            old, task = self.live.placed[name], self.tasks[name]
            if task.fixed_ms is not None or old.parts or self.live.head(name) > self.now:
                continue
            end = min(self.now + old.mode.duration_ms, old.start_ms)
            if self.live.profile.fits(old.mode.demand, self.now, end):
                self.live.take_out(name)
                self.live.put(name, Placement(old.mode, self.now))
                self.why[name] = self.reasons.came_free()
