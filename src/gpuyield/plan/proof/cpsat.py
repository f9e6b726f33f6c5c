"""The CP-SAT lane: small problems, whole, with the best schedule so far as a hint. Needs the extra `exact`.

What the solver proves is its word: it goes into `proof` and never into a status or a bound. One worker and limits in
deterministic time, so the same problem, hint and limit give the same answer; the stop callback is only a cap.
"""

from __future__ import annotations

import importlib
import importlib.util
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Any  # OR-Tools is optional and comes without usable types.

from gpuyield.errors import InternalError
from gpuyield.plan.case import Case, complete
from gpuyield.plan.instance.board import Mode, Steps, Task
from gpuyield.plan.instance.budget import Budget, never
from gpuyield.plan.instance.frame import grid_of
from gpuyield.plan.instance.profile import pieces
from gpuyield.plan.instance.schedule import Placement, Schedule
from gpuyield.plan.proof.exact import bound_tasks

NAME = "cp-sat"
MOST_TASKS = 300
"""Beyond so many jobs a problem is not given to the solver whole."""
WORK_PER_UNIT = 500_000
"""Placements of a job that one unit of the solver's deterministic time is worth (about 20 s)."""
LARGEST = 1 << 50
"""Sums beyond this are not given to the solver."""
WATCH_S = 0.02


