"""Make a plan: look, prove, improve, and say what would help. Deterministic by seed and work."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction

from gpuyield.model.job import PlanObjective, Problem
from gpuyield.model.plan import (
    Certificate,
    GpuNeed,
    ObjectiveValue,
    Plan,
    PlanStatus,
    Proof,
    Relaxation,
    Run,
    StoppedBecause,
)
from gpuyield.plan.case import Case
from gpuyield.plan.deadlines import (
    BOTH_CHOICES,
    find_plan,
    has_choice,
    prove,
    quick_proof,
    rule_schedules,
    searched_proof,
)
from gpuyield.plan.instance.budget import Budget, never
from gpuyield.plan.instance.completed import complete
from gpuyield.plan.instance.profile import NEVER, constant
from gpuyield.plan.instance.schedule import Manner, Merit, Placement, Schedule, ShapeChoice, meets_all, merit_of
from gpuyield.plan.outlook.explain import explain
from gpuyield.plan.outlook.jobs import planned_jobs
from gpuyield.plan.proof.impossible import chain_heads
from gpuyield.plan.proof.objective import (
    chosen_resource,
    on_time_objective,
    on_time_shares,
    priced,
    run_costs,
    unlimited,
    unmeetable,
)
from gpuyield.plan.proof.solver import Solver, said_of_amount
from gpuyield.plan.proof.subsets import least_missed
from gpuyield.plan.proof.weigh import weight_certificate
from gpuyield.plan.relaxation.searched import relaxations
from gpuyield.plan.search.cheapest import cheaper, cost_of, least_cost
from gpuyield.plan.search.earlier import as_early_as_it_fits
from gpuyield.plan.search.fewest import PLENTY, fewest, peak_of
from gpuyield.plan.search.improve import squeaky_wheel
from gpuyield.plan.search.large import improved, is_large
from gpuyield.plan.search.makespan import Shortest, bounded, makespan_objective, shortest
from gpuyield.plan.search.neighbours import replaced_nearby

DEFAULT_WORK = 250_000
"""Placements that a plan may try: a few seconds in plain Python."""

SQUEAKY_WORK = 30_000
"""What moving late jobs forward in the order may take of it."""

NEARBY_WORK = 30_000
"""What placing anew around late jobs may take of it."""

PARTS_TASKS = 1_500
"""Up to so many jobs this is done after the kernel, too, which places jobs that may be paused in one piece."""

ADVICE_WORK = 40_000
"""What looking for relaxations may take of it."""


def make_plan(
    problem: Problem,
    *,
    seed: int = 0,
    work: int = DEFAULT_WORK,
    should_stop: Callable[[], bool] = never,
    prices: Mapping[str, Decimal] | None = None,
    advise: bool = True,
    bound: bool = True,
    start_from: Mapping[str, Run] | None = None,
) -> Plan:
    """The best plan found, what is proven about it, and what would make it fit.

    `work` bounds the search in placements of a job; `should_stop` is a cap from outside (a clock). `prices` per unit
    of a resource and hour are needed for objective cheapest. Without `advise` no relaxations are looked for, without
    `bound` it is not proven how many jobs could be on time at most. The plan is never worse than `start_from`, runs
    that keep to the problem, and is that one unless a better one is found.

    Raises:
        PlanError: The problem cannot be built: all that is wrong with it.
    """
    return _Maker(problem, seed, Budget(work, should_stop), prices, start_from, bound=bound).plan(advise=advise)


@dataclass(slots=True)
class _Known:
    """The best schedule so far, and what is proven or merely known about the hard deadlines."""

    schedule: Schedule
    certificate: Certificate | None = None
    none_exists: bool = False


class _Maker:
    def __init__(
        self,
        problem: Problem,
        seed: int,
        budget: Budget,
        prices: Mapping[str, Decimal] | None,
        start_from: Mapping[str, Run] | None,
        *,
        bound: bool,
    ) -> None:
        self.bound = bound
        self.given = Case.of(problem)
        self.problem, self.seed, self.budget, self.prices = problem, seed, budget, prices
        self.chosen: int | None = None
        self.case = self.given
        if problem.objective is PlanObjective.FEWEST_GPUS:
            self.chosen = chosen_resource(self.given)
            self.case = unlimited(self.given, self.chosen, _enough(self.given))
        self.costs = None
        if problem.objective is PlanObjective.CHEAPEST:
            self.costs = run_costs(self.given, prices or {})
        self.shortest: Shortest | None = None
        self.solver = Solver(self.case, seed, budget)
        self.start = None if start_from is None else self._schedule(start_from)

    def plan(self, *, advise: bool) -> Plan:
        known = self._look()
        needs = self._needs(known)
        self._adopt(known, needs)
        if not meets_all(self.case.board, known.schedule):
            needs = self._make_best_of(known, needs)
            if known.certificate is None and is_large(self.case) and not meets_all(self.case.board, known.schedule):
                known.certificate = unmeetable(self.case, known.schedule, self.budget)
        held = self._held(needs)
        known.schedule, needs = self._as_early(held, known.schedule, needs)
        objective = self._objective(known, needs)
        status = self._status(known, objective)
        relaxed: list[Relaxation] = []
        if advise and status in (PlanStatus.INFEASIBLE, PlanStatus.UNKNOWN):
            share = self.budget.share(ADVICE_WORK)
            relaxed = relaxations(self.case, known.schedule, known.certificate, needs, share)
            self.budget.settle(share)
        jobs = planned_jobs(held, known.schedule)
        at_once = {
            self.given.board.resources[at]: started_at_once(self.given, at) for at in self.given.board.gpu_resources()
        }
        statuses = {one.id: one.status for one in jobs}
        return Plan(
            status=status,
            objective=objective,
            jobs=jobs,
            gpus=tuple(needs),
            on_time=on_time_shares(self.case.board, known.schedule),
            certificate=known.certificate if status is PlanStatus.INFEASIBLE else None,
            proof=self._proof(known, status, objective, needs),
            explanation=explain(
                self.case, known.schedule, statuses, status, known.certificate, needs, relaxed, at_once
            ),
            relaxations=tuple(relaxed),
            peak_if_started_at_once=at_once,
            seed=self.seed,
            stopped_because=self._stopped(status),
        )

    def _look(self) -> _Known:
        """List rules, then a proof that is cheap, then the exact lane, then whatever improves."""
        case = self.case
        known = _Known(self._best_by_rule())
        if self.start is not None and self._worth(self.start) >= self._worth(known.schedule):
            known.schedule = self.start
        if meets_all(case.board, known.schedule):
            return self._polished(known)
        if case.hard_impossible:
            known.certificate = prove(case, self.budget)
            return known
        if is_large(case):
            known.certificate = quick_proof(case, self.budget)
        if known.certificate is None:
            found = find_plan(case, self.budget, rules=False)
            if found.schedule is not None:
                known.schedule = found.schedule
                return self._polished(known)
            if not found.none_exists:
                known.schedule = self.solver.deadlines(known.schedule)
                if meets_all(case.board, known.schedule):
                    return self._polished(known)
            known.none_exists = found.none_exists
            # What is quick was tried on a large one before.
            quick = None if is_large(case) else quick_proof(case, self.budget)
            known.certificate = quick or searched_proof(case, self.budget, found)
        return known

    def _best_by_rule(self) -> Schedule:
        """The best of the list rules; a later manner has to be better in more than an earlier end."""
        best: Schedule | None = None
        for manner in self._manners():
            schedules = rule_schedules(self.case, self.budget, (manner,))
            found = max(schedules, key=self._merit)
            if best is None or self._worth(found) > self._worth(best):
                best = found
            if not has_choice(self.case.board):
                break
        assert best is not None
        return best

    def _worth(self, schedule: Schedule) -> tuple[object, ...]:
        """The merit without the end of the last job, unless that is the objective."""
        *first, merit = self._merit(schedule)
        assert isinstance(merit, Merit)
        return (*first, merit.all_met, merit.weight_on_time, merit.run)

    def _make_best_of(self, known: _Known, needs: Sequence[GpuNeed]) -> list[GpuNeed]:
        """Not all deadlines are met yet: give up as little as possible; perhaps nothing, then needs shrink to that."""
        self._improve(known)
        known.schedule = self._with_fixed(known.schedule)
        if not meets_all(self.case.board, known.schedule) or known.schedule.missing():
            return list(needs)
        shown = []
        for need in needs:
            height = peak_of(known.schedule, self.case.board.resources.index(need.resource))
            if need.needed is None or height < need.needed:
                need = replace(need, needed=height, witness=self.case.runs(known.schedule))
            shown.append(need)
        return shown

    def _with_fixed(self, schedule: Schedule) -> Schedule:
        """The schedule with the fixed jobs for which there is room once others are given up."""
        tasks, hopeless = self.case.board.tasks, {one.task for one in self.case.impossible}
        if not any(tasks[at].fixed_ms is not None and at not in hopeless for at in schedule.missing()):
            return schedule
        return complete(self.case, {at: one for at, one in enumerate(schedule.placed) if one is not None})

    def _as_early(self, held: Case, schedule: Schedule, needs: list[GpuNeed]) -> tuple[Schedule, list[GpuNeed]]:
        """Nothing waits without a reason; the plan that this one starts from is left as it is."""
        if schedule is self.start or (self.chosen is not None and needs[0].needed is None):
            return schedule, needs
        earlier = as_early_as_it_fits(held.board, held.steps, schedule)
        if self.chosen is not None:
            needs = [replace(needs[0], witness=self.case.runs(earlier))]
        return earlier, needs

    def _held(self, needs: Sequence[GpuNeed]) -> Case:
        """The case with no more of the chosen resource than the plan needs."""
        if self.chosen is None or needs[0].needed is None:
            return self.case
        return self.case.with_steps(self.chosen, constant(self.case.steps[self.chosen], needs[0].needed))

    def _polished(self, known: _Known) -> _Known:
        """All deadlines are met: now the objective."""
        if self.problem.objective is PlanObjective.MAKESPAN:
            self.shortest = shortest(
                self.case,
                known.schedule,
                self.seed,
                self.budget,
                lambda best: self.solver.makespan(best, self._merit),
            )
            known.schedule = self.shortest.schedule
        elif any(
            task.due_ms is not None and one is not None and one.end_ms > task.due_ms
            for task, one in zip(self.case.board.tasks, known.schedule.placed, strict=True)
        ):
            self._improve(known)
        if self.costs is not None:
            known.schedule = cheaper(self.case, self.costs, known.schedule, self.budget)
            known.schedule = self.solver.cheapest(known.schedule, self._merit, self.costs)
        return known

    def _improve(self, known: _Known) -> None:
        """More weight on time: all that can be missed is tried for few jobs, else late ones are placed anew."""
        if is_large(self.case):
            sure = known.certificate is not None
            self._take(known, improved(self.case, known.schedule, self.seed, self.budget, sure=sure))
            tasks = self.case.board.tasks
            if len(tasks) <= PARTS_TASKS and any(task.job.restart_ms is not None for task in tasks):
                self._search(known, replaced_nearby, NEARBY_WORK)
            return
        least = least_missed(self.case, known.schedule, self.budget)
        if least is not None:
            self._take(known, least)
            return
        self._search(known, squeaky_wheel, SQUEAKY_WORK)
        self._search(known, replaced_nearby, NEARBY_WORK)
        known.schedule = self.solver.on_time(known.schedule, self._merit)

    def _search(self, known: _Known, search: Callable[[Case, Schedule, int, Budget], Schedule], work: int) -> None:
        """What a search finds with so much work, or a third of what is left."""
        share = self.budget.share(min(work, self.budget.left // 3))
        better = search(self.case, known.schedule, self.seed, share)
        self.budget.settle(share)
        self._take(known, better)

    def _take(self, known: _Known, other: Schedule) -> None:
        """The other schedule where it is better."""
        if self._merit(other) > self._merit(known.schedule):
            known.schedule = other

    def _manners(self) -> Sequence[Manner]:
        if self.costs is not None:
            costs = self.costs
            return (Manner(ShapeChoice.CHEAPEST, cost=lambda task, mode: costs[task.index, mode.shape]), *BOTH_CHOICES)
        return BOTH_CHOICES

    def _merit(self, schedule: Schedule) -> tuple[object, ...]:
        """How good a schedule is. Costs and ends are compared only where all deadlines are met and as many jobs run."""
        merit = merit_of(self.case.board, schedule)
        if merit.all_met and self.costs is not None:
            return (True, merit.run, -self._cost(schedule), merit)
        if merit.all_met and self.problem.objective is PlanObjective.MAKESPAN:
            return (True, merit.run, -schedule.end_ms(), merit)
        return (merit.all_met, 0, 0, merit)

    def _cost(self, schedule: Schedule) -> Fraction:
        assert self.costs is not None
        return cost_of(self.costs, schedule)

    def _needs(self, known: _Known) -> list[GpuNeed]:
        """The need of each GPU resource; with objective fewest-gpus that of the chosen one alone."""
        schedules = [known.schedule]
        if self.chosen is not None:
            return [fewest(self.given, self.chosen, schedules, self.budget, chosen=True)]
        which = self.case.board.gpu_resources()
        found = []
        for at in which:
            share = self.budget.share(self.budget.left // (2 * len(which)))
            found.append(fewest(self.case, at, schedules, share))
            self.budget.settle(share)
        return found

    def _adopt(self, known: _Known, needs: Sequence[GpuNeed]) -> None:
        """Take a witness as the plan where the GPUs that exist suffice for it and nothing better is known."""
        case = self.case
        if self.chosen is not None:
            if needs[0].needed is not None:
                known.schedule = self._schedule(needs[0].witness)
                known.certificate = None
            return
        if meets_all(case.board, known.schedule):
            return
        for need in needs:
            at = case.board.resources.index(need.resource)
            if need.needed is None or need.needed > _least_there(case, at):
                continue
            known.schedule, known.certificate = self._schedule(need.witness), None
            return

    def _schedule(self, runs: Mapping[str, Run]) -> Schedule:
        placed: list[Placement | None] = []
        for task in self.case.board.tasks:
            run = runs.get(task.job.id)
            modes = {mode.shape: mode for mode in task.modes}
            placed.append(None if run is None else Placement(modes[run.shape], run.start_ms, run.parts))
        return Schedule(placed)

    def _objective(self, known: _Known, needs: Sequence[GpuNeed]) -> ObjectiveValue:
        match self.problem.objective:
            case PlanObjective.ON_TIME:
                return self._proven_on_time(on_time_objective(self.case, known.schedule), known)
            case PlanObjective.MAKESPAN:
                return makespan_objective(
                    known.schedule, self.shortest or bounded(self.case, known.schedule, self.budget)
                )
            case PlanObjective.CHEAPEST:
                full = meets_all(self.case.board, known.schedule) and not known.schedule.missing()
                bound = least_cost(self.case, self.costs or {}) if full else None
                return ObjectiveValue(name="cheapest", value=self._cost(known.schedule), bound=bound)
            case PlanObjective.FEWEST_GPUS:
                need = needs[0]
                return ObjectiveValue(
                    name="fewest-gpus",
                    value=None if need.needed is None else Fraction(need.needed),
                    bound=None if need.lower_bound is None else Fraction(need.lower_bound),
                    certificate=need.certificate,
                )

    def _proven_on_time(self, objective: ObjectiveValue, known: _Known) -> ObjectiveValue:
        """The bound lowered to the value where a small tree shows that no plan has more weight on time."""
        if not self.bound or objective.value is None or objective.value == objective.bound:
            return objective
        all_met = meets_all(self.case.board, known.schedule)
        tree = weight_certificate(self.case, objective.value, all_met, self.budget)
        if tree is not None:
            return replace(objective, bound=objective.value, certificate=tree)
        return priced(self.case, objective, known.schedule, self.budget)

    def _status(self, known: _Known, objective: ObjectiveValue) -> PlanStatus:
        if meets_all(self.case.board, known.schedule):
            closed = objective.value is not None and objective.value == objective.bound
            return PlanStatus.OPTIMAL if closed else PlanStatus.FEASIBLE
        return PlanStatus.UNKNOWN if known.certificate is None else PlanStatus.INFEASIBLE

    def _proof(
        self, known: _Known, status: PlanStatus, objective: ObjectiveValue, needs: Sequence[GpuNeed]
    ) -> Proof | None:
        paused = any(task.job.restart_ms is not None for task in self.case.board.tasks)
        if status is PlanStatus.UNKNOWN and known.none_exists and not paused:
            return Proof(by="gpuyield-exact", claim="infeasible")
        word = said_of_amount(needs[0]) if self.chosen is not None else self.solver.proof
        if word is None or status is PlanStatus.OPTIMAL:
            return None
        if word.claim == "infeasible":
            return word if status is PlanStatus.UNKNOWN else None
        return word if word.bound == objective.value else None

    def _stopped(self, status: PlanStatus) -> StoppedBecause:
        if self.budget.stopped is StoppedBecause.TIME:
            return StoppedBecause.TIME
        proven = status in (PlanStatus.OPTIMAL, PlanStatus.INFEASIBLE)
        return StoppedBecause.PROVEN if proven else StoppedBecause.BUDGET


def started_at_once(case: Case, resource: int) -> int:
    """The most of a resource held at once if every job started as early as its chain lets it, in its first shape."""
    heads = chain_heads(case.board, case.windows)
    placed = [Placement(task.modes[0], heads[task.index]) if task.modes else None for task in case.board.tasks]
    return peak_of(Schedule(placed), resource)


def _enough(case: Case) -> int:
    widest = sum(
        max((amount for mode in task.modes for _, amount in mode.demand), default=0) for task in case.board.tasks
    )
    return min(PLENTY, 10**9, widest + 1)


def _least_there(case: Case, resource: int) -> int:
    amounts = [amount for _, amount in case.steps[resource]]
    begins = case.steps[resource][0][0] if case.steps[resource] else NEVER
    return min([*amounts, *([0] if begins > 0 else [])], default=0)
