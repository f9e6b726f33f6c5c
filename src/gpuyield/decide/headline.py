"""The answer in one sentence, with its scope, and the lines under it."""

from __future__ import annotations

from collections.abc import Sequence

from gpuyield.decide.case import Case
from gpuyield.decide.money import by_month
from gpuyield.decide.words import counted, gpus, money, named
from gpuyield.model.decision import BatchScope, DecisionStatus, Lever, LeverKind, Scope, ServiceScope
from gpuyield.model.plan import GpuNeed, ObservedRow, Plan
from gpuyield.units import format_duration

_PREFERRED_ROW = "8h"


def scope_of(case: Case) -> Scope:
    """What the answer speaks of."""
    inputs = case.inputs
    if inputs.problem is not None:
        batch = BatchScope.DECLARED
    else:
        batch = BatchScope.OBSERVED if inputs.observed else BatchScope.NONE
    if not inputs.services:
        services = ServiceScope.NONE
    else:
        every = all(one.measured for one in inputs.services)
        services = ServiceScope.MEASURED if every else ServiceScope.HELD_AT_OBSERVED
    return Scope(batch=batch, services=services)


def headline(case: Case, scope: Scope) -> str:
    """The answer with its scope, such as "For the declared batch work, with services as measured: ..."."""
    if scope.batch is not BatchScope.DECLARED:
        return _without_declared(case, scope)
    about = f"For the declared batch work{_SERVICES[scope.services]}"
    if case.status is DecisionStatus.NOT_NEEDED:
        return f"{about}: no GPU purchase needed{_beyond_help(case)}."
    if case.status is DecisionStatus.NEEDED:
        return f"{about}: a purchase is needed: {_lacking(case)}."
    return f"{about}: whether a purchase is needed is not known: {named(case.reasons)}."


def lead(case: Case, levers: tuple[Lever, ...]) -> tuple[str, ...]:
    """The lines under the headline: what to do first, which job is hopeless, what the levers are worth."""
    lines: list[str] = []
    if case.status is DecisionStatus.NOT_NEEDED and case.problem is not None:
        lines.append(_enough(case))
    if case.problem is not None and case.hopeless:
        jobs = sorted(case.hopeless)
        lines.append(f"{'Job' if len(jobs) == 1 else 'Jobs'} {named(jobs)} cannot be in time with any number of GPUs.")
    lines.extend(one.change for one in levers if one.kind is not LeverKind.BUY)
    if case.shortage is not None and case.plan is not None:
        lines.extend(case.plan.explanation[:1])
    return tuple(lines)


_SERVICES = {
    ServiceScope.NONE: "",
    ServiceScope.MEASURED: ", with services as measured",
    ServiceScope.HELD_AT_OBSERVED: ", with services as they are today",
}


def _beyond_help(case: Case) -> str:
    jobs = sorted(case.hopeless)
    if not jobs:
        return ""
    late = " and ".join(f"{job} ({_late_by(case, job)})" for job in jobs) if len(jobs) <= 2 else named(jobs)
    return f", and none would bring {late} in on time"


def _late_by(case: Case, job: str) -> str:
    problem = case.inputs.problem
    deadline = next(one.deadline_ms for one in problem.jobs if one.id == job) if problem else None
    if problem is None or deadline is None:
        return "late"
    return f"{format_duration(case.hopeless[job] - problem.origin_ms - deadline)} late at best"


def _enough(case: Case) -> str:
    plan, problem = case.plan, case.problem
    if plan is None or problem is None:
        return "The plan meets every deadline that can be met."
    if not any(job.deadline_ms is not None or job.due_ms is not None for job in problem.jobs):
        return "No job has a deadline."
    needs = [need for need in plan.gpus if need.needed is not None and 0 < need.needed <= need.available]
    if not needs:
        return "The plan meets every deadline that can be met."
    told = " and ".join(f"{need.needed} of {gpus(need.available, need.resource)}" for need in needs)
    one = len(needs) == 1 and needs[0].needed == 1
    reclaimed = ", once idle ones are taken back" if case.reclaimed else ""
    of_what = "Of what services leave, " if case.inputs.after_services else ""
    return f"{of_what}{told} {'suffices' if one else 'suffice'}{reclaimed}{_at_once(plan, needs)}."


def _at_once(plan: Plan, needs: Sequence[GpuNeed]) -> str:
    peaks = {need.resource: plan.peak_if_started_at_once.get(need.resource, 0) for need in needs}
    if all(peaks[need.resource] <= (need.needed or 0) for need in needs):
        return ""
    return f"; starting all at once would take {' and '.join(gpus(peaks[one], one) for one in peaks)}"


def _lacking(case: Case) -> str:
    shortage, problem = case.shortage, case.problem
    if shortage is None or problem is None:
        return "GPUs are missing"
    there = problem.capacity.amount(shortage.resource, 0)
    text = f"at least {gpus(there + shortage.at_least, shortage.resource)} are needed, {there} exist"
    if not shortage.is_named:
        text = "more GPUs are needed than exist"
    if case.offer is None:
        return text
    number = max(shortage.sufficient or shortage.at_least, case.offer.min_gpus)
    cost = money(by_month(number, case.offer.gpu_hour))
    more = gpus(number, shortage.resource).replace(" ", " more ", 1) if not shortage.is_named else f"{number} more"
    return f"{text}; {more} {'cost' if number > 1 else 'costs'} {cost} a month"


def _without_declared(case: Case, scope: Scope) -> str:
    unknown = "No deadline is declared, so whether a purchase is needed is not known."
    if scope.batch is BatchScope.NONE:
        return f"{unknown} Neither declared nor observed batch work was given."
    rows = {row.finish_within: row for row in case.inputs.observed}
    row = rows.get(_PREFERRED_ROW) or case.inputs.observed[0]
    return f"{unknown} {_conditional(case, row)}"


def _conditional(case: Case, row: ObservedRow) -> str:
    jobs = counted(case.inputs.observed_jobs, "observed job")
    window = case.inputs.observed_window
    seen = f" of {format_duration(window.length_ms)}" if window else ""
    span = row.finish_within if row.finish_within.startswith("by ") else f"within {_spaced(row.finish_within)}"
    left = f" ({row.impossible} cannot, even alone)" if row.impossible else ""
    if row.gpus_needed is None:
        return f"If the {jobs}{seen} may each finish {span}{left}, the GPUs needed are not known."
    there = sum(need.available for need in row.plan.gpus)
    more = (
        f"{row.gpus_needed} of the {there} GPUs that services leave suffice"
        if row.gpus_needed <= there and case.inputs.after_services
        else f"{row.gpus_needed} of {there} GPUs suffice"
        if row.gpus_needed <= there
        else (f"{row.gpus_needed} GPUs are enough, {there} exist")
    )
    return f"If the {jobs}{seen} may each finish {span}{left}, {more}."


def _spaced(text: str) -> str:
    return f"{text[:-1]} {text[-1]}" if text[:-1].isdigit() else text
