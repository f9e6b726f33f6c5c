"""Better plans by large neighbourhoods: a job that is late or given up, and those that run about then, placed anew.

Jobs that are fixed, wait for others or are waited for stay where they are. A change is kept unless it is worse.

Source: large neighbourhood search (Shaw 1998).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpuyield.plan.case import Case
from gpuyield.plan.instance.budget import Budget
from gpuyield.plan.instance.profile import NEVER, Profile
from gpuyield.plan.instance.schedule import Manner, Placement, Schedule, choose, hold

FEWEST, MOST = 4, 24
"""How many jobs are taken out at once."""


def replaced_nearby(case: Case, best: Schedule, seed: int, budget: Budget) -> Schedule:
    """A schedule with as much on time or more, as far as the budget goes; the given one stays as it is."""
    search = _Search(case, best, seed)
    while search.late and budget.spend(2 * search.free_one_and_place_again()):
        pass
    return Schedule(search.placed)


class _Search:
    def __init__(self, case: Case, best: Schedule, seed: int) -> None:
        self.case, self.placed = case, list(best.placed)
        self.chance = np.random.default_rng(seed)
        self.profile = Profile(case.steps)
        for one in self.placed:
            if one is not None:
                hold(self.profile, one)
        tasks = case.board.tasks
        self.wanted = [
            min((end for end in (task.deadline_ms, task.due_ms) if end is not None), default=NEVER) for task in tasks
        ]
        loose = [
            task.index for task in tasks if task.modes and task.fixed_ms is None and not (task.before or task.after)
        ]
        self.starts = np.full(len(tasks), NEVER, dtype=np.int64)
        self.ends = np.full(len(tasks), -NEVER, dtype=np.int64)
        for at in loose:
            self._note(at, self.placed[at])
        self.late = [at for at in loose if self._is_late(at)]

    def free_one_and_place_again(self) -> int:
        """How many jobs were tried: one that is late, and some that run in its window, side by side in time."""
        first = self.late[int(self.chance.integers(len(self.late)))]
        group = [first, *self._around(first)]
        before, old = self._worth(group), [self.placed[at] for at in group]
        self._take_out(group)
        for at in self._shuffled(group):
            task = self.case.board.tasks[at]
            self._put(at, choose(self.profile, task, self.case.windows.tails[at], task.release_ms, Manner()))
        if self._worth(group) < before:
            self._take_out(group)
            for at, one in zip(group, old, strict=True):
                self._put(at, one)
        changed = set(group)
        self.late = [at for at in self.late if at not in changed] + [at for at in group if self._is_late(at)]
        return len(group)

    def _around(self, late: int) -> list[int]:
        low, high = self.case.windows.heads[late], self.wanted[late]
        near = np.flatnonzero((self.starts < high) & (self.ends > low))
        near = near[near != late]
        near = near[np.argsort(self.starts[near], kind="stable")]
        size = int(self.chance.integers(FEWEST, MOST))
        begin = int(self.chance.integers(max(1, len(near) - size + 1)))
        return [int(at) for at in near[begin : begin + size]]

    def _shuffled(self, group: Sequence[int]) -> list[int]:
        """The group by one of the list rules or by chance; the late one, which comes first in it, often first."""
        rule, noise = int(self.chance.integers(4)), self.chance.random(len(group))

        def key(place: int) -> float:
            at = group[place]
            mode = self.case.board.tasks[at].modes[0]
            slack, area = self.wanted[at] - mode.duration_ms, mode.duration_ms * mode.gpus
            return (
                float(slack),
                -area * (0.7 + 0.6 * float(noise[place])),
                float(noise[place]),
                float(self.wanted[at]),
            )[rule]

        places = sorted(range(len(group)), key=lambda place: (key(place), place))
        if self.chance.random() < 0.5:
            places.remove(0)
            places.insert(0, 0)
        return [group[place] for place in places]

    def _take_out(self, group: Sequence[int]) -> None:
        for at in group:
            one = self.placed[at]
            if one is not None:
                hold(self.profile, one, -1)
                self.placed[at] = None
                self._note(at, None)

    def _put(self, at: int, one: Placement | None) -> None:
        self.placed[at] = one
        self._note(at, one)
        if one is not None:
            hold(self.profile, one)

    def _note(self, at: int, one: Placement | None) -> None:
        self.starts[at], self.ends[at] = (NEVER, -NEVER) if one is None else (one.start_ms, one.end_ms)

    def _is_late(self, at: int) -> bool:
        one = self.placed[at]
        return one is None or one.end_ms > self.wanted[at]

    def _worth(self, group: Sequence[int]) -> tuple[object, ...]:
        """How many run, the weight on time, and how little the others are late."""
        runs = [(at, one) for at in group if (one := self.placed[at]) is not None]
        on_time = sum(self.case.board.tasks[at].weight for at, one in runs if one.end_ms <= self.wanted[at])
        return (len(runs), on_time, -sum(max(0, one.end_ms - self.wanted[at]) for at, one in runs))
