"""The planning problem as a plain CP-SAT model, slot by slot: what is the best value, and can all that is hard be met?

It shares no code with the planner. Time is counted in whole units, on which every time of the problem has to lie; a job
that may be paused is only paused between units, so with such jobs a better plan may exist than is found here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from typing import Any  # OR-Tools' variables and expressions have no narrower common type.

from ortools.sat.python import cp_model

from gpuyield.model.job import PlanJob, PlanObjective, Problem, ResourceQuota
from plan.small import UNIT_MS

SCALE = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Best:
    """Whether every hard deadline can be met, and the best value of the objective (None: there is none)."""

    feasible: bool
    value: Fraction | None


def best_of(problem: Problem, prices: Mapping[str, Decimal] | None = None) -> Best:
    """The truth about a problem whose times are whole units."""
    kept = _Model(problem, hard=True)
    feasible = kept.solved()
    objective = problem.objective
    if objective is PlanObjective.ON_TIME:
        weight = (kept if feasible else _loosest(problem)).most_weight()
        total = sum((one.weight for one in problem.jobs if _wanted(one) is not None), start=Decimal(0))
        return Best(feasible=feasible, value=Fraction(weight) / Fraction(total) if total else Fraction(1))
    every = _Model(problem, hard=True, every=True)
    if not every.solved():
        return Best(feasible=feasible, value=None)
    match objective:
        case PlanObjective.MAKESPAN:
            return Best(feasible=feasible, value=Fraction(every.least_end() * UNIT_MS, 1000))
        case PlanObjective.CHEAPEST:
            return Best(feasible=feasible, value=every.least_cost(prices or {}))
        case PlanObjective.FEWEST_GPUS:
            return Best(feasible=feasible, value=Fraction(every.fewest()))


def _loosest(problem: Problem) -> _Model:
    """Deadlines may be given up; fixed starts only where they cannot be kept."""
    kept = _Model(problem, hard=False)
    return kept if kept.solved() else _Model(problem, hard=False, fixed=False)


class _Model:
    """`hard`: all deadlines are met. `every`: all jobs run. `fixed`: those with a fixed start run."""

    def __init__(self, problem: Problem, *, hard: bool, every: bool = False, fixed: bool = True) -> None:
        self.problem, self.model = problem, cp_model.CpModel()
        self.counted = problem.resource if problem.objective is PlanObjective.FEWEST_GPUS else None
        self.amount = self.model.new_int_var(0, 10_000, "amount")
        self.slots = range(_horizon(problem))
        self.chosen: dict[tuple[str, int], Any] = {}
        self.held: dict[tuple[str, int, int], Any] = {}
        self.on: dict[str, Any] = {}
        self.extra: dict[tuple[str, int], Any] = {}
        for job in problem.jobs:
            self._add(job)
            must = every or (fixed and _fixed(job) is not None) or (hard and job.deadline_ms is not None)
            if must:
                self.model.add(sum(self.chosen[job.id, at] for at in range(len(job.shapes))) == 1)
        for job in problem.jobs:
            for before in job.after:
                self._order(before, job.id)
        for slot in self.slots:
            self._keep_capacity(slot)
            self._keep_quotas(slot)

    def _add(self, job: PlanJob) -> None:
        model, shapes = self.model, range(len(job.shapes))
        for at in shapes:
            self.chosen[job.id, at] = model.new_bool_var(f"{job.id} in {at}")
            for slot in self.slots:
                self.held[job.id, at, slot] = model.new_bool_var(f"{job.id} in {at} during {slot}")
        model.add(sum(self.chosen[job.id, at] for at in shapes) <= 1)
        for at in shapes:
            self._run(job, at)
        end = job.deadline_ms
        if end is not None:
            for at in shapes:
                model.add(sum(self.held[job.id, at, slot] for slot in self.slots if slot >= end // UNIT_MS) == 0)
                if end < 0:
                    model.add(self.chosen[job.id, at] == 0)
        wanted = _wanted(job)
        self.on[job.id] = model.new_bool_var(f"{job.id} on time")
        model.add(self.on[job.id] <= sum(self.chosen[job.id, at] for at in shapes))
        if wanted is not None:
            for slot in self.slots:
                if slot >= wanted // UNIT_MS:
                    model.add(sum(self.held[job.id, at, slot] for at in shapes) <= 1 - self.on[job.id])

    def _run(self, job: PlanJob, at: int) -> None:
        """The slots of one shape: as many as it takes, in one piece or each further one a restart longer."""
        model, chosen = self.model, self.chosen[job.id, at]
        row = [self.held[job.id, at, slot] for slot in self.slots]
        length = job.shapes[at].duration_ms // UNIT_MS
        fixed = _fixed(job)
        first = max(0, job.release_ms // UNIT_MS if fixed is None else fixed // UNIT_MS)
        for slot in range(min(first, len(row))):
            model.add(row[slot] == 0)
        begun = 0 if fixed is None or fixed >= 0 else -(fixed // UNIT_MS)
        if begun >= length:
            model.add(sum(row) == 0)
            return
        begins = [model.new_bool_var(f"{job.id} in {at} begins at {slot}") for slot in self.slots]
        model.add(begins[0] >= row[0] - (chosen if begun else 0))
        for slot, (before, now) in enumerate(pairwise(row), start=1):
            model.add(begins[slot] >= now - before)
        pieces = sum(begins) + (chosen if begun else 0)
        if fixed is not None and fixed >= 0:
            model.add(row[first] >= chosen)
        restarts = model.new_int_var(0, len(row), f"{job.id} in {at} restarts")
        model.add(restarts >= pieces - chosen)
        if job.restart_ms is None:
            model.add(restarts == 0)
        restart = 0 if job.restart_ms is None else job.restart_ms // UNIT_MS
        model.add(sum(row) == (length - begun) * chosen + restart * restarts)
        self.extra[job.id, at] = restart * restarts

    def _order(self, first: str, second: str) -> None:
        shapes = {job.id: range(len(job.shapes)) for job in self.problem.jobs}
        runs = {name: sum(self.chosen[name, at] for at in shapes[name]) for name in (first, second)}
        self.model.add(runs[second] <= runs[first])
        rows = {
            name: [sum(self.held[name, at, slot] for at in shapes[name]) for slot in self.slots]
            for name in (first, second)
        }
        for slot in self.slots:
            for later in self.slots[slot:]:
                self.model.add(rows[second][slot] + rows[first][later] <= 1)

    def _used(self, resource: str, slot: int, queue: str | None = None) -> Any:
        return sum(
            shape.demand.get(resource, 0) * self.held[job.id, at, slot]
            for job in self.problem.jobs
            if queue is None or job.queue == queue
            for at, shape in enumerate(job.shapes)
        )

    def _keep_capacity(self, slot: int) -> None:
        named = {name for job in self.problem.jobs for shape in job.shapes for name in shape.demand}
        for resource in sorted(named | set(self.problem.capacity.steps)):
            there = self.problem.capacity.amount(resource, slot * UNIT_MS)
            self.model.add(self._used(resource, slot) <= (self.amount if resource == self.counted else there))

    def _keep_quotas(self, slot: int) -> None:
        """Kueue's rule: what queues of a cohort use beyond what each keeps fits into what all of them lend."""
        borrowed: dict[tuple[str, str], list[Any]] = {}
        lent: dict[tuple[str, str], int] = {}
        for queue in self.problem.quotas:
            for resource in self.problem.capacity.steps:
                quota = queue.resources.get(resource)
                used = self._used(resource, slot, queue.queue)
                if quota is None:
                    if resource.startswith("gpu"):
                        self.model.add(used == 0)
                    continue
                nominal, borrow, lend = _amounts(quota, slot)
                if queue.cohort is None:
                    self.model.add(used <= nominal)
                    continue
                if borrow is not None:
                    self.model.add(used <= nominal + borrow)
                beyond = self.model.new_int_var(0, 10_000, f"{queue.queue} borrows {resource} during {slot}")
                self.model.add(beyond >= used - (nominal - lend))
                borrowed.setdefault((queue.cohort, resource), []).append(beyond)
                lent[queue.cohort, resource] = lent.get((queue.cohort, resource), 0) + lend
        for key, parts in borrowed.items():
            self.model.add(sum(parts) <= lent[key])

    def solved(self) -> bool:
        """Whether there is a plan at all."""
        return self._solve() is not None

    def most_weight(self) -> Decimal:
        """The most weight on time."""
        timed = [job for job in self.problem.jobs if _wanted(job) is not None]
        self.model.maximize(sum(int(job.weight * SCALE) * self.on[job.id] for job in timed))
        solver = self._solve()
        assert solver is not None
        return Decimal(round(solver.objective_value)) / SCALE

    def least_end(self) -> int:
        """The earliest unit by which everything has ended."""
        end = self.model.new_int_var(0, len(self.slots), "end")
        for (_, _, slot), held in self.held.items():
            self.model.add(end >= (slot + 1) * held)
        return self._least(end)

    def fewest(self) -> int:
        """The fewest of the counted resource."""
        return self._least(self.amount)

    def least_cost(self, prices: Mapping[str, Decimal]) -> Fraction:
        """The least that all runs cost, at prices per hour."""
        parts = []
        for job in self.problem.jobs:
            for at, shape in enumerate(job.shapes):
                rate = sum(int(prices[name] * SCALE) * amount for name, amount in shape.demand.items())
                length = shape.duration_ms // UNIT_MS * self.chosen[job.id, at] + self.extra.get((job.id, at), 0)
                parts.append(rate * length)
        return Fraction(self._least(sum(parts)) * UNIT_MS, SCALE * 3_600_000)

    def _least(self, what: Any) -> int:
        self.model.minimize(what)
        solver = self._solve()
        assert solver is not None
        return round(solver.objective_value)

    def _solve(self) -> cp_model.CpSolver | None:
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        status = solver.solve(self.model)
        assert status in (cp_model.OPTIMAL, cp_model.FEASIBLE, cp_model.INFEASIBLE), solver.status_name(status)
        return None if status == cp_model.INFEASIBLE else solver


