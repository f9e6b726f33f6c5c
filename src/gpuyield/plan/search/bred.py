"""An early end of everything where every job has one shape and there is always as much of each resource."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any  # numba's compiled functions have no types.

import numpy as np

from gpuyield.plan.case import Case
from gpuyield.plan.instance.board import Board
from gpuyield.plan.instance.budget import Budget, never
from gpuyield.plan.instance.frame import grid_of
from gpuyield.plan.instance.schedule import Placement, Schedule, meets_all
from gpuyield.plan.kernel import project as kernel
from gpuyield.plan.kernel.lanes import compiled_project, is_learning_loaded, is_learning_ready
from gpuyield.plan.kernel.project import Brood, Project
from gpuyield.plan.kernel.table import FAR, Ints

FEW_TASKS = 12
"""So many jobs are settled without."""
MOST_TASKS = 300
MOST_SLOTS = 4_096
BROOD = 60
CHILDREN_PER_TASK = 400
BATCH, PLAIN_BATCH = 200, 5
"""Children that are paid for at once, and after how many of them as plain Python a clock is looked at."""
TASKS_PER_WORK = 15
"""So many placements of a child are worth one: they are plain loops."""
PLAIN_CHILDREN = 200
"""So many as plain Python before compiled code is loaded; against a clock no more where it has to be made."""


def bred(case: Case, best: Schedule, floor_ms: int, seed: int, budget: Budget) -> Schedule:
    """A schedule that ends earlier than the best known, where one is bred; `floor_ms` is proven to be the least."""
    grid = grid_of(case.board, case.steps)
    project = None if len(case.board.tasks) <= FEW_TASKS else project_of(case, grid, best.end_ms())
    if project is None:
        return best
    count = len(project.lengths)
    brood = brood_of(project, -(-best.end_ms() // grid), seed)
    run: Callable[..., Any] = compiled_project() if is_learning_loaded() else kernel.breed
    cost, spread, done = max(1, 3 * count // TASKS_PER_WORK), max(2, int(np.ptp(project.lasts)) // 4), 0
    while done < count * CHILDREN_PER_TASK and budget.spend(BATCH * cost):
        if done >= PLAIN_CHILDREN and run is kernel.breed:
            if not is_learning_ready() and budget.should_stop is not never:
                break
            run = compiled_project()
        step = PLAIN_BATCH if run is kernel.breed else BATCH
        until, born = done + BATCH, step
        while done < until and born == step and budget.spend(0):
            born = run(project, brood, done, step, -(-floor_ms // grid), spread)
            done += born
        if done < until:
            break
    if brood.best_end[0] * grid >= best.end_ms():
        return best
    starts = [int(one) * grid for one in brood.best]
    found = Schedule([Placement(task.modes[0], at) for task, at in zip(case.board.tasks, starts, strict=True)])
    return found if meets_all(case.board, found) else best


def project_of(case: Case, grid: int, end_ms: int) -> Project | None:
    """The jobs in slots; None where something is fixed, paused or has a choice, or an amount changes."""
    board = case.board
    plain = all(
        len(task.modes) == 1 and task.fixed_ms is None and task.job.restart_ms is None and task.modes[0].duration_ms > 0
        for task in board.tasks
    )
    constant = all(len(steps) == 1 and steps[0][0] <= 0 for steps in board.steps)
    if not plain or not constant or not 1 < len(board.tasks) <= MOST_TASKS or not _fits(board):
        return None
    heads = np.array([-(-task.release_ms // grid) for task in board.tasks], dtype=np.int64)
    lengths = np.array([-(-task.modes[0].duration_ms // grid) for task in board.tasks], dtype=np.int64)
    if int(lengths.sum()) + int(heads.max()) > MOST_SLOTS:
        return None
    lasts = np.full(len(lengths), -(-end_ms // grid), dtype=np.int64) - lengths
    for at in reversed(board.topological):
        for one in board.tasks[at].before:
            lasts[one] = min(lasts[one], lasts[at] - lengths[one])
    first_before, before = _lists([task.before for task in board.tasks])
    first_after, after = _lists([task.after for task in board.tasks])
    return Project(
        heads=heads,
        lengths=lengths,
        lasts=lasts,
        demands=np.array(
            [[task.modes[0].amount(which) for which in range(len(board.resources))] for task in board.tasks],
            dtype=np.int64,
        ),
        first_before=first_before,
        before=before,
        first_after=first_after,
        after=after,
        amounts=np.array([steps[0][1] for steps in board.steps], dtype=np.int64),
    )


def _fits(board: Board) -> bool:
    return all(amount <= board.steps[which][0][1] for task in board.tasks for which, amount in task.modes[0].demand)


def brood_of(project: Project, end: int, seed: int) -> Brood:
    """A brood of nothing yet, with an end that is known."""
    count = len(project.lengths)
    slots = int(project.lengths.sum()) + int(project.heads.max())
    return Brood(
        orders=np.zeros((BROOD, count), dtype=np.int64),
        ends=np.full(BROOD, FAR, dtype=np.int64),
        best=np.zeros(count, dtype=np.int64),
        best_end=np.array([end], dtype=np.int64),
        starts=np.zeros(count, dtype=np.int64),
        child=np.zeros(count, dtype=np.int64),
        keys=np.zeros(count, dtype=np.int64),
        free=np.zeros((len(project.amounts), slots), dtype=np.int64),
        dice=np.array([seed % 2_147_483_646 + 1], dtype=np.int64),
    )


def _lists(rows: Sequence[Sequence[int]]) -> tuple[Ints, Ints]:
    """Where each row begins, and all rows one after the other."""
    firsts = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum([len(row) for row in rows], dtype=np.int64)])
    return firsts, np.array([one for row in rows for one in row], dtype=np.int64)
