"""A question about a case as a CP-SAT model. Needs the extra `exact`."""

from __future__ import annotations

import importlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Any  # OR-Tools is optional and comes without usable types.

from gpuyield.plan.case import Case
from gpuyield.plan.instance.board import Mode, Steps, Task
from gpuyield.plan.instance.frame import grid_of
from gpuyield.plan.instance.profile import pieces
from gpuyield.plan.instance.schedule import Placement, Schedule
from gpuyield.plan.proof.exact import bound_tasks

LARGEST = 1 << 50
"""Sums beyond this are not given to the solver."""


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


class Model:
    """The jobs that matter for the aim as intervals, what they wait for, what there is, and what is sought.

    `is_sound`: numbers are small enough for the solver, and there is something to ask.
    """

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

    def placed(self, solver: Any) -> dict[int, Placement]:
        """Where the jobs run in what the solver found."""
        return {
            at: Placement(
                next(mode for mode, chosen in self.modes[at] if solver.value(chosen)), self._start(solver, at)
            )
            for at in self.tasks
            if solver.value(self.runs[at])
        }

    def roomy(self, solver: Any) -> Case:
        """The case on which the plan holds: for fewest with the amount that was found."""
        resource = self.question.resource
        if resource is None:
            return self.case
        return self.case.with_steps(resource, ((_begins(self.case.steps[resource]), solver.value(self.amount)),))

    def bound(self, solver: Any) -> Fraction | None:
        """What the solver says is the best there can be, in the aim's unit; None where nothing is sought."""
        if self.question.aim is Aim.DEADLINES:
            return None
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

    def _start(self, solver: Any, at: int) -> int:
        fixed = self.case.board.tasks[at].fixed_ms
        return int(solver.value(self.starts[at])) * self.grid if fixed is None else fixed

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
            self.scale = math.lcm(self.scale, factor.denominator)
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


def _begins(steps: Steps) -> int:
    return min(0, steps[0][0]) if steps else 0