class Aim(StrEnum):
    """What is asked: all hard deadlines; weight on time; or the least of an amount, the last end, or the cost."""

    DEADLINES = "deadlines"
    ON_TIME = "on-time"
    FEWEST = "fewest"
    MAKESPAN = "makespan"
    CHEAPEST = "cheapest"


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is asked of the solver.

    `resource` and `floor` belong to fewest: what is counted, and an amount that is proven to be needed. `costs` by
    task and shape belong to cheapest. With `give_up` hard deadlines may be given up for weight; `end_ms` is an end
    that is known to do for makespan.
    """

    aim: Aim
    resource: int | None = None
    floor: int = 0
    costs: Mapping[tuple[int, int], Fraction] | None = None
    give_up: bool = False
    end_ms: int | None = None


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
    model = _Model(case, question)
    if not model.is_sound:
        return Word()
    if hint is not None:
        model.hint(hint)
    return model.answer(budget, seed)


class _Model:
    def __init__(self, case: Case, question: Question) -> None:
        self.case, self.question = case, question
        self.cp: Any = importlib.import_module("ortools.sat.python.cp_model")
        self.model: Any = self.cp.CpModel()
        self.grid = grid_of(case.board, case.steps)
        self.whole = all(task.job.restart_ms is None for task in case.board.tasks)
        self.hopeless = {one.task for one in case.impossible}
        self.tasks = self._asked_for()
        self.horizon = self._horizon()
        self.starts: dict[int, Any] = {}
        self.ends: dict[int, Any] = {}
        self.runs: dict[int, Any] = {}
        self.modes: dict[int, list[tuple[Mode, Any]]] = {}
        self.intervals: list[list[tuple[Any, int]]] = [[] for _ in case.board.resources]
        self.is_sound = self.horizon < LARGEST and self._build()

    def hint(self, schedule: Schedule) -> None:
        """Start from a schedule."""
        for at in self.tasks:
            one = schedule.placed[at]
            wanted = self._latest_end(self.case.board.tasks[at])
            kept = one is not None and not one.parts and (wanted is None or one.end_ms <= wanted)
            if not self._is_owed(self.case.board.tasks[at]):
                self.model.add_hint(self.runs[at], kept)
            if one is None or not kept:
                continue
            self.model.add_hint(self.starts[at], one.start_ms // self.grid)
            for mode, chosen in self.modes[at]:
                if len(self.modes[at]) > 1:
                    self.model.add_hint(chosen, mode.shape == one.mode.shape)

    def answer(self, budget: Budget, seed: int) -> Word:
        """Solve, and read what was found."""
        solver: Any = self.cp.CpSolver()
        solver.parameters.num_workers = 1
        solver.parameters.random_seed = seed
        solver.parameters.max_deterministic_time = budget.left / WORK_PER_UNIT
        status = _solve(solver, self.model, budget.should_stop)
        budget.spend(min(budget.left, 1 + round(solver.response_proto.deterministic_time * WORK_PER_UNIT)))
        if status == self.cp.MODEL_INVALID:
            raise InternalError(f"the solver refuses the model: {self.model.validate()[:256]}")
        if status == self.cp.INFEASIBLE:
            return Word(none_exists=self.whole and not self.question.give_up)
        if status not in (self.cp.OPTIMAL, self.cp.FEASIBLE):
            return Word(bound=self._bound(solver) if self.question.aim is not Aim.DEADLINES else None)
        placed = {
            at: Placement(
                next(mode for mode, chosen in self.modes[at] if solver.value(chosen)), self._start(solver, at)
            )
            for at in self.tasks
            if solver.value(self.runs[at])
        }
        return Word(
            schedule=complete(self._roomy(solver), placed),
            is_best=self.whole and status == self.cp.OPTIMAL and self.question.aim is not Aim.DEADLINES,
            bound=self._bound(solver) if self.question.aim is not Aim.DEADLINES else None,
        )

    def _start(self, solver: Any, at: int) -> int:
        fixed = self.case.board.tasks[at].fixed_ms
        return int(solver.value(self.starts[at])) * self.grid if fixed is None else fixed

    def _roomy(self, solver: Any) -> Case:
        """The case on which the plan holds: for fewest with the amount that was found."""
        resource = self.question.resource
        if resource is None:
            return self.case
        return self.case.with_steps(resource, ((_begins(self.case.steps[resource]), solver.value(self.amount)),))

    def _asked_for(self) -> list[int]:
        """The jobs that matter for the aim; the others are placed behind them."""
        tasks = self.case.board.tasks
        match self.question.aim:
            case Aim.MAKESPAN | Aim.CHEAPEST:
                return [task.index for task in tasks]
            case Aim.ON_TIME:
                waiting = {*bound_tasks(self.case.board, self.case.windows)}
                waiting |= {task.index for task in tasks if task.due_ms is not None}
                found: set[int] = set()
                while waiting:
                    found |= waiting
                    waiting = {one for at in waiting for one in tasks[at].before} - found
                return sorted(found)
            case _:
                return bound_tasks(self.case.board, self.case.windows)

    def _horizon(self) -> int:
        """An instant by which everything can have ended, in grid units."""
        if self.question.end_ms is not None:
            return -(-self.question.end_ms // self.grid)
        longest = sum(max((mode.duration_ms for mode in task.modes), default=0) for task in self.case.board.tasks)
        latest = max([0, *self.case.windows.heads, *(tail for tail in self.case.windows.tails if tail is not None)])
        changes = max((at for steps in self.case.steps for at, _ in steps), default=0)
        return -(-(longest + max(latest, changes)) // self.grid)

    def _build(self) -> bool:
        for at in self.tasks:
            if not self._add(self.case.board.tasks[at]):
                return False
        self._add_precedence()
        self._add_capacity()
        return self._add_objective()

    def _add(self, task: Task) -> bool:
        """A job: where it may start, in which shapes, whether it has to run."""
        at, model = task.index, self.model
        modes = self.case.windows.modes[at] if task.fixed_ms is None else self.case.windows.held[at]
        wanted = self._latest_end(task)
        low, high = self._first(task), self._last(task, modes, wanted)
        modes = tuple(mode for mode in modes if wanted is None or low * self.grid + mode.duration_ms <= wanted)
        owed = self._is_owed(task)
        if not modes or high < low:
            if owed:
                self.model.add_bool_or([])
            high, modes = low, ()
        start = model.new_int_var(low, high, f"s{at}")
        runs = model.new_constant(1) if owed else model.new_bool_var(f"r{at}")
        chosen = [(mode, runs if len(modes) == 1 else model.new_bool_var(f"m{at}_{mode.shape}")) for mode in modes]
        if len(chosen) != 1:
            model.add(sum(literal for _, literal in chosen) == runs)
        self.starts[at], self.runs[at], self.modes[at] = start, runs, chosen
        spans = [(mode, literal, -(-mode.duration_ms // self.grid)) for mode, literal in chosen]
        self.ends[at] = start + sum(length * literal for _, literal, length in spans)
        for mode, literal, length in spans:
            if wanted is not None and task.fixed_ms is None:
                model.add(start + length <= wanted // self.grid).only_enforce_if(literal)
            if mode.demand:
                begins, held = (start, length) if low >= 0 else (0, length + low)
                interval = model.new_optional_fixed_size_interval_var(begins, held, literal, f"i{at}_{mode.shape}")
                for resource, amount in mode.demand:
                    self.intervals[resource].append((interval, amount))
        return True

    def _first(self, task: Task) -> int:
        if task.fixed_ms is not None:
            return task.fixed_ms // self.grid
        return -(-self.case.windows.heads[task.index] // self.grid)

    def _last(self, task: Task, modes: Sequence[Mode], wanted: int | None) -> int:
        if task.fixed_ms is not None:
            return task.fixed_ms // self.grid
        shortest = min((mode.duration_ms for mode in modes), default=0)
        return ((self.horizon * self.grid if wanted is None else wanted) - shortest) // self.grid

    def _latest_end(self, task: Task) -> int | None:
        """When it must have ended where it runs in the model; those that wait for one may be given up before it is."""
        if self.question.aim is Aim.ON_TIME and not self._is_owed(task):
            return min((end for end in (task.deadline_ms, task.due_ms) if end is not None), default=None)
        return self.case.windows.tails[task.index]

    def _is_owed(self, task: Task) -> bool:
        tail = self.case.windows.tails[task.index]
        if self.question.aim is Aim.ON_TIME:
            if self.question.give_up:
                return task.fixed_ms is not None and task.index not in self.hopeless
            return task.fixed_ms is not None or tail is not None
        return True

    def _add_precedence(self) -> None:
        for at in self.tasks:
            for one in self.case.board.tasks[at].before:
                if one in self.starts:
                    self.model.add(self.ends[one] <= self.starts[at]).only_enforce_if(self.runs[at])
                    self.model.add_implication(self.runs[at], self.runs[one])

    def _add_capacity(self) -> None:
        for resource, steps in enumerate(self.case.steps):
            rows = list(self.intervals[resource])
            if not rows:
                continue
            if resource == self.question.resource:
                total = sum(amount for _, amount in rows)
                self.amount: Any = self.model.new_int_var(min(self.question.floor, total), total, "amount")
                self.model.add_cumulative([one for one, _ in rows], [amount for _, amount in rows], self.amount)
                continue
            most = max((amount for _, amount in steps), default=0)
            for from_ms, to_ms, amount in pieces(steps, -self.grid, self.horizon * self.grid):
                low, high = from_ms // self.grid, -(-to_ms // self.grid)
                if amount < most and low < high and to_ms > 0:
                    low = max(0, low)
                    blocked = self.model.new_fixed_size_interval_var(low, high - low, f"b{resource}_{low}")
                    rows.append((blocked, most - amount))
            self.model.add_cumulative([one for one, _ in rows], [amount for _, amount in rows], most)

    def _add_objective(self) -> bool:
        question, model = self.question, self.model
        self.scale = 1
        match question.aim:
            case Aim.DEADLINES:
                return True
            case Aim.FEWEST:
                if not self.intervals[question.resource or 0]:
                    return False
                model.minimize(self.amount)
            case Aim.MAKESPAN:
                last = model.new_int_var(0, self.horizon, "last")
                for at in self.tasks:
                    model.add(self.ends[at] <= last)
                model.minimize(last)
            case Aim.ON_TIME:
                return self._weigh(
                    [(self._on_time(at), Fraction(self.case.board.tasks[at].weight)) for at in self.tasks]
                )
            case Aim.CHEAPEST:
                costs = question.costs or {}
                rows = [(chosen, -costs[at, mode.shape]) for at in self.tasks for mode, chosen in self.modes[at]]
                return self._weigh(rows)
        return True

    def _weigh(self, rows: Iterable[tuple[Any, Fraction]]) -> bool:
        """Maximise a sum of literals times exact factors; False where these are too large for the solver."""
        factors = [(literal, factor) for literal, factor in rows if factor and literal is not None]
        for _, factor in factors:
            self.scale = self.scale * factor.denominator // _common(self.scale, factor.denominator)
        if sum(abs(factor) for _, factor in factors) * self.scale > LARGEST:
            return False
        self.model.maximize(sum(int(factor * self.scale) * literal for literal, factor in factors))
        return True

    def _on_time(self, at: int) -> Any:
        """Whether a job is on time; None where it has neither a deadline nor a due time."""
        task = self.case.board.tasks[at]
        if task.due_ms is None and task.deadline_ms is None:
            return None
        if task.due_ms is None or not self._is_owed(task):
            return self.runs[at]
        on_time = self.model.new_bool_var(f"t{at}")
        self.model.add(self.ends[at] <= task.due_ms // self.grid).only_enforce_if(on_time)
        return on_time

    def _bound(self, solver: Any) -> Fraction:
        best = Fraction(round(solver.best_objective_bound))
        match self.question.aim:
            case Aim.MAKESPAN:
                return best * self.grid
            case Aim.CHEAPEST:
                return -best / self.scale
            case Aim.ON_TIME:
                return best / self.scale
            case _:
                return best


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


def _begins(steps: Steps) -> int:
    return min(0, steps[0][0]) if steps else 0


def _common(one: int, other: int) -> int:
    while other:
        one, other = other, one % other
    return one
