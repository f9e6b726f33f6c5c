"""The working copy of a plan in force: what is free, and who could be moved, kept up to date as jobs are moved."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from gpuyield.plan.instance.board import Mode
from gpuyield.plan.instance.profile import NEVER
from gpuyield.plan.instance.schedule import Placement, hold
from gpuyield.plan.instance.usage import profile_of
from gpuyield.plan.online.standing import Standing


class Live:
    """Placements by id, the profile of what they leave free, and the same as columns by `names`.

    `starts` and `ends` are `NEVER` and `-NEVER` where a job has no place; `demand` is by resource. Frozen is what
    started before `frozen_until_ms` at the outset.
    """

    def __init__(self, standing: Standing, *, frozen_until_ms: int) -> None:
        self.tasks, self.now = standing.tasks, standing.now_ms
        self.placed = dict(standing.placed)
        self.behind = standing.followers()
        self.chained = [name for name in self.tasks if self.tasks[name].job.after] if self.behind else []
        self.profile = profile_of(standing.steps, self.placed.values(), self.now)
        self.names = list(self.tasks)
        self.place_of = {name: at for at, name in enumerate(self.names)}
        self.starts = np.full(len(self.names), NEVER, dtype=np.int64)
        self.ends = np.full(len(self.names), -NEVER, dtype=np.int64)
        self.demand = np.zeros((len(self.names), len(standing.resources)), dtype=np.int64)
        self._note_all()
        self.frozen = self.starts < frozen_until_ms

    def put(self, name: str, one: Placement) -> None:
        """Give a job its place."""
        self.placed[name] = one
        hold(self.profile, one)
        self._note(name, one)

    def take_out(self, name: str) -> None:
        """Take its place from a job."""
        hold(self.profile, self.placed.pop(name), -1)
        self._note(name, None)

    def _note_all(self) -> None:
        where = np.array([self.place_of[name] for name in self.placed], dtype=np.int64)
        self.starts[where] = [one.start_ms for one in self.placed.values()]
        self.ends[where] = [one.end_ms for one in self.placed.values()]
        held = [(at, *part) for at, one in enumerate(self.placed.values()) for part in one.mode.demand]
        rows = np.array(held, dtype=np.int64).reshape(-1, 3)
        self.demand[where[rows[:, 0]], rows[:, 1]] = rows[:, 2]

    def _note(self, name: str, one: Placement | None) -> None:
        at = self.place_of[name]
        self.starts[at], self.ends[at] = (NEVER, -NEVER) if one is None else (one.start_ms, one.end_ms)
        self.demand[at] = 0
        for resource, amount in () if one is None else one.mode.demand:
            self.demand[at, resource] = amount

    def movable(
        self, from_ms: int, to_ms: int, resource: int, *, may_be_frozen: bool = False, leads_nobody: bool = False
    ) -> str | None:
        """Of the jobs that hold a resource in a span and may be moved, that which could end latest and be in time."""
        held = (self.starts < to_ms) & (self.ends > from_ms) & (self.demand[:, resource] > 0)
        may = (self.starts > self.now) & ~self._fixed & (~self.frozen | may_be_frozen)
        found = np.flatnonzero(held & may & ~self._leads if leads_nobody else held & may)
        if not len(found):
            return None
        spare = self._wanted[found] - self.ends[found]
        return min(self.names[int(at)] for at in found[spare == spare.max()])

    @cached_property
    def _wanted(self) -> NDArray[np.int64]:
        return np.array([self.wanted(name) for name in self.names], dtype=np.int64)

    @cached_property
    def _fixed(self) -> NDArray[np.bool_]:
        return np.array([task.fixed_ms is not None for task in self.tasks.values()], dtype=np.bool_)

    @cached_property
    def _leads(self) -> NDArray[np.bool_]:
        """Who is waited for."""
        return np.array([name in self.behind for name in self.names], dtype=np.bool_)

    def wanted(self, name: str) -> int:
        """The end at which a job is in time (`NEVER`: it has none)."""
        task = self.tasks[name]
        return min((end for end in (task.deadline_ms, task.due_ms) if end is not None), default=NEVER)

    def head(self, name: str) -> int:
        """When a job may start."""
        return max([self.tasks[name].release_ms, self.now, *(self.end_of(one) for one in self.waited_for(name))])

    def waited_for(self, name: str) -> list[str]:
        """What a job waits for that is not over."""
        after = self.tasks[name].job.after
        return [other for other in after if other in self.tasks] if after else []

    def end_of(self, name: str) -> int:
        """When a job ends (`NEVER`: it has no place)."""
        one = self.placed.get(name)
        return NEVER if one is None else one.end_ms

    def lack(self, mode: Mode, start: int) -> int:
        """How much of a resource is missing at most for a run at an instant; below 1: it fits."""
        times = self.profile.times
        low, high = bisect_right(times, start) - 1, bisect_left(times, start + mode.duration_ms)
        return max(amount - min(self.profile.free[at][low:high]) for at, amount in mode.demand)

    def shortage(self, wish: Placement) -> tuple[int, int, int] | None:
        """The first span in which a placement does not fit, and the resource that is short."""
        times = self.profile.times
        low = bisect_right(times, wish.start_ms) - 1
        for at in range(low, len(times)):
            if times[at] >= wish.end_ms:
                return None
            for resource, amount in wish.mode.demand:
                if self.profile.free[resource][at] < amount:
                    from_ms = max(times[at], wish.start_ms)
                    to_ms = times[at + 1] if at + 1 < len(times) else NEVER
                    return from_ms, to_ms, resource
        return None
