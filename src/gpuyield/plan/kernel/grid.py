"""A case on a slot grid: chosen so that what fits on it fits in real milliseconds; and schedules back from it.

A slot is the greatest common divisor of all times where the horizon allows it, so that nothing is lost; else fine near
the origin and coarse beyond. A job without room on the grid, but with room in real time, is taken to run at its head,
over all slots that it touches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gpuyield.plan.instance.board import Mode, Steps, Task
from gpuyield.plan.instance.profile import NEVER, Profile
from gpuyield.plan.instance.schedule import Placement, Schedule, in_precedence, place_fixed
from gpuyield.plan.kernel.table import FAR, Ints, Room, Runs, Table, copy_of, room_of
from gpuyield.units import MINUTE_MS

if TYPE_CHECKING:
    from gpuyield.plan.case import Case

MOST_SLOTS = 1 << 17
MOST_CELLS = 1 << 25
"""Slots times resources that are held in memory."""


@dataclass(frozen=True, slots=True)
class Grid:
    """A case as the kernel sees it: its jobs, the room beside what is fixed, and the fixed runs.

    `free` are the jobs that may be placed, in an order that precedence allows; `kinds` the mode behind each number, and
    `numbers` the number of each mode by identity; `placed` where the fixed jobs run, `tight` where those do that have
    room in real time only.
    """

    case: Case
    tick_ms: int
    table: Table
    room: Room
    placed: dict[int, Placement]
    fixed: Runs
    free: Ints
    kinds: tuple[Mode, ...]
    numbers: dict[int, int]
    exact: bool
    tight: dict[int, int]

    def runs(self) -> Runs:
        """Only what is fixed runs."""
        return copy_of(self.fixed)

    def open_room(self) -> Room:
        """An independent copy of the room."""
        return Room(self.room.free.copy(), self.room.low.copy())

    def bound_by_tails(self) -> Table:
        """The table in which a job has to leave time for those behind it."""
        tails = [FAR if tail is None else tail // self.tick_ms for tail in self.case.windows.tails]
        return self.table._replace(limits=np.minimum(self.table.limits, np.maximum(self._tight_ends(), tails)))

    def _tight_ends(self) -> Ints:
        found = np.full(len(self.table.heads), -1, dtype=np.int64)
        for at in self.tight:
            found[at] = self.table.limits[at]
        return found

    def runs_of(self, schedule: Schedule) -> Runs | None:
        """A schedule on the grid; None where a start of it lies between slots or a job has several parts."""
        runs = self.runs()
        for at in self.free.tolist():
            one = schedule.placed[at]
            if one is None:
                continue
            number = self.numbers.get(id(one.mode))
            if number is None or one.parts:
                return None
            start = one.start_ms // self.tick_ms
            if one.start_ms % self.tick_ms and at not in self.tight:
                return None
            runs.starts[at], runs.modes[at] = start, number
            runs.ends[at] = start + self.table.lengths[number]
        return runs

    def schedule(self, runs: Runs) -> Schedule:
        """The runs in real time."""
        placed: list[Placement | None] = []
        starts, modes = runs.starts.tolist(), runs.modes.tolist()
        for at, task in enumerate(self.case.board.tasks):
            if modes[at] < 0:
                placed.append(None)
            elif task.fixed_ms is not None:
                placed.append(self.placed[at])
            else:
                placed.append(Placement(self.kinds[modes[at]], self.tight.get(at, starts[at] * self.tick_ms)))
        return Schedule(in_precedence(self.case.board, placed))


def grid_of(case: Case, cost: Callable[[Task, Mode], float] = lambda task, mode: -float(mode.duration_ms)) -> Grid:
    """The case on a grid.

    `cost` says which of the modes that are on time is preferred (by default the slowest, which leaves fast ones free).
    """
    tasks = case.board.tasks
    kinds = tuple(mode for at in range(len(tasks)) for mode in case.windows.held[at])
    counts = np.array([len(modes) for modes in case.windows.held], dtype=np.int64)
    heads_ms = np.array(case.windows.heads, dtype=np.int64)
    limits_ms = np.array([_limit(task) for task in tasks], dtype=np.int64)
    lengths_ms = np.array([mode.duration_ms for mode in kinds], dtype=np.int64)
    first_mode = _starts_of(counts)
    horizon_ms = _horizon(case, heads_ms, limits_ms, lengths_ms)
    tick_ms, near, ratio = _slots_for(case, horizon_ms, heads_ms, limits_ms, lengths_ms)
    lengths = -(-lengths_ms // tick_ms)
    heads = -(-heads_ms // tick_ms)
    limits = np.where(limits_ms >= FAR, FAR, limits_ms // tick_ms)
    exact = ratio == 1 and tick_ms == _unit_ms(case, heads_ms, limits_ms, lengths_ms)
    tight: dict[int, int] = {}
    if not exact:
        slots = (tick_ms, near, ratio)
        tight = _squeeze(case, slots, (heads, limits, lengths), (heads_ms, limits_ms), first_mode, counts)
        for at in tight:
            counts[at] = 1
    tails = [FAR if tail is None else tail // tick_ms for tail in case.windows.tails]
    dues = np.array([FAR if task.due_ms is None else task.due_ms // tick_ms for task in tasks], dtype=np.int64)
    own = np.array([FAR if task.deadline_ms is None else task.deadline_ms // tick_ms for task in tasks], dtype=np.int64)
    for at in tight:
        own[at] = max(own[at], limits[at])
    flat = [mode.demand for mode in kinds]
    sizes = np.array([len(demand) for demand in flat], dtype=np.int64)
    chains = [task.before for task in tasks]
    behind = [task.after for task in tasks]
    table = Table(
        heads=heads,
        wanted=np.minimum(own, dues),
        timely=np.minimum(np.minimum(np.array(tails, dtype=np.int64), dues), own),
        limits=limits,
        hard=np.array([int(task.is_hard) for task in tasks], dtype=np.int64),
        weights=np.array([float(task.weight) for task in tasks], dtype=np.float64),
        first_mode=first_mode,
        lengths=lengths,
        preferences=np.array(
            [cost(task, mode) for task, modes in zip(tasks, case.windows.held, strict=True) for mode in modes],
            dtype=np.float64,
        ),
        first_demand=_starts_of(sizes),
        resources=np.array([which for demand in flat for which, _ in demand], dtype=np.int64),
        amounts=np.array([amount for demand in flat for _, amount in demand], dtype=np.int64),
        first_before=_starts_of([len(one) for one in chains]),
        before=np.array([one for ones in chains for one in ones], dtype=np.int64),
        first_after=_starts_of([len(one) for one in behind]),
        after=np.array([one for ones in behind for one in ones], dtype=np.int64),
        near=near,
        ratio=ratio,
    )
    count = near + -(-max(0, -(-horizon_ms // tick_ms) - near) // ratio)
    amounts = np.stack([_amounts(steps, count, tick_ms, near, ratio) for steps in case.steps])
    placed = _fixed(case)
    numbers = {id(mode): at for at, mode in enumerate(kinds)}
    fixed = _fixed_runs(placed, table, numbers, amounts, tick_ms)
    stuck = case.windows.stuck
    free = np.array(
        [at for at in case.board.topological if tasks[at].fixed_ms is None and at not in stuck and counts[at]],
        dtype=np.int64,
    )
    return Grid(case, tick_ms, table, room_of(amounts), placed, fixed, free, kinds, numbers, exact, tight)


def _limit(task: Task) -> int:
    return FAR if task.limit_ms is None or task.deadline_ms is None else task.limit_ms


def _starts_of(counts: Sequence[int] | Ints) -> Ints:
    found = np.zeros(len(counts) + 1, dtype=np.int64)
    np.cumsum(np.asarray(counts, dtype=np.int64), out=found[1:])
    return found


def _finite(values: Ints) -> Ints:
    found: Ints = values[values < FAR]
    return found


def _horizon(case: Case, heads_ms: Ints, limits_ms: Ints, lengths_ms: Ints) -> int:
    """Behind all deadlines, and as far as the jobs without one may reach."""
    ends = [0, *(int(one.max(initial=0)) for one in (heads_ms, _finite(limits_ms)))]
    ends += [from_ms for steps in case.steps for from_ms, _ in steps[-1:]]
    ends += [
        task.fixed_ms + mode.duration_ms
        for task in case.board.tasks
        if task.fixed_ms is not None
        for mode in task.modes
    ]
    last = [steps[-1][1] if steps else 0 for steps in case.steps]
    areas = [0] * len(last)
    longest = chain = 0
    for task, modes in zip(case.board.tasks, case.windows.held, strict=True):
        if (task.deadline_ms is not None and task.limit_ms is not None) or task.fixed_ms is not None or not modes:
            continue
        slowest = max(modes, key=lambda one: one.duration_ms)
        longest = max(longest, slowest.duration_ms)
        chain += slowest.duration_ms if task.before else 0
        for resource in range(len(last)):
            areas[resource] += max(mode.amount(resource) * mode.duration_ms for mode in modes)
    work = sum(3 * area // amount for area, amount in zip(areas, last, strict=True) if amount)
    return max(ends) + work + 2 * longest + min(chain, 64 * longest) + 1


def _unit_ms(case: Case, heads_ms: Ints, limits_ms: Ints, lengths_ms: Ints) -> int:
    times = [*heads_ms.tolist(), *_finite(limits_ms).tolist(), *lengths_ms.tolist()]
    times += [task.due_ms for task in case.board.tasks if task.due_ms is not None]
    times += [from_ms for steps in case.steps for from_ms, _ in steps if from_ms > 0]
    return max(1, int(np.gcd.reduce(np.array(times, dtype=np.int64)))) if times else 1


def _slots_for(case: Case, horizon_ms: int, heads_ms: Ints, limits_ms: Ints, lengths_ms: Ints) -> tuple[int, int, int]:
    """The tick in ms, how many slots are one tick wide, and how many ticks those beyond are."""
    most = max(1_024, min(MOST_SLOTS, MOST_CELLS // max(1, len(case.steps))))
    unit = _unit_ms(case, heads_ms, limits_ms, lengths_ms)
    ticks = -(-horizon_ms // unit)
    if ticks <= most:
        return unit, ticks, 1
    tick = unit * max(1, -(-min(MINUTE_MS, -(-horizon_ms // (most // 2))) // unit))
    ticks = -(-horizon_ms // tick)
    if ticks <= most:
        return tick, ticks, 1
    near = most // 2
    return tick, near, -(-(ticks - near) // (most - near))


def _slot(tick: int, near: int, ratio: int, *, up: bool) -> int:
    """The slot that a tick lies in; with `up` the first one that begins there or later."""
    beyond = max(0, tick - near)
    return min(tick, near) + (-(-beyond // ratio) if up else beyond // ratio)


def _tick(slot: int, near: int, ratio: int) -> int:
    return min(slot, near) + max(0, slot - near) * ratio


def _squeeze(
    case: Case,
    slots: tuple[int, int, int],
    ticks: tuple[Ints, Ints, Ints],
    real: tuple[Ints, Ints],
    first_mode: Ints,
    counts: Ints,
) -> dict[int, int]:
    """Jobs without room on the grid run at their head, shortest mode, over all they touch; changes `ticks`."""
    tick_ms, near, ratio = slots
    heads, limits, lengths = ticks
    heads_ms, limits_ms = real
    found: dict[int, int] = {}
    for at in np.flatnonzero((counts > 0) & (limits < FAR)).tolist():
        modes = case.windows.held[at]
        shortest = min(mode.duration_ms for mode in modes)
        head = int(heads_ms[at])
        first = _tick(_slot(int(heads[at]), near, ratio, up=True), near, ratio)
        if head + shortest > limits_ms[at] or first - (-shortest // tick_ms) <= limits[at]:
            continue
        if modes[0].duration_ms != shortest:
            continue
        begin = _tick(_slot(head // tick_ms, near, ratio, up=False), near, ratio)
        end = _tick(_slot(-(-(head + shortest) // tick_ms), near, ratio, up=True), near, ratio)
        heads[at], limits[at] = begin, end
        lengths[first_mode[at]] = end - begin
        lengths[first_mode[at] + 1 : first_mode[at + 1]] = FAR
        found[at] = head
    return found


def _amounts(steps: Steps, slots: int, tick_ms: int, near: int, ratio: int) -> Ints:
    """The least there is in each slot."""
    at = np.arange(slots + 1, dtype=np.int64)
    edges = np.where(at <= near, at, near + (at - near) * ratio) * tick_ms
    times = np.array([-NEVER, *(from_ms for from_ms, _ in steps)], dtype=np.int64)
    amounts = np.array([0, *(amount for _, amount in steps)], dtype=np.int64)
    found: Ints = amounts[np.searchsorted(times, edges[:-1], side="right") - 1]
    for from_ms, amount in steps:
        slot = int(np.searchsorted(edges, from_ms, side="right")) - 1
        if 0 <= slot < slots:
            found[slot] = min(found[slot], amount)
    return found


def _fixed(case: Case) -> dict[int, Placement]:
    """Where the fixed jobs run; those without room do not."""
    profile = Profile(case.steps)
    tasks = [one for one in case.board.tasks if one.fixed_ms is not None and one.index not in case.windows.stuck]
    found = ((task.index, place_fixed(profile, task)) for task in tasks)
    return {at: one for at, one in found if one is not None}


def _fixed_runs(
    placed: dict[int, Placement], table: Table, numbers: dict[int, int], amounts: Ints, tick_ms: int
) -> Runs:
    """The fixed jobs on the grid, taken out of the amounts over all slots that they touch."""
    count = len(table.heads)
    runs = Runs(*(np.full(count, -1, dtype=np.int64) for _ in range(3)))
    near, ratio = table.near, table.ratio
    for at, one in placed.items():
        for start_ms, end_ms in one.segments:
            low = _slot(max(0, start_ms // tick_ms), near, ratio, up=False)
            high = _slot(max(0, -(-end_ms // tick_ms)), near, ratio, up=True)
            for which, amount in one.mode.demand:
                amounts[which, low:high] = np.maximum(0, amounts[which, low:high] - amount)
        runs.starts[at], runs.ends[at] = one.start_ms // tick_ms, -(-one.end_ms // tick_ms)
        runs.modes[at] = numbers[id(one.mode)]
    return runs