def _fixed(job: PlanJob) -> int | None:
    return job.started_ms if job.started_ms is not None else job.pinned_ms


def _wanted(job: PlanJob) -> int | None:
    return min((end for end in (job.deadline_ms, job.due_ms) if end is not None), default=None)


def _amounts(quota: ResourceQuota, slot: int) -> tuple[int, int | None, int]:
    def at(amounts: int | tuple[tuple[int, int], ...]) -> int:
        if isinstance(amounts, int):
            return amounts
        return next((amount for from_ms, amount in reversed(amounts) if from_ms <= slot * UNIT_MS), 0)

    nominal = at(quota.nominal)
    lend = nominal if quota.lend is None else min(nominal, at(quota.lend))
    return nominal, None if quota.borrow is None else at(quota.borrow), lend


def _horizon(problem: Problem) -> int:
    """Units by which everything can have ended that ever can."""
    longest = sum(max(shape.duration_ms for shape in job.shapes) + 2 * (job.restart_ms or 0) for job in problem.jobs)
    latest = [max(0, job.release_ms, _fixed(job) or 0) for job in problem.jobs]
    steps = [at for one in problem.capacity.steps.values() for at, _ in one]
    calendars = [
        at
        for queue in problem.quotas
        for quota in queue.resources.values()
        if not isinstance(quota.nominal, int)
        for at, _ in quota.nominal
    ]
    return (longest + max([0, *latest, *steps, *calendars])) // UNIT_MS + 1
