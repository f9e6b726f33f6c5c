"""Serial schedule generation: one job after another, each as early as it fits; list rules; the best is kept.

Source: serial schedule generation scheme (Kelley 1963); list rules EDF, least slack, weight density.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction

from gpuyield.model.plan import Run
from gpuyield.plan.instance.board import Board, Mode, Steps, Task
from gpuyield.plan.instance.order import in_order
from gpuyield.plan.instance.pauses import Parts, earliest_parts, fewest_parts
from gpuyield.plan.instance.profile import NEVER, Profile
from gpuyield.plan.instance.windows import Windows


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a task runs; `parts` are the spans of one that is paused, empty: it runs in one piece."""

    mode: Mode
    start_ms: int
    parts: tuple[tuple[int, int], ...] = ()

    @property
    def end_ms(self) -> int:
        """When it ends."""
        return self.parts[-1][1] if self.parts else self.start_ms + self.mode.duration_ms

    @property
    def segments(self) -> tuple[tuple[int, int], ...]:
        """The spans in which it runs, in order."""
        return self.parts or ((self.start_ms, self.end_ms),)

    @property
    def length_ms(self) -> int:
        """How long it runs, restarts included."""
        return sum(end_ms - start_ms for start_ms, end_ms in self.segments)

    def run(self) -> Run:
        """The same as the plan says it."""
        return Run(shape=self.mode.shape, start_ms=self.start_ms, end_ms=self.end_ms, parts=self.parts)


def hold(profile: Profile, one: Placement, sign: int = 1) -> None:
    """Take what a placement holds from the origin on out of a profile (`sign` -1 gives it back)."""
    for start_ms, end_ms in one.segments:
        if end_ms > max(0, start_ms):
            profile.reserve(one.mode.demand, max(0, start_ms), end_ms, sign)


class Schedule:
    """Placements by task; None where a task is not run."""

    __slots__ = ("placed",)

    def __init__(self, placed: Sequence[Placement | None]) -> None:
        self.placed: tuple[Placement | None, ...] = tuple(placed)

    def end_ms(self) -> int:
        """The end of the last task, 0 where none runs after the origin."""
        return max([0, *(one.end_ms for one in self.placed if one)])

    def missing(self) -> list[int]:
        """Tasks that do not run."""
        return [at for at, one in enumerate(self.placed) if one is None]


class ShapeChoice(StrEnum):
    """Which of a job's shapes is taken."""

    SLOWEST = "slowest"
    """The slowest that still meets the deadline: fast GPUs stay free for those in a hurry."""
    EARLIEST = "earliest"
    """The one that ends first."""
    CHEAPEST = "cheapest"
    """The cheapest that still meets the deadline."""


@dataclass(frozen=True, slots=True)
class Manner:
    """How a pass places jobs.

    `overrun` runs a job after its deadline instead of giving it up; `all_or_nothing` ends the pass at the first hard
    deadline that is missed.
    """

    choice: ShapeChoice = ShapeChoice.SLOWEST
    overrun: bool = False
    all_or_nothing: bool = False
    cost: Callable[[Task, Mode], Fraction] | None = None


def serial_schedule(
    board: Board, steps: Sequence[Steps], windows: Windows, order: Sequence[int], manner: Manner
) -> Schedule:
    """Place the tasks in this order (one that precedence allows), each in a shape and as early as it fits.

    Fixed tasks are placed first. A task that waits for one that does not run does not run either.
    """
    profile = Profile(steps)
    placed: list[Placement | None] = [None] * len(board.tasks)
    for task in board.tasks:
        if task.fixed_ms is not None and task.index not in windows.stuck:
            placed[task.index] = place_fixed(profile, task)
    for at in order:
        task = board.tasks[at]
        if task.fixed_ms is not None:
            continue
        not_before = task.release_ms
        stuck = False
        for one in task.before:
            preceding = placed[one]
            if preceding is None:
                stuck = True
                break
            not_before = max(not_before, preceding.end_ms)
        if stuck:
            continue
        found = choose(profile, task, windows.tails[at], not_before, manner)
        if found is not None:
            hold(profile, found)
            placed[at] = found
        elif manner.all_or_nothing and task.deadline_ms is not None:
            break
    return Schedule(in_precedence(board, placed))


def in_precedence(board: Board, placed: list[Placement | None]) -> list[Placement | None]:
    """The placements without those that start before what they wait for has ended (only fixed jobs ever do)."""
    if not any(task.fixed_ms is not None and task.before for task in board.tasks):
        return placed
    for at in board.topological:
        one = placed[at]
        before = [placed[number] for number in board.tasks[at].before]
        if one is not None and any(other is None or other.end_ms > one.start_ms for other in before):
            placed[at] = None
    return placed


def place_fixed(profile: Profile, task: Task) -> Placement | None:
    """A fixed task where it is, in the first shape that fits from the origin on; None where none does."""
    assert task.fixed_ms is not None
    for mode in task.modes:
        one = fixed_placement(profile, task, mode)
        if one is not None:
            hold(profile, one)
            return one
    return None


def fixed_placement(profile: Profile, task: Task, mode: Mode) -> Placement | None:
    """A fixed task where it is: in one piece where that fits, else in parts if it may be paused."""
    assert task.fixed_ms is not None
    end, start = task.fixed_ms + mode.duration_ms, max(task.fixed_ms, 0)
    in_time = task.deadline_ms is None or end <= task.deadline_ms
    if in_time and (end <= start or profile.fits(mode.demand, start, end)):
        return Placement(mode, task.fixed_ms)
    if task.job.restart_ms is None or not in_time:
        return None
    by_ms = NEVER if task.deadline_ms is None else task.deadline_ms
    parts = fewest_parts(profile, mode, start, by_ms, task.job.restart_ms, begun_ms=task.fixed_ms)
    return None if parts is None else in_parts(mode, parts)


