"""What must hold for each job after some decisions: earliest start, latest start, usable shapes.

The words are those of `docs/reference/certificates.md`, because the search tree that grows from a frame is replayed
by `verify` from the same words. Narrowing spreads along precedence and along decided orders until nothing changes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from gpuyield.plan.instance.board import Board, Mode, Steps, holds
from gpuyield.plan.instance.profile import NEVER, most_between

FAR = NEVER // 2


class Frame:
    """Heads, ends, last starts and usable modes by task; copies share what they do not change."""

    __slots__ = ("before", "behind", "board", "dead", "ends", "grid_ms", "heads", "lasts", "modes", "most")

    def __init__(self, board: Board, steps: Sequence[Steps], grid_ms: int) -> None:
        tasks = board.tasks
        self.board, self.grid_ms, self.dead = board, grid_ms, False
        self.most = [most_between(one, 0, NEVER) for one in steps]
        self.heads = [task.release_ms if task.fixed_ms is None else task.fixed_ms for task in tasks]
        self.ends = [NEVER if task.deadline_ms is None else task.deadline_ms for task in tasks]
        self.lasts = [NEVER if task.fixed_ms is None else task.fixed_ms for task in tasks]
        self.before = [task.before for task in tasks]
        self.behind = [task.after for task in tasks]
        self.modes: list[tuple[Mode, ...]] = [
            tuple(mode for mode in task.modes if holds(self.most, mode)) for task in tasks
        ]
        for at in board.topological:
            self._raise_head(at)
        for at in reversed(board.topological):
            self._lower_end(at)
        self.dead = any(self.must_run(at) and not self.usable(at) for at in range(len(tasks)))

    def must_run(self, at: int) -> bool:
        """Whether something binds it."""
        return self.ends[at] < FAR or self.lasts[at] < FAR

    def latest_start(self, at: int, mode: Mode) -> int:
        """The latest start in a mode, on the grid."""
        latest = min(self.ends[at] - mode.duration_ms, self.lasts[at])
        return latest if latest >= FAR or self.grid_ms == 1 else latest // self.grid_ms * self.grid_ms

    def usable(self, at: int) -> list[Mode]:
        """The modes that still fit."""
        return [mode for mode in self.modes[at] if self.latest_start(at, mode) >= self.heads[at]]

    def clash(self, one: int, other: int) -> bool:
        """Whether the two can never run at once, whatever their usable shapes."""
        return all(
            any(amount + second.amount(resource) > self.most[resource] for resource, amount in first.demand)
            for first in self.usable(one)
            for second in self.usable(other)
        )

    def starting_before(self, at: int, at_ms: int) -> Frame:
        """It starts before an instant."""
        twin = self._copy()
        twin.lasts[at] = min(self.lasts[at], at_ms - 1)
        return twin._spread([at])

    def starting_from(self, at: int, at_ms: int) -> Frame:
        """It starts at an instant or later."""
        twin = self._copy()
        twin.heads[at] = max(self.heads[at], at_ms)
        return twin._spread([at])

    def ending_by(self, at: int, end_ms: int) -> Frame:
        """It runs and ends by an instant."""
        twin = self._copy()
        twin.ends[at] = min(self.ends[at], end_ms)
        return twin._spread([at])

    def ordered(self, first: int, second: int) -> Frame:
        """The first ends before the second starts."""
        twin = self._copy()
        if self._leads(second, first):
            twin.dead = True
            return twin
        twin.before[second] = (*self.before[second], first)
        twin.behind[first] = (*self.behind[first], second)
        return twin._spread([first, second])

    def with_mode(self, at: int, mode: Mode) -> Frame:
        """It runs in one of its modes."""
        twin = self._copy()
        twin.modes[at] = (mode,)
        return twin._spread([at])

    def leads(self, first: int, last: int) -> bool:
        """Whether precedence or a decision already puts one before the other."""
        return self._leads(first, last)

    def _copy(self) -> Frame:
        twin = object.__new__(Frame)
        twin.board, twin.grid_ms, twin.dead, twin.most = self.board, self.grid_ms, self.dead, self.most
        twin.heads, twin.ends, twin.lasts = self.heads.copy(), self.ends.copy(), self.lasts.copy()
        twin.before, twin.behind, twin.modes = self.before.copy(), self.behind.copy(), self.modes.copy()
        return twin

    def _spread(self, changed: list[int]) -> Frame:
        waiting = changed
        while waiting:
            at = waiting.pop()
            self._raise_head(at)
            self._lower_end(at)
            if self.must_run(at) and not self.usable(at):
                self.dead = True
                return self
            for other in (*self.behind[at], *self.before[at]):
                raised, lowered = self._raise_head(other), self._lower_end(other)
                if raised or lowered:
                    waiting.append(other)
        return self

    def _raise_head(self, at: int) -> bool:
        head = self.heads[at]
        for one in self.before[at]:
            shortest = min((mode.duration_ms for mode in self.usable(one)), default=None)
            if shortest is None:
                self.modes[at] = ()
                continue
            head = max(head, self.heads[one] + shortest)
        if self.grid_ms > 1:
            head = -(-head // self.grid_ms) * self.grid_ms
        moved = head > self.heads[at]
        self.heads[at] = head
        return moved

    def _lower_end(self, at: int) -> bool:
        end = self.ends[at]
        for one in self.behind[at]:
            latest = max((self.latest_start(one, mode) for mode in self.usable(one)), default=None)
            if latest is not None:
                end = min(end, latest)
        moved = end < self.ends[at]
        self.ends[at] = end
        return moved

    def _leads(self, first: int, last: int) -> bool:
        waiting, seen = [first], {first}
        while waiting:
            at = waiting.pop()
            if at == last:
                return True
            fresh = [one for one in self.behind[at] if one not in seen]
            seen.update(fresh)
            waiting.extend(fresh)
        return False


def grid_of(board: Board, steps: Sequence[Steps]) -> int:
    """The coarsest grid on which looking at starts loses nothing; 1 where a job may be paused.

    It divides every duration, every release after the origin, every rise of a capacity and every fixed start.
    """
    if any(task.job.restart_ms is not None for task in board.tasks):
        return 1
    found = 0
    for task in board.tasks:
        for mode in task.job.shapes:
            found = math.gcd(found, mode.duration_ms)
        found = math.gcd(found, max(0, task.job.release_ms))
        for fixed in (task.job.started_ms, task.job.pinned_ms):
            found = math.gcd(found, abs(fixed or 0))
    for one in steps:
        have = 0
        for from_ms, amount in one:
            if amount > have:
                found = math.gcd(found, abs(from_ms))
            have = amount
    return max(1, found)
