"""Which GPUs a proof says are missing, and whether a purchase of them may be called needed.

Two kinds of proof. One *names* a resource: the jobs need more of it than exists, whatever there is of the others (an
overloaded interval, or a gang wider than all of it). It counts when this resource is beyond doubt: it has a price, and
no service holds it that is unmeasured or has some to spare. Any other proof is about all GPUs together, and counts when
none of them is in doubt. So a harder problem never loses what makes an easier one `needed`: named proofs stay when jobs
are added, deadlines tightened or GPUs taken away, and the doubt about all resources does not depend on the jobs at all.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass

from gpuyield.decide.money import flavor_of_resource, is_gpu, offer_of
from gpuyield.decide.words import counted, named
from gpuyield.model.decision import DecideInputs, ServiceHolding, Shortage
from gpuyield.model.job import Capacity, Problem
from gpuyield.model.plan import AddGpus, Certificate, Plan
from gpuyield.plan.instance.board import arrange
from gpuyield.plan.instance.mistakes import MOST_AMOUNT
from gpuyield.plan.instance.windows import windows_of
from gpuyield.plan.proof.overload import forced_jobs, tightest


@dataclass(frozen=True, slots=True, kw_only=True)
class Proven:
    """A shortage, the doubts that forbid to call its purchase needed, and the services that cause some of them."""

    shortage: Shortage
    doubts: tuple[str, ...]
    blocking: tuple[ServiceHolding, ...]


def proven_shortage(inputs: DecideInputs, problem: Problem, plan: Plan) -> Proven | None:
    """What an infeasible plan says is missing; without doubts if it can be. None where no GPUs would help."""
    gpus = sorted(resource for resource in problem.capacity.steps if is_gpu(resource))
    certain = sorted(short_for_certain(problem))
    told = [_proven(inputs, problem, plan, resource, [resource]) for resource in certain]
    if not told:
        helping = _helping(plan, gpus)
        told = [_proven(inputs, problem, plan, resource, gpus, is_named=len(gpus) == 1) for resource in helping]
    return min(told, key=lambda one: bool(one.doubts), default=None)


def short_for_certain(problem: Problem) -> set[str]:
    """GPU resources of which the jobs need more than exists, whatever there is of all others."""
    wide = _too_narrow(problem)
    plenty = Capacity(steps=dict.fromkeys(_resources(problem), ((0, MOST_AMOUNT),)))
    board = arrange(Problem(origin_ms=problem.origin_ms, jobs=problem.jobs, capacity=plenty))
    windows = windows_of(board, board.steps)
    for at, resource in enumerate(board.resources):
        steps = problem.capacity.steps.get(resource, ())
        if is_gpu(resource) and steps and tightest(forced_jobs(board, windows, at), tuple(steps)):
            wide.add(resource)
    return wide


def blocks(service: ServiceHolding, resource: str) -> bool:
    """Whether a service holds these GPUs without a measured capacity and an objective to hold it against."""
    return not (service.measured and service.has_objective) and service.gpus.get(resource, 0) > 0


def _too_narrow(problem: Problem) -> set[str]:
    most = {name: max((amount for _, amount in steps), default=0) for name, steps in problem.capacity.steps.items()}
    found: set[str] = set()
    for job in problem.jobs:
        if job.deadline_ms is None:
            continue
        for resource in {name for shape in job.shapes for name in shape.demand if is_gpu(name)}:
            if min(shape.demand.get(resource, 0) for shape in job.shapes) > most.get(resource, 0):
                found.add(resource)
    return found


def _resources(problem: Problem) -> set[str]:
    return {*problem.capacity.steps, *(name for job in problem.jobs for shape in job.shapes for name in shape.demand)}


def _helping(plan: Plan, gpus: Sequence[str]) -> list[str]:
    """Resources of which more would help; a proof about processors or memory has none."""
    if plan.certificate is not None and "resource" in plan.certificate:
        return [one for one in gpus if one == plan.certificate["resource"]]
    return [one.resource for one in plan.relaxations if isinstance(one, AddGpus)] or list(gpus)


def _proven(
    inputs: DecideInputs,
    problem: Problem,
    plan: Plan,
    resource: str,
    rests_on: Sequence[str],
    *,
    is_named: bool = True,
) -> Proven:
    blocking = tuple(one for one in inputs.services if any(blocks(one, name) for name in rests_on))
    certificate = _certificate(plan, resource)
    at_least = _missing(problem, plan, resource)
    need = next((one for one in plan.gpus if one.resource == resource), None)
    added = [one.amount for one in plan.relaxations if isinstance(one, AddGpus) and one.resource == resource]
    known = [*added, *([need.needed - need.available] if need and need.needed is not None else [])]
    begin, end = certificate.get("from_ms"), certificate.get("to_ms")
    shortage = Shortage(
        resource=resource,
        at_least=at_least,
        sufficient=min((one for one in known if one >= at_least), default=None),
        from_ms=None if begin is None else problem.origin_ms + int(begin),
        to_ms=None if end is None else problem.origin_ms + int(end),
        is_named=is_named,
    )
    return Proven(shortage=shortage, doubts=_doubts(inputs, rests_on, blocking), blocking=blocking)


def _certificate(plan: Plan, resource: str) -> Certificate:
    """The certificate that speaks of this resource; an empty one where none does."""
    if plan.certificate is not None and plan.certificate.get("resource") == resource:
        return plan.certificate
    for need in plan.gpus:
        if need.resource == resource and need.certificate is not None and (need.lower_bound or 0) > need.available:
            return need.certificate
    return {}


def _missing(problem: Problem, plan: Plan, resource: str) -> int:
    found = [1]
    certificate = plan.certificate or {}
    if certificate.get("resource") == resource:
        found.append(int(certificate.get("extra_gpus", 1)))
    steps = problem.capacity.steps.get(resource, ())
    need = next((one for one in plan.gpus if one.resource == resource), None)
    if need is not None and need.lower_bound is not None and len(steps) == 1:
        found.append(need.lower_bound - need.available)
    if certificate.get("kind") == "impossible":
        there = problem.capacity.amount(resource, 0)
        shapes = {job.id: job.shapes for job in problem.jobs}
        for listed in certificate["jobs"]:
            quickest = min(shapes[listed["id"]], key=lambda shape: shape.duration_ms)
            found.append(quickest.demand.get(resource, 0) - there)
    return max(found)


def _doubts(inputs: DecideInputs, rests_on: Sequence[str], blocking: Sequence[ServiceHolding]) -> tuple[str, ...]:
    doubts = []
    for resource in dict.fromkeys(rests_on):
        if offer_of(inputs, resource) is None:
            flavor = flavor_of_resource(resource)
            doubts.append(f"no price for flavor {flavor}" if flavor != "gpu" else "no price for a GPU-hour")
    unmeasured = [one for one in blocking if not one.spare_replicas]
    sparing = [one for one in blocking if one.spare_replicas]
    doubts += [_doubt(services, set(rests_on)) for services in (unmeasured, sparing) if services]
    return tuple(doubts)


def _doubt(services: Sequence[ServiceHolding], resources: Set[str]) -> str:
    """What keeps a purchase from resting on these services; all of them have replicas to spare, or none has."""
    held = {one.name: sum(one.gpus.get(resource, 0) for resource in resources) for one in services}
    names = named(sorted(held, key=lambda name: (-held[name], name)))
    is_one, spare = len(services) == 1, sum(one.spare_replicas for one in services)
    who = f"service {names} holds" if is_one else f"services {names} hold"
    if spare:
        why = f"{'needs' if is_one else 'need'} {counted(spare, 'replica')} fewer by certified rate and demand"
    else:
        why = f"{'has' if is_one else 'have'} not been measured"
    return f"{who} {sum(held.values())} of the same GPUs and {why}"
