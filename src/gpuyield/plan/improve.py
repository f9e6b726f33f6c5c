"""Better plans than the list rules find: every subset to give up for small problems, squeaky wheels for larger ones.

Source: squeaky wheel optimization (Joslin, Clements 1999).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gpuyield.plan.board import in_order
from gpuyield.plan.budget import Budget
from gpuyield.plan.case import SETTLE_WORK, Case, complete
from gpuyield.plan.exact import Answer, bound_tasks, settle
from gpuyield.plan.schedule import Manner, Schedule, list_orders, merit_of, serial_schedule

SUBSET_TASKS = 12
PATIENCE = 60
"""Rounds without an improvement after which squeaky wheels stop."""


def fewest_given_up(case: Case, budget: Budget) -> Schedule | None:
    """For few jobs: the plan that gives up the least weight of hard deadlines; None beyond, or out of budget."""
    tasks = bound_tasks(case.board, case.windows)
    if len(tasks) > SUBSET_TASKS or any(task.job.restart_ms is not None for task in case.board.tasks):
        return None
    for gone in _subsets(case, tasks):
        share = budget.share(SETTLE_WORK)
        kept = [at for at in tasks if at not in gone]
        settled = settle(case.board, case.steps, case.windows, kept, share)
        budget.settle(share)
        if settled.answer is Answer.PLAN:
            return complete(case, settled.placed)
        if settled.answer is Answer.OPEN:
            return None
    return None


def _subsets(case: Case, tasks: list[int]) -> Iterator[frozenset[int]]:
    """Sets of jobs to give up, least weight first; whoever waits for one of them is in the set too."""
    board = case.board
    doomed = {one.task for one in case.impossible}
    free = [at for at in tasks if at not in doomed and board.tasks[at].fixed_ms is None]
    sets = []
    for number in range(1 << len(free)):
        gone = doomed.union(at for place, at in enumerate(free) if number >> place & 1)
        kept = [at for at in tasks if at not in gone]
        if any(one in gone for at in kept for one in board.tasks[at].before):
            continue
        weight = sum(board.tasks[at].weight for at in gone)
        sets.append((weight, len(gone), sorted(gone), frozenset(gone)))
    sets.sort(key=lambda entry: entry[:3])
    return (gone for *_, gone in sets)


def squeaky_wheel(case: Case, best: Schedule, seed: int, budget: Budget) -> Schedule:
    """Jobs that are late or given up move forward in the order, again and again; the best schedule is kept."""
    board = case.board
    chance = np.random.default_rng(seed)
    before = [task.before for task in board.tasks]
    orders = list(list_orders(board, case.windows))
    merit = merit_of(board, best)
    order = orders[0]
    for one in orders:
        if not budget.spend(len(order)):
            return best
        schedule = serial_schedule(board, case.steps, case.windows, one, Manner())
        if merit_of(board, schedule) >= merit:
            merit, best, order = merit_of(board, schedule), schedule, one
    quiet = 0
    while quiet < PATIENCE and budget.spend(len(order)):
        trial = _moved_forward(case, order, best, chance)
        if board.chained:
            trial = in_order(trial, before)
        schedule = serial_schedule(board, case.steps, case.windows, trial, Manner())
        found = merit_of(board, schedule)
        quiet = 0 if found > merit else quiet + 1
        if found >= merit:
            merit, best, order = found, schedule, trial
    return best


def _moved_forward(case: Case, order: list[int], schedule: Schedule, chance: np.random.Generator) -> list[int]:
    rank = {at: float(place) for place, at in enumerate(order)}
    for at in order:
        one, task = schedule.placed[at], case.board.tasks[at]
        wanted = min((end for end in (task.deadline_ms, task.due_ms) if end is not None), default=None)
        missed = one is None or (wanted is not None and one.end_ms > wanted)
        if missed and chance.random() < 0.7:
            rank[at] *= float(chance.random())
        elif chance.random() < 0.02:
            rank[at] += float(chance.normal()) * 3
    return sorted(order, key=lambda at: (rank[at], at))
