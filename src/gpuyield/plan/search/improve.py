"""Better plans than the list rules find: jobs that are late move forward in the order.

Source: squeaky wheel optimization (Joslin, Clements 1999).
"""

from __future__ import annotations

import numpy as np

from gpuyield.plan.case import Case
from gpuyield.plan.instance.budget import Budget
from gpuyield.plan.instance.order import in_order
from gpuyield.plan.instance.schedule import Manner, Schedule, list_orders, merit_of, serial_schedule

PATIENCE = 60
"""Rounds without an improvement after which squeaky wheels stop."""


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
