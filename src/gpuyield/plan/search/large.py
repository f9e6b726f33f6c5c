"""Problems beyond a few hundred jobs, searched by the kernel: list rules, negotiated congestion, levelling.

What the kernel leaves without a place although it has to run, or could run in parts, is placed behind it exactly.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from gpuyield.plan.instance.board import Mode, Task
from gpuyield.plan.instance.budget import Budget
from gpuyield.plan.instance.completed import complete
from gpuyield.plan.instance.schedule import Manner, Schedule, ShapeChoice, merit_of
from gpuyield.plan.kernel.congestion import all_met, levelled, negotiated
from gpuyield.plan.kernel.grid import Grid, grid_of
from gpuyield.plan.kernel.search import PLAIN_TASKS, Answer, Search
from gpuyield.plan.kernel.table import FAR, Table

if TYPE_CHECKING:
    from gpuyield.plan.case import Case

FEWEST_SWEEPS = 20_000


def is_large(case: Case) -> bool:
    """Whether the kernel pays."""
    return len(case.board.tasks) > PLAIN_TASKS


def large_schedules(case: Case, budget: Budget, manners: Sequence[Manner]) -> Iterator[Schedule]:
    """One schedule per list rule and manner, while the budget lasts."""
    several = any(len(task.modes) > 1 for task in case.board.tasks)
    for number, manner in enumerate(manners):
        if number and not several and manner.overrun == manners[0].overrun:
            continue
        grid = _grid(case, manner)
        search = Search(grid, 0, budget)
        table = _overrunning(grid) if manner.overrun else None
        for turn, order in enumerate(search.orders()):
            found = search.serial(
                order,
                by_end=manner.choice is ShapeChoice.EARLIEST,
                strict=manner.all_or_nothing,
                table=table,
                whole=not turn and not number and not manner.all_or_nothing,
            )
            if found is not None:
                yield _schedule(grid, found)
                if search.is_perfect(found.runs):
                    return
            elif budget.left <= 0 or budget.stopped:
                return


def meeting_all(case: Case, budget: Budget) -> Schedule | None:
    """A schedule that meets every hard deadline; None where none was found."""
    grid = _grid(case, Manner())
    found = all_met(Search(grid, 0, budget))
    return None if found is None else _schedule(grid, found)


def improved(case: Case, best: Schedule, seed: int, budget: Budget, *, sure: bool) -> Schedule:
    """A schedule with as much on time or more; `sure` says that not all hard deadlines can be met."""
    grid = _grid(case, Manner())
    search = Search(grid, seed, budget)
    runs = grid.runs_of(best)
    if runs is None:
        known = search.by_rules()
    else:
        known = Answer(runs, grid.open_room())
        search.lane["hold_all"](search.table, known.room, known.runs, grid.free)
    found = _schedule(grid, negotiated(search, known, sure=sure))
    return found if merit_of(case.board, found) > merit_of(case.board, best) else best


def levelled_on(case: Case, resource: int, floor: int, seed: int, budget: Budget, *, thorough: bool) -> Schedule | None:
    """A schedule of all jobs that holds few of a resource, of which there is more than they need; None without one."""
    grid = _grid(case, Manner())
    search = Search(grid, seed, budget)
    found = levelled(search, resource, floor, FEWEST_SWEEPS, thorough=thorough)
    if found is None:
        return None
    height, runs = found
    room = search.grid.open_room()
    exists = case.steps[resource][-1][1]
    room.free[resource] -= exists - height
    room.low[resource] -= exists - height
    answer = Answer(runs, room)
    search.lane["hold_all"](search.table, room, runs, grid.free)
    rest = search.sorted(search.table.timely)
    search.extend(answer, rest[runs.modes[rest] < 0], whole=True)
    schedule = _schedule(grid, answer)
    return None if schedule.missing() else schedule


def behind_all(case: Case, best: Schedule, budget: Budget) -> Schedule | None:
    """The schedule with what it leaves out behind it, however late; None where something still has no place."""
    grid = _grid(case, Manner(ShapeChoice.EARLIEST))
    runs = grid.runs_of(best)
    if runs is None:
        return None
    search = Search(grid, 0, budget)
    answer = Answer(runs, grid.open_room())
    search.lane["hold_all"](search.table, answer.room, runs, grid.free)
    rest = search.sorted(search.table.timely)
    search.extend(answer, rest[runs.modes[rest] < 0], by_end=True, table=_overrunning(grid), whole=True)
    schedule = grid.schedule(answer.runs)
    return None if schedule.missing() else schedule


def _grid(case: Case, manner: Manner) -> Grid:
    cost = manner.cost
    if cost is None:
        return grid_of(case)

    def paid(task: Task, mode: Mode) -> float:
        return float(cost(task, mode))

    return grid_of(case, paid)


def _overrunning(grid: Grid) -> Table:
    """Jobs may end after their own deadline."""
    tasks = grid.case.board.tasks
    own = np.array([task.limit_ms is None or task.limit_ms == task.deadline_ms for task in tasks])
    return grid.table._replace(limits=np.where(own, FAR, grid.table.limits))


def _schedule(grid: Grid, answer: Answer) -> Schedule:
    """The answer in real time, with what must run or may be paused placed behind it."""
    found = grid.schedule(answer.runs)
    tasks = grid.case.board.tasks
    left = [
        at
        for at in found.missing()
        if tasks[at].fixed_ms is None and (tasks[at].deadline_ms is None or tasks[at].job.restart_ms is not None)
    ]
    if not left or all(at in grid.case.windows.stuck for at in left):
        return found
    return complete(grid.case, {at: one for at, one in enumerate(found.placed) if one is not None})
