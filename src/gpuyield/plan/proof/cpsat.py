"""The CP-SAT lane: small problems, whole, with the best schedule so far as a hint. Needs the extra `exact`.

What the solver proves is its word: it goes into `proof` and never into a status or a bound. One worker and limits in
deterministic time, so the same problem, hint and limit give the same answer; the stop callback is only a cap.
"""

from __future__ import annotations

import importlib.util
import threading
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any  # OR-Tools is optional and comes without usable types.

from gpuyield.errors import InternalError
from gpuyield.plan.case import Case
from gpuyield.plan.instance.budget import Budget, never
from gpuyield.plan.instance.completed import complete
from gpuyield.plan.instance.schedule import Schedule
from gpuyield.plan.proof.cpsat_model import Aim, Model, Question

NAME = "cp-sat"
MOST_TASKS = 300
"""Beyond so many jobs a problem is not given to the solver whole."""
WORK_PER_UNIT = 500_000
"""Placements of a job that one unit of the solver's deterministic time is worth (about 20 s)."""
WATCH_S = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """What the solver found and says: a schedule, whether it closed the question, and its bound in the aim's unit.

    `bound` is a number of units, ms, a sum of weights or a cost. `none_exists`: no plan meets all hard deadlines.
    """

    schedule: Schedule | None = None
    is_best: bool = False
    none_exists: bool = False
    bound: Fraction | None = None


def is_there() -> bool:
    """Whether OR-Tools is installed."""
    return importlib.util.find_spec("ortools") is not None


def ask(case: Case, question: Question, hint: Schedule | None, budget: Budget, *, seed: int = 0) -> Word:
    """The solver's answer within the budget; an empty one where it is not installed or the problem not for it.

    Jobs that may be paused are asked for in one piece, so with them nothing is said to be closed.
    """
    if len(case.board.tasks) > MOST_TASKS or case.windows.stuck or budget.left <= 0 or not is_there():
        return Word()
    if not budget.spend(0):
        return Word()
    model = Model(case, question)
    if not model.is_sound:
        return Word()
    if hint is not None:
        model.hint(hint)
    return _answer(model, budget, seed)


def _answer(model: Model, budget: Budget, seed: int) -> Word:
    """Solve, and read what was found."""
    cp, aim = model.cp, model.question.aim
    solver: Any = cp.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = seed
    solver.parameters.max_deterministic_time = budget.left / WORK_PER_UNIT
    status = _solve(solver, model.model, budget.should_stop)
    budget.spend(min(budget.left, 1 + round(solver.response_proto.deterministic_time * WORK_PER_UNIT)))
    if status == cp.MODEL_INVALID:
        raise InternalError(f"the solver refuses the model: {model.model.validate()[:256]}")
    if status == cp.INFEASIBLE:
        return Word(none_exists=model.whole and not model.question.give_up)
    if status not in (cp.OPTIMAL, cp.FEASIBLE):
        return Word(bound=model.bound(solver))
    return Word(
        schedule=complete(model.roomy(solver), model.placed(solver)),
        is_best=model.whole and status == cp.OPTIMAL and aim is not Aim.DEADLINES,
        bound=model.bound(solver),
    )


def _solve(solver: Any, model: Any, should_stop: Callable[[], bool]) -> Any:
    """Solve, and say stop when told to."""
    if should_stop is never:
        return solver.solve(model)
    over = threading.Event()

    def watch() -> None:
        while not over.wait(WATCH_S):
            if should_stop():
                solver.stop_search()

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        return solver.solve(model)
    finally:
        over.set()
        watcher.join()
