"""Do we need to buy? The declared work is planned, levers are pulled in order, what is left is said with a proof."""

from __future__ import annotations

from collections.abc import Callable

from gpuyield.decide.case import Case, Planner, build_case
from gpuyield.decide.flips import flip_points, next_experiment
from gpuyield.decide.headline import headline, lead, scope_of
from gpuyield.decide.levers import LEVERS
from gpuyield.model.decision import DecideInputs, Decision, DecisionStatus
from gpuyield.model.evidence import Gap
from gpuyield.model.job import Problem
from gpuyield.model.plan import JobStatus, Plan
from gpuyield.plan import DEFAULT_WORK, make_plan
from gpuyield.units import format_duration


def decide(
    inputs: DecideInputs,
    *,
    seed: int = 0,
    work: int = DEFAULT_WORK,
    should_stop: Callable[[], bool] = lambda: False,
) -> Decision:
    """The decision: deterministic by inputs, seed and work; `should_stop` is only a cap on searching.

    Raises:
        PlanError: The declared jobs are no planning problem.
    """

    def planner(problem: Problem) -> Plan:
        return make_plan(problem, seed=seed, work=work, should_stop=should_stop)

    return decide_with(inputs, planner)


def decide_with(inputs: DecideInputs, planner: Planner) -> Decision:
    """The decision with another planner (one that starts from the last plan, say)."""
    case = build_case(inputs, planner)
    levers = tuple(found for lever in LEVERS if (found := lever(case)) is not None)
    scope = scope_of(case)
    return Decision(
        inputs=inputs,
        status=case.status,
        scope=scope,
        headline=headline(case, scope),
        lead=lead(case, levers),
        reasons=case.reasons,
        levers=levers,
        flip_points=flip_points(case),
        next_experiment=next_experiment(case),
        problem=case.problem,
        plan=case.plan,
        shortage=case.shortage,
        hopeless=case.hopeless,
        order_by_ms=_order_by(case),
        gaps=(*inputs.gaps, *_gaps(case)),
    )


def _order_by(case: Case) -> int | None:
    if case.status is not DecisionStatus.NEEDED or case.shortage is None or case.offer is None:
        return None
    return None if case.shortage.from_ms is None else case.shortage.from_ms - case.offer.lead_time_ms


def _gaps(case: Case) -> list[Gap]:
    gaps = []
    inputs = case.inputs
    if inputs.incomplete_jobs:
        reason = f"No run time is known for {len(inputs.incomplete_jobs):,} declared jobs, so no plan holds them."
        gaps.append(Gap(reason=reason, where="jobs"))
    if case.plan is not None:
        deadlines = {one.id for one in case.problem.jobs if one.deadline_ms is not None} if case.problem else set()
        gaps += [
            Gap(reason=f"{one.id} has no deadline and cannot run at all: {one.why}", where="jobs")
            for one in case.plan.jobs
            if one.status is JobStatus.IMPOSSIBLE and one.id not in deadlines
        ]
    if inputs.coverage is None:
        gaps.append(Gap(reason="How much GPU time is under an objective or a deadline is not known.", where="coverage"))
    for one in inputs.services:
        if one.spare_replicas:
            reason = f"{one.name} has replicas that certified rate and demand do not need: {one.spare_replicas}."
            gaps.append(Gap(reason=f"{reason} It is held at the GPUs it has today.", where="services"))
    unmeasured = [one.name for one in inputs.services if not one.measured and not one.spare_replicas]
    if unmeasured:
        reason = f"Not measured: {', '.join(sorted(unmeasured))}. They are held at the GPUs they have today."
        gaps.append(Gap(reason=reason, where="services"))
    if case.status is DecisionStatus.NOT_NEEDED:
        reason = "No forecast of demand: the answer is for the declared work, and no date of a later shortage is given."
        if inputs.horizon_ms:
            reason += f" A horizon of {format_duration(inputs.horizon_ms)} changes nothing without one."
        gaps.append(Gap(reason=reason, where="first_shortage"))
    return gaps
