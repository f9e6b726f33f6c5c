"""What a decision is made of: the declared work planned on what exists, then on what earlier levers free too."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from gpuyield.decide.hopeless import without_hopeless
from gpuyield.decide.money import offer_of
from gpuyield.decide.shortages import proven_shortage
from gpuyield.model.decision import DecideInputs, DecisionStatus, Offer, ServiceHolding, Shortage
from gpuyield.model.job import Capacity, Problem
from gpuyield.model.plan import Plan, PlanStatus

Planner = Callable[[Problem], Plan]

MET = (PlanStatus.OPTIMAL, PlanStatus.FEASIBLE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """The status and what it rests on.

    `as_is` is the plan of `today` on today's GPUs, `plan` that of `problem`: with all that can be reclaimed where
    today's GPUs did not do (`reclaimed`), else the same. `offer` is what a purchase would cost.
    """

    inputs: DecideInputs
    status: DecisionStatus
    reasons: tuple[str, ...]
    today: Problem | None
    problem: Problem | None
    as_is: Plan | None
    plan: Plan | None
    reclaimed: bool
    hopeless: Mapping[str, int]
    shortage: Shortage | None
    offer: Offer | None
    blocking: tuple[ServiceHolding, ...]


def build_case(inputs: DecideInputs, planner: Planner) -> Case:
    """Plan the declared work and say what follows for a purchase.

    `needed` takes a proof: a plan that is infeasible by certificate with everything reclaimed, a price for what is
    missing, and no unmeasured service on the same GPUs.
    """
    if inputs.problem is None:
        return _undecided(inputs, "no batch work is declared")
    problem, hopeless = without_hopeless(inputs.problem)
    as_is = plan = planner(problem)
    used = problem
    reclaimed = False
    if as_is.status not in MET and any(inputs.reclaimable.values()):
        used = _with(problem, inputs.reclaimable)
        plan = planner(used)
        reclaimed = True
    finding = (
        _Finding(status=DecisionStatus.NOT_NEEDED) if plan.status in MET else _lacking(inputs, used, plan, planner)
    )
    return Case(
        inputs=inputs,
        status=finding.status,
        reasons=finding.reasons,
        today=problem,
        problem=used,
        as_is=as_is,
        plan=plan,
        reclaimed=reclaimed,
        hopeless={job: used.origin_ms + end for job, end in hopeless.items()},
        shortage=finding.shortage,
        offer=finding.offer,
        blocking=finding.blocking,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Finding:
    """What follows from a plan."""

    status: DecisionStatus
    reasons: tuple[str, ...] = ()
    shortage: Shortage | None = None
    offer: Offer | None = None
    blocking: tuple[ServiceHolding, ...] = ()


def _lacking(inputs: DecideInputs, problem: Problem, plan: Plan, planner: Planner) -> _Finding:
    if plan.status is not PlanStatus.INFEASIBLE or plan.certificate is None:
        reason = "neither a plan that meets every deadline nor a proof that there is none was found"
        return _Finding(status=DecisionStatus.UNKNOWN, reasons=(reason,))
    held = _held_beyond(problem, planner)
    if held:
        reason = f"jobs that run or are pinned, without a deadline, hold more than exists: {', '.join(held)}"
        return _Finding(status=DecisionStatus.UNKNOWN, reasons=(reason,))
    proven = proven_shortage(inputs, problem, plan)
    if proven is None:
        reason = "the proof names no GPUs that a purchase could add"
        return _Finding(status=DecisionStatus.UNKNOWN, reasons=(reason,))
    return _Finding(
        status=DecisionStatus.UNKNOWN if proven.doubts else DecisionStatus.NEEDED,
        reasons=proven.doubts,
        shortage=proven.shortage,
        offer=offer_of(inputs, proven.shortage.resource),
        blocking=proven.blocking,
    )


def _held_beyond(problem: Problem, planner: Planner) -> list[str]:
    """Fixed jobs without a deadline that do not fit by themselves: no deadline, so no purchase, rests on them."""
    fixed = tuple(
        replace(job, after=())
        for job in problem.jobs
        if job.deadline_ms is None and (job.started_ms is not None or job.pinned_ms is not None)
    )
    if not fixed:
        return []
    plan = planner(replace(problem, jobs=fixed))
    return [] if plan.status in MET else [one.id for one in plan.jobs if one.run is None]


def _with(problem: Problem, more: Mapping[str, int]) -> Problem:
    steps = dict(problem.capacity.steps)
    for resource, amount in more.items():
        if not amount:
            continue
        had = steps.get(resource, ())
        whole = had if had and had[0][0] <= 0 else ((0, 0), *had)
        before = [(at, there) for at, there in whole if at < 0]
        after = [(max(0, at), there + amount) for at, there in _from_origin(whole)]
        steps[resource] = (*before, *after)
    return replace(problem, capacity=Capacity(steps=steps))


def _from_origin(steps: tuple[tuple[int, int], ...]) -> list[tuple[int, int]]:
    past = [one for one in steps if one[0] <= 0]
    return [(0, past[-1][1] if past else 0), *(one for one in steps if one[0] > 0)]


def _undecided(inputs: DecideInputs, reason: str) -> Case:
    return Case(
        inputs=inputs,
        status=DecisionStatus.UNKNOWN,
        reasons=(reason,),
        today=None,
        problem=None,
        as_is=None,
        plan=None,
        reclaimed=False,
        hopeless={},
        shortage=None,
        offer=None,
        blocking=(),
    )
