"""Small problems, settled: is there a plan that meets every hard deadline?

Depth-first over the order of starts. Take a plan with the least sum of starts: with its jobs in order of start,
each runs at the earliest instant that fits behind those before it. So it is enough to try, at every step, each
remaining job as the next one at its earliest fit, never before the last start; and no job may be left waiting that
could run wholly before that fit (it could be moved left), nor the later of two jobs that are alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from gpuyield.plan.instance.board import Board, Mode, Steps, Task
from gpuyield.plan.instance.budget import Budget
from gpuyield.plan.instance.pauses import fewest_parts
from gpuyield.plan.instance.profile import NEVER, Profile
from gpuyield.plan.instance.schedule import Placement, fixed_placement, hold, in_parts
from gpuyield.plan.instance.windows import Windows


class Answer(StrEnum):
    """What the search knows when it ends."""

    PLAN = "plan"
    NONE = "none"
    OPEN = "open"


@dataclass(frozen=True, slots=True)
class Settled:
    """The answer and, with a plan, where the searched tasks run."""

    answer: Answer
    placed: dict[int, Placement]


def bound_tasks(board: Board, windows: Windows) -> list[int]:
    """The tasks that a hard deadline binds: their own, or that of one that waits for them; and the fixed ones.

    Fixed ones that cannot keep their start behind a chain are impossible, and left out.
    """
    found = []
    for task in board.tasks:
        is_free = task.fixed_ms is None
        if (is_free and windows.tails[task.index] is not None) or not (is_free or task.index in windows.stuck):
            found.append(task.index)
    return found


def settle(board: Board, steps: Sequence[Steps], windows: Windows, tasks: Iterable[int], budget: Budget) -> Settled:
    """Search the given tasks to the end, or until the budget is spent; others are left out.

    `NONE` is exact for jobs that run in one piece; whether pausing would help is not looked at.
    """
    return _Search(board, steps, windows, list(tasks), budget).run()


class _Search:
    def __init__(
        self, board: Board, steps: Sequence[Steps], windows: Windows, tasks: list[int], budget: Budget
    ) -> None:
        self.board, self.windows, self.budget = board, windows, budget
        self.profile = Profile(steps)
        self.tasks = [at for at in tasks if board.tasks[at].fixed_ms is None]
        self.fixed = [board.tasks[at] for at in tasks if board.tasks[at].fixed_ms is not None]
        kept = set(tasks)
        self.before = {at: [one for one in board.tasks[at].before if one in kept] for at in tasks}
        self.twins = self._twins(kept)
        self.ends: dict[int, int] = {}
        self.placed: dict[int, Placement] = {}
        self.failed: set[tuple[object, ...]] = set()
        self.areas = {
            at: [
                min((mode.amount(resource) * mode.duration_ms for mode in windows.modes[at]), default=0)
                for resource in range(len(board.resources))
            ]
            for at in self.tasks
        }

    def run(self) -> Settled:
        return self._fix(0)

    def _fix(self, number: int) -> Settled:
        if number == len(self.fixed):
            return Settled(self._step(0), dict(self.placed))
        task = self.fixed[number]
        answers = set()
        for mode in task.modes:
            one = fixed_placement(self.profile, task, mode)
            if one is None:
                continue
            hold(self.profile, one)
            self.placed[task.index], self.ends[task.index] = one, one.end_ms
            self.failed.clear()
            found = self._fix(number + 1)
            if found.answer is Answer.PLAN:
                return found
            answers.add(found.answer)
            hold(self.profile, one, -1)
            del self.placed[task.index], self.ends[task.index]
        return Settled(Answer.OPEN if Answer.OPEN in answers else Answer.NONE, {})

    def _step(self, last_ms: int) -> Answer:
        left = [at for at in self.tasks if at not in self.placed]
        if not left:
            return Answer.PLAN
        if not self.budget.spend(len(left)):
            return Answer.OPEN
        key = self._key(last_ms)
        if key in self.failed:
            return Answer.NONE
        fits = self._fits(left, last_ms)
        if fits is None or self._overfull(left, last_ms):
            self.failed.add(key)
            return Answer.NONE
        for at, found in self._children(left, fits):
            hold(self.profile, found)
            self.placed[at], self.ends[at] = found, found.end_ms
            answer = self._step(found.start_ms)
            if answer is Answer.PLAN:
                return answer
            hold(self.profile, found, -1)
            del self.placed[at], self.ends[at]
            if answer is Answer.OPEN:
                return answer
        self.failed.add(key)
        return Answer.NONE

    def _fits(self, left: Sequence[int], last_ms: int) -> dict[int, list[Placement]] | None:
        """The earliest fits of every job whose predecessors are placed; None where one cannot end in time."""
        fits: dict[int, list[Placement]] = {}
        for at in left:
            task, tail = self.board.tasks[at], self.windows.tails[at]
            ready = all(one in self.placed for one in self.before[at])
            ends = [self.ends[one] for one in self.before[at] if one in self.ends]
            earliest = max([self.windows.heads[at] if not ready else task.release_ms, last_ms, *ends])
            found = []
            for mode in task.modes:
                latest = NEVER if tail is None else tail - mode.duration_ms
                start = self.profile.earliest(mode, earliest, latest)
                if start is not None:
                    found.append(Placement(mode, start))
                    continue
                restart_ms = task.job.restart_ms
                if restart_ms is not None and tail is not None:
                    parts = fewest_parts(self.profile, mode, earliest, tail, restart_ms)
                    found.extend([] if parts is None else [in_parts(mode, parts)])
            if not found:
                return None
            if ready:
                fits[at] = found
        return fits

    def _children(self, left: Sequence[int], fits: dict[int, list[Placement]]) -> list[tuple[int, Placement]]:
        done = sorted((one.end_ms, at) for at, found in fits.items() for one in found)
        remaining = set(left)

        def waits(at: int, start: int) -> bool:
            """Whether another job could run wholly before this start."""
            return any(other != at for end, other in done if end <= start)

        children = [
            (at, one)
            for at, found in fits.items()
            if not any(twin in remaining for twin in self.twins.get(at, ()))
            for one in found
            if not waits(at, one.start_ms)
        ]

        def urgency(child: tuple[int, Placement]) -> tuple[int, int, int]:
            at, one = child
            tail = self.windows.tails[at]
            return (one.start_ms, NEVER if tail is None else tail - one.mode.duration_ms, at)

        return sorted(children, key=urgency)

    def _overfull(self, left: Sequence[int], last_ms: int) -> bool:
        """Whether the jobs due by some instant need more than is free from the last start until then."""
        times = self.profile.times
        due = sorted((tail, at) for at in left if (tail := self.windows.tails[at]) is not None)
        for resource, row in enumerate(self.profile.free):
            need = there = 0
            look = _piece(times, last_ms)
            from_ms = last_ms
            for tail, at in due:
                need += self.areas[at][resource]
                while from_ms < tail:
                    until = min(times[look + 1] if look + 1 < len(times) else NEVER, tail)
                    there += max(0, row[look]) * (until - from_ms)
                    from_ms = until
                    if look + 1 < len(times) and times[look + 1] <= from_ms:
                        look += 1
                if need > there:
                    return True
        return False

    def _key(self, last_ms: int) -> tuple[object, ...]:
        running = tuple(
            sorted(
                (one.end_ms, at, one.mode.shape, one.parts) for at, one in self.placed.items() if one.end_ms > last_ms
            )
        )
        return (frozenset(self.placed), last_ms, running)

    def _twins(self, kept: set[int]) -> dict[int, list[int]]:
        """For each task the earlier ones that are like it in everything but the name."""
        groups: dict[tuple[object, ...], list[int]] = {}
        twins: dict[int, list[int]] = {}
        for at in self.tasks:
            task = self.board.tasks[at]
            alike = _likeness(task, self.windows.tails[at], kept)
            twins[at] = list(groups.setdefault(alike, []))
            groups[alike].append(at)
        return twins


def _likeness(task: Task, tail: int | None, kept: set[int]) -> tuple[object, ...]:
    def kin(ones: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(one for one in ones if one in kept)

    modes: tuple[Mode, ...] = task.modes
    shapes = tuple((mode.demand, mode.duration_ms) for mode in modes)
    return (shapes, task.release_ms, tail, kin(task.before), kin(task.after))


def _piece(times: Sequence[int], at_ms: int) -> int:
    low, high = 0, len(times)
    while high - low > 1:
        middle = (low + high) // 2
        if times[middle] <= at_ms:
            low = middle
        else:
            high = middle
    return low
