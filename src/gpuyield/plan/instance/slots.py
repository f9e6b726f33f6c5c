"""Few jobs of which some may be paused, settled slot by slot: which of them run in each slot?

The grid is the coarsest that all lengths, restarts, releases, fixed starts and steps of capacity lie on. A plan on it
is a plan. That there is none on it proves nothing: pauses at other instants might help.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gpuyield.plan.instance.board import Board, Mode, Steps, Task
from gpuyield.plan.instance.budget import Budget
from gpuyield.plan.instance.profile import Profile
from gpuyield.plan.instance.schedule import Placement, in_parts
from gpuyield.plan.instance.windows import Windows

MOST_TASKS = 16
MOST_SLOTS = 64


@dataclass(frozen=True, slots=True)
class _Doing:
    """How far a task is: the mode that it has begun in (None: it has not), slots left, whether it ran just now."""

    mode: Mode | None
    left: int
    runs: bool

    def key(self) -> tuple[int, int, bool]:
        """What the rest of the search depends on."""
        return (-1 if self.mode is None else self.mode.shape, self.left, self.runs and self.left > 0)


NOT_YET = _Doing(None, 1, False)


def settle_in_slots(
    board: Board, steps: Sequence[Steps], windows: Windows, tasks: Sequence[int], budget: Budget
) -> dict[int, Placement] | None:
    """Where these tasks run so that all of them end in time; None where no such plan was found."""
    grid_ms = _grid_ms(board, steps, tasks)
    until = max((tail for at in tasks if (tail := windows.tails[at]) is not None), default=0)
    if len(tasks) > MOST_TASKS or not grid_ms or until > MOST_SLOTS * grid_ms:
        return None
    return _Search(board, steps, windows, tasks, grid_ms, budget).run()


def _grid_ms(board: Board, steps: Sequence[Steps], tasks: Sequence[int]) -> int:
    times = [at for one in steps for at, _ in one]
    for task in (board.tasks[at] for at in tasks):
        times += [mode.duration_ms for mode in task.modes]
        times += [task.release_ms, task.fixed_ms or 0, task.job.restart_ms or 0]
    return math.gcd(*times)


class _Search:
    def __init__(
        self,
        board: Board,
        steps: Sequence[Steps],
        windows: Windows,
        tasks: Sequence[int],
        grid_ms: int,
        budget: Budget,
    ) -> None:
        self.tasks: list[Task] = [board.tasks[at] for at in tasks]
        self.place = {task.index: at for at, task in enumerate(self.tasks)}
        self.tails = [windows.tails[at] for at in tasks]
        self.grid_ms, self.budget = grid_ms, budget
        self.profile = Profile(steps)
        self.failed: set[tuple[object, ...]] = set()
        self.slots: list[list[bool]] = []
        self.modes: list[Mode | None] = [None] * len(self.tasks)

    def run(self) -> dict[int, Placement] | None:
        """The plan found."""
        doing = [self._at_origin(task) for task in self.tasks]
        return self._placed() if self._from(0, doing) else None

    def _at_origin(self, task: Task) -> _Doing:
        """A task that has begun before the origin is tried in its first mode that is not over."""
        if task.fixed_ms is None or task.fixed_ms >= 0 or not task.modes:
            return NOT_YET
        mode = task.modes[0]
        return _Doing(mode, max(0, mode.duration_ms + task.fixed_ms) // self.grid_ms, True)

    def _from(self, slot: int, doing: list[_Doing]) -> bool:
        if all(one.mode is not None and not one.left for one in doing):
            self.modes = [one.mode for one in doing]
            return True
        key = (slot, *(one.key() for one in doing))
        if key in self.failed or not self.budget.spend(len(doing)):
            return False
        options = [list(self._options(at, slot, doing)) for at in range(len(doing))]
        if all(options):
            order = sorted(range(len(doing)), key=lambda at: (self.tails[at] is None, self.tails[at] or 0, at))
            free = self._free(slot)
            for chosen in self._choices(order, options, free, {}):
                after = [chosen[at] for at in range(len(doing))]
                self.slots.append([one.runs for one in after])
                if self._from(slot + 1, after):
                    return True
                self.slots.pop()
        self.failed.add(key)
        return False

    def _free(self, slot: int) -> list[int]:
        at = max(place for place, time in enumerate(self.profile.times) if time <= slot * self.grid_ms)
        return [row[at] for row in self.profile.free]

    def _options(self, at: int, slot: int, doing: list[_Doing]) -> Iterator[_Doing]:
        """What a task may be after this slot; what runs comes first."""
        task, one = self.tasks[at], doing[at]
        if one.mode is not None and not one.left:
            yield _Doing(one.mode, 0, False)
            return
        if one.mode is None:
            yield from self._begun(at, slot, doing)
            return
        restart = 0 if one.runs or task.job.restart_ms is None else task.job.restart_ms // self.grid_ms
        going_on = _Doing(one.mode, one.left + restart - 1, True)
        if self._in_time(at, slot, one.left + restart):
            yield going_on
        waiting = _Doing(one.mode, one.left, False)
        later = 0 if task.job.restart_ms is None else task.job.restart_ms // self.grid_ms
        if task.job.restart_ms is not None and self._in_time(at, slot + 1, one.left + later):
            yield waiting

    def _begun(self, at: int, slot: int, doing: list[_Doing]) -> Iterator[_Doing]:
        task, now = self.tasks[at], slot * self.grid_ms
        ready = all(self._is_over(doing, number) for number in task.before)
        on_time = now >= task.release_ms if task.fixed_ms is None else now == task.fixed_ms
        if ready and on_time:
            for mode in task.modes:
                length = mode.duration_ms // self.grid_ms
                if self._in_time(at, slot, length):
                    yield _Doing(mode, length - 1, True)
        shortest = min((mode.duration_ms // self.grid_ms for mode in task.modes), default=0)
        if (task.fixed_ms is None or now < task.fixed_ms) and task.modes and self._in_time(at, slot + 1, shortest):
            yield NOT_YET

    def _is_over(self, doing: list[_Doing], number: int) -> bool:
        one = doing[self.place[number]] if number in self.place else None
        return one is not None and one.mode is not None and not one.left

    def _in_time(self, at: int, slot: int, slots: int) -> bool:
        tail = self.tails[at]
        return (slot + slots) * self.grid_ms <= tail if tail is not None else slot + slots <= 2 * MOST_SLOTS

    def _choices(
        self, order: Sequence[int], options: Sequence[Sequence[_Doing]], free: list[int], chosen: dict[int, _Doing]
    ) -> Iterator[dict[int, _Doing]]:
        """Every way to go on with all tasks that the capacity of the slot holds."""
        if not order:
            yield dict(chosen)
            return
        first, *others = order
        for one in options[first]:
            demand = one.mode.demand if one.runs and one.mode is not None else ()
            if any(free[resource] < amount for resource, amount in demand):
                continue
            left = list(free)
            for resource, amount in demand:
                left[resource] -= amount
            chosen[first] = one
            yield from self._choices(others, options, left, chosen)

    def _placed(self) -> dict[int, Placement]:
        found: dict[int, Placement] = {}
        for at, task in enumerate(self.tasks):
            mode = self.modes[at]
            assert mode is not None
            parts: list[tuple[int, int]] = []
            if task.fixed_ms is not None and task.fixed_ms < 0:
                parts.append((task.fixed_ms, 0))
            for slot, runs in enumerate(self.slots):
                if runs[at]:
                    low, high = slot * self.grid_ms, (slot + 1) * self.grid_ms
                    begins = parts.pop()[0] if parts and parts[-1][1] == low else low
                    parts.append((begins, high))
            found[task.index] = in_parts(mode, tuple(parts))
        return found
