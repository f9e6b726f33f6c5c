"""The learning lane: a plan that meets all hard deadlines, or lemmas that prove that there is none.

`verify` re-checks the lemmas one by one (`docs/reference/certificates.md`, kind `lemmas`). Jobs that may be paused are
left out, and of a job with several shapes only the least of each is used, so what is proven holds for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from gpuyield.model.plan import Certificate
from gpuyield.plan.instance.board import Board, Steps
from gpuyield.plan.instance.budget import Budget, never
from gpuyield.plan.instance.frame import FAR, Frame, grid_of
from gpuyield.plan.instance.profile import most_between
from gpuyield.plan.instance.schedule import Placement, Schedule
from gpuyield.plan.kernel import learning as kernel
from gpuyield.plan.kernel.lanes import compiled_learning, is_learning_loaded, is_learning_ready
from gpuyield.plan.kernel.learning import Search
from gpuyield.plan.kernel.table import Ints
from gpuyield.plan.proof.exact import Answer
from gpuyield.plan.proof.lemmas import lemmas_of

MOST_TASKS = 1_500
MOST_LEMMAS = 60_000
LITERALS = 24
HINTS = 48
BATCH, PLAIN_BATCH = 40, 4
"""Conflicts or decisions that are paid for at once, and after how many of them as plain Python a clock is looked at."""
PLAIN_STEPS = 20_000
"""Decisions x tasks that are taken as plain Python (about half a second) before compiled code is loaded."""
COMPILE_FACTOR = 5
"""So many times as much before anybody waits for a compiler."""
CHEAPEST_CONFLICT, TASKS_PER_WORK = 4, 25
"""Placements of a job that a conflict is worth: at least so many, and one for so many tasks."""


@dataclass(frozen=True, slots=True)
class Learned:
    """The answer; with a plan where the tasks run, with none the lemmas that prove it."""

    answer: Answer
    placed: dict[int, Placement]
    certificate: Certificate | None = None


@dataclass(frozen=True, slots=True)
class Table:
    """What the kernel is told: tasks in grid units, and which of them stand for all that their job may be."""

    tasks: list[int]
    grid_ms: int
    durations: Ints
    demands: Ints
    heads: Ints
    lasts: Ints
    is_exact: bool


def learn(board: Board, steps: Sequence[Steps], tasks: Sequence[int], hint: Schedule | None, budget: Budget) -> Learned:
    """Search the given tasks until there is an answer or the budget is spent."""
    table = None if len(tasks) > 4 * MOST_TASKS else table_of(board, steps, tasks)
    if table is None or len(table.tasks) > MOST_TASKS:
        return Learned(Answer.OPEN, {})
    cost = max(CHEAPEST_CONFLICT, len(table.tasks) // TASKS_PER_WORK)
    search = search_of(board, steps, table, hint, min(MOST_LEMMAS, budget.left // cost + 1_000))
    run: Callable[[Search, int, int], None] = kernel.run
    done = 0
    while search.n[kernel.ANSWER] == kernel.OPEN:
        if run is kernel.run and _pays(search, table, budget):
            run = compiled_learning()
        if not budget.spend(max(1, int(search.n[kernel.CONFLICTS]) - done) * cost):
            break
        done = int(search.n[kernel.CONFLICTS])
        _go_on(run, search, budget)
    answer = int(search.n[kernel.ANSWER])
    if answer == kernel.NONE:
        return Learned(Answer.NONE, {}, lemmas_of(board, table, search))
    if answer == kernel.PLAN and table.is_exact:
        return Learned(Answer.PLAN, _placed(board, table, search))
    return Learned(Answer.OPEN, {})


def _go_on(run: Callable[[Search, int, int], None], search: Search, budget: Budget) -> None:
    """A batch, in steps between which a clock may stop it; what is found does not depend on the steps."""
    step = PLAIN_BATCH if run is kernel.run else BATCH
    conflicts, decisions = (int(search.n[at]) + BATCH for at in (kernel.CONFLICTS, kernel.NODES))
    while search.n[kernel.ANSWER] == kernel.OPEN and budget.spend(0):
        left = (conflicts - int(search.n[kernel.CONFLICTS]), decisions - int(search.n[kernel.NODES]))
        if min(left) <= 0:
            return
        run(search, min(step, left[0]), min(step, left[1]))


def _pays(search: Search, table: Table, budget: Budget) -> bool:
    """Whether to take compiled code: soon where it is there, late where it has to be made, never against a clock."""
    steps = int(search.n[kernel.NODES]) * len(table.tasks)
    if is_learning_ready():
        return steps > PLAIN_STEPS or is_learning_loaded()
    return steps > PLAIN_STEPS * COMPILE_FACTOR and budget.should_stop is never


def table_of(board: Board, steps: Sequence[Steps], tasks: Sequence[int]) -> Table | None:
    """The tasks that something binds, in grid units; None where the numbers are too large."""
    grid = grid_of(board, steps)
    frame = Frame(board, steps, grid)
    kept: list[int] = []
    rows: list[tuple[int, int, int]] = []
    demands: list[list[int]] = []
    is_exact = True
    for at in tasks:
        task, usable = board.tasks[at], frame.usable(at)
        if task.job.restart_ms is not None or not frame.must_run(at) or not usable:
            is_exact = False
            continue
        is_exact = is_exact and len(usable) == 1
        duration = min(mode.duration_ms for mode in usable)
        head, last = frame.heads[at], max(frame.latest_start(at, mode) for mode in usable)
        if last >= FAR:
            is_exact = False
            continue
        if head < 0:
            duration, head, last = duration + head, 0, 0
        if duration <= 0:
            continue
        kept.append(at)
        rows.append((head // grid, last // grid, duration // grid))
        demands.append([min(mode.amount(which) for mode in usable) for which in range(len(board.resources))])
    if not kept:
        return None
    figures = np.array(rows, dtype=np.int64)
    return Table(
        tasks=kept,
        grid_ms=grid,
        durations=np.ascontiguousarray(figures[:, 2]),
        demands=np.array(demands, dtype=np.int64),
        heads=figures[:, 0],
        lasts=figures[:, 1],
        is_exact=is_exact,
    )


def search_of(board: Board, steps: Sequence[Steps], table: Table, hint: Schedule | None, conflicts: int) -> Search:
    """The arrays of a search that has not begun, with room for so many conflicts."""
    count = len(table.tasks)
    place = {at: number for number, at in enumerate(table.tasks)}
    caps = [most_between(one, 0, 1 << 62) for one in steps]
    bases = [_missing(one, cap, table.grid_ms) for one, cap in zip(steps, caps, strict=True)]
    pairs = [(place[one], place[at]) for at in table.tasks for one in board.tasks[at].before if one in place]
    order = [[] if var & 1 else [pair for pair in pairs if pair[0] == var >> 1] for var in range(2 * count)]
    for pair in pairs:
        order[2 * pair[1] + 1].append(pair)
    members = [[at for at in range(count) if table.demands[at, which]] for which in range(len(caps))]
    variables = _zeros(2 * count, 5)
    variables[0::2, kernel.BOUND], variables[1::2, kernel.BOUND] = table.heads, -table.lasts
    variables[:, kernel.EVENT] = variables[:, kernel.WATCH] = -1
    variables[:, kernel.ORDER_LOW], variables[:, kernel.ORDER_HIGH] = _offsets(order)
    scalars = _zeros(kernel.SCALARS)
    scalars[kernel.LEFT] = kernel.FIRST_ROUND
    scalars[kernel.NEXT_REDUCE] = kernel.REDUCE_EVERY
    scalars[kernel.DIRTY] = 1
    events = 200 * count + 20_000
    trail = _zeros(events, 12)
    trail[:, kernel.NEED] = kernel.UNSET
    lemmas = conflicts + 20 * count
    hints = lemmas * HINTS
    return Search(
        n=scalars,
        tasks=np.concatenate([table.durations[:, None], _wishes(table, hint)[:, None], table.demands], axis=1),
        resources=np.stack([np.array(caps), *_offsets(bases), *_offsets(members)], axis=1),
        base=np.array([row for one in bases for row in one], dtype=np.int64).reshape(-1, 2),
        members=np.array([at for one in members for at in one], dtype=np.int64),
        order=np.array([pair for one in order for pair in one], dtype=np.int64).reshape(-1, 2),
        vars=variables,
        activity=np.zeros(count),
        trail=trail,
        levels=_zeros(2 * count + 8, 2),
        pool=_zeros(400 * count + 100_000),
        lemmas=_zeros(lemmas + 2, 4),
        literals=_zeros(lemmas * LITERALS + 8_192, 2),
        hints=_zeros(hints + 32_768),
        watches=_zeros(2 * lemmas + 4, 2),
        facts=_zeros(hints + 16_384, 4),
        fact_tasks=_zeros(8 * hints + 131_072),
        scratch=_zeros(events + sum(len(one) for one in bases), 5),
    )


def _zeros(*shape: int) -> Ints:
    return np.zeros(shape, dtype=np.int64)


def _offsets(rows: Sequence[Sequence[object]]) -> tuple[Ints, Ints]:
    """Where the entries of each row begin and end, laid out one row after the other."""
    ends = np.cumsum([len(one) for one in rows], dtype=np.int64)
    return np.concatenate([_zeros(1), ends[:-1]]), ends


def _missing(steps: Steps, most: int, grid: int) -> list[tuple[int, int]]:
    """What is missing of the most there is, from the origin on; drops are taken to be as early as the grid allows."""
    found: list[tuple[int, int]] = []
    amount, rows = 0, [(at, have) for at, have in steps if at > 0]
    for at, have in steps:
        if at <= 0:
            amount = have
    for at, have in [(0, amount), *rows]:
        from_at = at // grid
        if found and found[-1][0] == from_at:
            found[-1] = (from_at, max(most - have, found[-1][1]))
        else:
            found.append((from_at, most - have))
    return found


def _wishes(table: Table, hint: Schedule | None) -> Ints:
    wishes = table.heads.copy()
    if hint is not None:
        for number, at in enumerate(table.tasks):
            one = hint.placed[at]
            if one is not None:
                wishes[number] = one.start_ms // table.grid_ms
    return wishes


def _placed(board: Board, table: Table, search: Search) -> dict[int, Placement]:
    found = {}
    for number, at in enumerate(table.tasks):
        task = board.tasks[at]
        start = int(search.vars[2 * number, kernel.BOUND]) * table.grid_ms
        mode = next(one for one in task.modes if one.duration_ms == _duration(table, number, start, task.fixed_ms))
        found[at] = Placement(mode, start if task.fixed_ms is None else task.fixed_ms)
    return found


def _duration(table: Table, number: int, start: int, fixed: int | None) -> int:
    length = int(table.durations[number]) * table.grid_ms
    return length if fixed is None else length + start - fixed
