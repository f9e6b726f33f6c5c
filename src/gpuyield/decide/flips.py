"""What would change the answer, where it can be computed, and what to do next to know more."""

from __future__ import annotations

from gpuyield.decide.case import MET, Case
from gpuyield.decide.money import flavor_of_resource, is_gpu
from gpuyield.decide.words import clause, counted, gpus, named, rate
from gpuyield.model.decision import DecisionStatus, Experiment, FlipPoint
from gpuyield.model.plan import AddGpus, Drop, MoveDeadline, Plan
from gpuyield.units import HOUR_MS, Money, format_duration


def flip_points(case: Case) -> tuple[FlipPoint, ...]:
    """Figures at which the answer would be another one."""
    if case.plan is None:
        return ()
    return _if_fewer(case.plan) if case.plan.status in MET else _if_relaxed(case, case.plan)


def next_experiment(case: Case) -> Experiment | None:
    """The next step that can turn `unknown` into an answer; None where the answer stands."""
    if case.status is not DecisionStatus.UNKNOWN:
        return None
    if case.problem is None:
        return Experiment(
            sentence="Give the batch jobs deadlines: most GPU time has none, so nothing can be late.",
            command="gpuyield init",
        )
    if case.inputs.incomplete_jobs:
        names = named(sorted(case.inputs.incomplete_jobs))
        return Experiment(sentence=f"Give a run time to {names}.", command="gpuyield plan")
    if case.shortage is not None and case.offer is None:
        flavor = flavor_of_resource(case.shortage.resource)
        what = "the price of a GPU-hour" if flavor == "gpu" else f"a price for {flavor}"
        return Experiment(sentence=f"Add {what} under prices.", command="gpuyield check")
    if case.blocking:
        resource = case.shortage.resource if case.shortage else ""
        most = max(case.blocking, key=lambda one: (one.gpus.get(resource, 0), one.name))
        if most.spare_replicas:
            replicas = counted(most.spare_replicas, "replica")
            return Experiment(
                sentence=f"Run {most.name} with {replicas} fewer: certified rate and demand need no more.",
                command="gpuyield services",
            )
        return Experiment(
            sentence=f"Measure {most.name}: it holds {most.gpus.get(resource, 0)} of the GPUs that are short.",
            command=f"gpuyield measure --service {most.name}",
        )
    return Experiment(sentence="Give the planner more work to find a plan or a proof.", command="gpuyield plan")


def _if_fewer(plan: Plan) -> tuple[FlipPoint, ...]:
    found = []
    for need in plan.gpus:
        if need.needed is None or not is_gpu(need.resource) or need.needed > need.available:
            continue
        spare = need.available - need.needed
        figures = {
            "resource": need.resource,
            "available": need.available,
            "needed": need.needed,
            "lower_bound": need.lower_bound,
        }
        left = f"{spare:,} fewer than batch work has today" if spare else "all that batch work has today"
        sentence = f"For this work the answer holds down to {gpus(need.needed, need.resource)}, {left}"
        if need.lower_bound:
            sentence += f"; with fewer than {need.lower_bound} it is proven not to"
        found.append(FlipPoint(what="capacity", sentence=f"{sentence}.", figures=figures))
    return tuple(found)


def _if_relaxed(case: Case, plan: Plan) -> tuple[FlipPoint, ...]:
    found = []
    for one in plan.relaxations:
        match one:
            case AddGpus():
                sentence = _added(case, one)
                figures: dict[str, object] = {"kind": "add-gpus", "resource": one.resource, "amount": one.amount}
            case MoveDeadline():
                longest = max(by_ms for _, by_ms in one.jobs)
                told = "deadline" if len(one.jobs) == 1 else "deadlines"
                names = named([job for job, _ in one.jobs])
                sentence = (
                    f"With {len(one.jobs)} {told} up to {format_duration(longest)} later ({names}) none is needed."
                )
                figures = {
                    "kind": "move-deadline",
                    "jobs": [{"id": job, "by_ms": by_ms} for job, by_ms in one.jobs],
                }
            case Drop():
                sentence = f"Without {counted(len(one.jobs), 'job')} ({named(one.jobs)}) none is needed."
                figures = {"kind": "drop", "jobs": list(one.jobs)}
        found.append(FlipPoint(what="relaxation", sentence=sentence, figures=figures))
    return tuple(found)


def _added(case: Case, one: AddGpus) -> str:
    length_ms = one.to_ms - one.from_ms
    sentence = f"{clause(gpus(one.amount, one.resource))} more for {format_duration(length_ms)} would be enough"
    offer = case.offer
    if offer is None:
        return f"{sentence}."
    worth = Money(offer.gpu_hour.amount * one.amount * length_ms / HOUR_MS, offer.gpu_hour.currency)
    return f"{sentence}: {worth} if they can be had by the hour at {rate(offer.gpu_hour)}."