def choose(profile: Profile, task: Task, tail: int | None, not_before: int, manner: Manner) -> Placement | None:
    """Where a task fits, in the shape that the manner takes; None where it does not."""
    wish = min((at for at in (tail, task.due_ms) if at is not None), default=None)
    found: list[Placement] = []
    for mode in task.modes:
        last = _last_start(task, mode, manner)
        start = profile.earliest(mode, not_before, last)
        one = None if start is None else Placement(mode, start)
        if task.job.restart_ms is not None:
            one = _paused(profile, task, one, mode, (not_before, wish, last), manner)
        if one is not None:
            found.append(one)
    if len(found) < 2:
        return found[0] if found else None
    in_time = [one for one in found if wish is not None and one.end_ms <= wish]
    if in_time and manner.choice is ShapeChoice.SLOWEST:
        return min(in_time, key=lambda one: (-one.mode.duration_ms, one.mode.gpus, one.start_ms, one.mode.shape))
    cost = manner.cost
    if manner.choice is ShapeChoice.CHEAPEST and cost is not None and (in_time or wish is None):
        return min(in_time or found, key=lambda one: (cost(task, one.mode), one.end_ms, one.mode.shape))
    return min(found, key=lambda one: (one.end_ms, one.mode.gpus * one.mode.duration_ms, one.mode.shape))


def _paused(
    profile: Profile,
    task: Task,
    one: Placement | None,
    mode: Mode,
    times: tuple[int, int | None, int],
    manner: Manner,
) -> Placement | None:
    """The same in parts where that meets what one piece does not, or where it must end as early as it can."""
    not_before, wish, last = times
    restart_ms = task.job.restart_ms
    assert restart_ms is not None
    limit = NEVER if last >= NEVER else last + mode.duration_ms
    if manner.choice is ShapeChoice.EARLIEST:
        sooner = limit if one is None else one.end_ms - 1
        parts = earliest_parts(profile, mode, not_before, sooner, restart_ms)
        return one if parts is None else in_parts(mode, parts)
    if one is not None and (wish is None or one.end_ms <= wish):
        return one
    for by_ms in (wish, limit) if one is None else (wish,):
        parts = None if by_ms is None else fewest_parts(profile, mode, not_before, by_ms, restart_ms)
        if parts is not None:
            return in_parts(mode, parts)
    return one


def in_parts(mode: Mode, parts: Parts) -> Placement:
    """A placement in these parts; one of them is no pause."""
    return Placement(mode, parts[0][0], parts if len(parts) > 1 else ())


def _last_start(task: Task, mode: Mode, manner: Manner) -> int:
    limit = task.limit_ms
    if limit is None or task.deadline_ms is None or (manner.overrun and limit == task.deadline_ms):
        return NEVER
    return limit - mode.duration_ms


def list_orders(board: Board, windows: Windows) -> Iterator[list[int]]:
    """The orders of the list rules, each one that precedence allows: deadline, slack, weight density, release."""
    far = NEVER

    def until(task: Task) -> int:
        tail = windows.tails[task.index]
        ends = [at for at in (tail, task.due_ms) if at is not None]
        return min(ends) if ends else far

    def shortest(task: Task) -> int:
        return min((mode.duration_ms for mode in task.modes), default=0)

    def area(task: Task) -> int:
        return min((mode.duration_ms * max(1, mode.gpus) for mode in task.modes), default=1)

    def slack(task: Task) -> int:
        end = until(task)
        return end if end == far else end - shortest(task)

    def density(task: Task) -> tuple[int, float]:
        return (0 if until(task) < far else 1, -float(task.weight) / area(task))

    def widest(task: Task) -> tuple[int, int]:
        return (0 if until(task) < far else 1, -area(task))

    keys: list[Callable[[Task], object]] = [until, slack, density, widest, lambda task: task.release_ms]
    said: list[list[int]] = []
    for key in keys:
        marks = [(key(task), at) for at, task in enumerate(board.tasks)]
        ranked = [at for _, at in sorted(marks)]
        ordered = in_order(ranked, [task.before for task in board.tasks]) if board.chained else ranked
        if ordered not in said:
            said.append(ordered)
            yield ordered


@dataclass(frozen=True, slots=True, order=True)
class Merit:
    """What makes a schedule better, most important first (greater is better)."""

    all_met: bool
    weight_on_time: Decimal
    run: int
    less_late_ms: int
    less_end_ms: int


def merit_of(board: Board, schedule: Schedule) -> Merit:
    """How good a schedule is for the objective on-time."""
    weight, run, late, met = Decimal(0), 0, 0, True
    for task, one in zip(board.tasks, schedule.placed, strict=True):
        if one is None:
            met = met and not task.is_hard
            continue
        run += 1
        if task.deadline_ms is not None and one.end_ms > task.deadline_ms:
            met = False
            late += one.end_ms - task.deadline_ms
        elif task.due_ms is not None and one.end_ms > task.due_ms:
            late += one.end_ms - task.due_ms
        elif task.deadline_ms is not None or task.due_ms is not None:
            weight += task.weight
    return Merit(met, weight, run, -late, -schedule.end_ms())


def meets_all(board: Board, schedule: Schedule) -> bool:
    """Whether every hard deadline is met, and every job with a fixed start has it."""
    return all(
        not task.is_hard or (one is not None and (task.deadline_ms is None or one.end_ms <= task.deadline_ms))
        for task, one in zip(board.tasks, schedule.placed, strict=True)
    )
