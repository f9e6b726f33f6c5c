"""What a decision is made of: the declared work planned on what exists, then on what earlier levers free too."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from gpuyield.decide.hopeless import without_hopeless
from gpuyield.decide.money import flavor_of_resource, is_gpu, offer_of
from gpuyield.decide.words import named
from gpuyield.model.decision import DecideInputs, DecisionStatus, Offer, ServiceHolding, Shortage
from gpuyield.model.job import Capacity, Problem
from gpuyield.model.plan import AddGpus, Certificate, Plan, PlanStatus

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
    finding = _Finding(status=DecisionStatus.NOT_NEEDED) if plan.status in MET else _lacking(inputs, used, plan)
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


def _lacking(inputs: DecideInputs, problem: Problem, plan: Plan) -> _Finding:
    if plan.status is not PlanStatus.INFEASIBLE or plan.certificate is None:
        reason = "neither a plan that meets every deadline nor a proof that there is none was found"
        return _Finding(status=DecisionStatus.UNKNOWN, reasons=(reason,))
    found = shortages(problem, plan)
    if not found:
        reason = "the proof names no GPUs that a purchase could add"
        return _Finding(status=DecisionStatus.UNKNOWN, reasons=(reason,))
    # One resource without a doubt is enough: more jobs never make a proof about it go away.
    doubts, shortage = min(((_doubts(inputs, one), one) for one in found), key=lambda one: bool(one[0]))
    return _Finding(
        status=DecisionStatus.UNKNOWN if doubts else DecisionStatus.NEEDED,
        reasons=doubts,
        shortage=shortage,
        offer=offer_of(inputs, shortage.resource),
        blocking=tuple(one for one in inputs.services if _blocks(one, shortage.resource)),
    )


def shortages(problem: Problem, plan: Plan) -> list[Shortage]:
    """What is proven to be missing, by resource; the one that the plan's certificate proves first."""
    listed: dict[str, Shortage] = {}
    proofs = [(plan.certificate, None)] + [(one.certificate, one.resource) for one in plan.gpus]
    for certificate, bounded in proofs:
        for one in _missing(problem, plan, certificate, bounded):
            listed.setdefault(one.resource, one)
    return list(listed.values())


def _missing(
    problem: Problem, plan: Plan, certificate: Certificate | None, resource_of_bound: str | None
) -> list[Shortage]:
    if certificate is None:
        return []
    needs = {one.resource: one for one in plan.gpus}
    if resource_of_bound is not None:
        need = needs[resource_of_bound]
        if need.lower_bound is None or need.lower_bound <= need.available:
            return []
        return [_shortage(problem, plan, resource_of_bound, need.lower_bound - need.available, certificate)]
    if certificate["kind"] == "impossible":
        return _too_few_alone(problem, plan, certificate)
    resource = certificate.get("resource")
    gpus = [one for one in problem.capacity.steps if is_gpu(one)]
    if resource is None and len(gpus) > 1:
        # The proof is about all of them together: any that would help is as good.
        helping = [one.resource for one in plan.relaxations if isinstance(one, AddGpus)] or gpus
        return [_shortage(problem, plan, one, 1, certificate, is_named=False) for one in helping]
    resource = resource or gpus[0]
    if not is_gpu(resource):
        return []
    bound = needs[resource].lower_bound if resource in needs else None
    missing = max(int(certificate.get("extra_gpus", 1)), 1, bound - needs[resource].available if bound else 0)
    return [_shortage(problem, plan, resource, missing, certificate)]


def _too_few_alone(problem: Problem, plan: Plan, certificate: Certificate) -> list[Shortage]:
    jobs = {job.id: job for job in problem.jobs}
    found: dict[str, int] = {}
    choice = False
    for one in certificate["jobs"]:
        shapes = jobs[one["id"]].shapes
        choice |= len({resource for shape in shapes for resource in shape.demand if is_gpu(resource)}) > 1
        quickest = min(shapes, key=lambda shape: shape.duration_ms)
        for resource, amount in quickest.demand.items():
            missing = amount - problem.capacity.amount(resource, 0)
            if is_gpu(resource) and missing > 0:
                found[resource] = max(found.get(resource, 0), missing)
    return [
        _shortage(problem, plan, resource, missing, {}, is_named=not choice)
        for resource, missing in sorted(found.items())
    ]


def _shortage(
    problem: Problem, plan: Plan, resource: str, at_least: int, certificate: Certificate, *, is_named: bool = True
) -> Shortage:
    need = next((one for one in plan.gpus if one.resource == resource), None)
    added = [one.amount for one in plan.relaxations if isinstance(one, AddGpus) and one.resource == resource]
    known = [*added, *([need.needed - need.available] if need and need.needed is not None else [])]
    begin, end = certificate.get("from_ms"), certificate.get("to_ms")
    return Shortage(
        resource=resource,
        at_least=at_least,
        sufficient=min((one for one in known if one >= at_least), default=None),
        from_ms=None if begin is None else problem.origin_ms + int(begin),
        to_ms=None if end is None else problem.origin_ms + int(end),
        is_named=is_named,
    )


def _doubts(inputs: DecideInputs, shortage: Shortage) -> tuple[str, ...]:
    flavor = flavor_of_resource(shortage.resource)
    doubts = []
    if offer_of(inputs, shortage.resource) is None:
        doubts.append(f"no price for flavor {flavor}" if flavor != "gpu" else "no price for a GPU-hour")
    blocking = [one for one in inputs.services if _blocks(one, shortage.resource)]
    if blocking:
        held = sum(one.gpus[shortage.resource] for one in blocking)
        names = named([one.name for one in sorted(blocking, key=lambda one: (-one.gpus[shortage.resource], one.name))])
        if len(blocking) == 1:
            doubts.append(f"service {names} holds {held} of the same GPUs and has not been measured")
        else:
            doubts.append(f"services {names} hold {held} of the same GPUs and have not been measured")
    return tuple(doubts)


def _blocks(service: ServiceHolding, resource: str) -> bool:
    return not (service.measured and service.has_objective) and service.gpus.get(resource, 0) > 0


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
