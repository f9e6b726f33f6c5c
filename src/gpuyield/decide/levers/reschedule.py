"""Reschedule: start the batch jobs when they are due rather than when they come. Nothing that serves is touched."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Set
from decimal import Decimal
from itertools import accumulate

from gpuyield.decide.case import MET, Case
from gpuyield.decide.money import flavor_of_resource, is_gpu, monthly
from gpuyield.decide.words import counted, gpus_by_flavor
from gpuyield.model.decision import Lever, LeverKind
from gpuyield.model.job import Problem
from gpuyield.model.plan import JobStatus, Plan
from gpuyield.plan.instance.first_come import first_come, in_time


def reschedule(case: Case) -> Lever | None:
    """What the plan changes against starting each job as soon as it fits, in the order of submission."""
    if case.today is None or case.as_is is None:
        return None
    saved = _saved(case.today, on_time_jobs(case, case.as_is), hopeless=case.hopeless.keys())
    spare = _spare(case.as_is)
    # Undeclared work runs on what declared work leaves: nobody can say that it would not be missed.
    freed = {} if case.inputs.has_other_work else spare
    later = _held_back(case.today, case.as_is)
    if not later and not freed and saved <= 0:
        return None
    return Lever(
        kind=LeverKind.RESCHEDULE,
        change=_change(case, later, spare),
        gpus_freed=freed,
        money_per_month=monthly(case.inputs, {flavor: Decimal(number) for flavor, number in freed.items()}),
        deadlines_saved=saved,
        risk="Only starts of batch jobs move; a job that runs longer than stated can push those behind it.",
        undo="Start the jobs as they come: nothing else was changed.",
    )


def on_time_jobs(case: Case, plan: Plan) -> set[str]:
    """Jobs that meet what was promised for them."""
    return {one.id for one in plan.jobs if one.status is JobStatus.PLANNED} - case.hopeless.keys()


def _saved(today: Problem, on_time: Set[str], *, hopeless: Set[str]) -> int:
    """Deadlines that the plan meets beyond those that a queue meets which knows none."""
    promised = {job.id for job in today.jobs if job.deadline_ms is not None or job.due_ms is not None}
    return len(on_time & promised) - len(in_time(today, first_come(today)) - hopeless)


def _change(case: Case, later: int, spare: dict[str, int]) -> str:
    problem, plan = case.today, case.as_is
    rest = f"; it can do without {gpus_by_flavor(spare)}" if spare else ""
    if spare and case.inputs.has_other_work:
        rest = f"; where they wait as long as deadlines let them, {gpus_by_flavor(spare)} are left to work without one"
    if not later or problem is None or plan is None:
        return f"Run the batch work in the planned order{rest}."
    peak = sum(number for resource, number in plan.peak_if_started_at_once.items() if is_gpu(resource))
    held = _peak(problem, plan)
    instead = f": {held:,} GPUs at most instead of {peak:,}" if peak > held else ""
    return f"Start {later:,} of {counted(len(problem.jobs), 'job')} later than at once{instead}{rest}."


def _spare(plan: Plan) -> dict[str, int]:
    if plan.status not in MET:
        return {}
    return {
        flavor_of_resource(need.resource): need.available - need.needed
        for need in plan.gpus
        if need.needed is not None and need.needed < need.available
    }


def _held_back(problem: Problem, plan: Plan) -> int:
    releases = {job.id: job.release_ms for job in problem.jobs if job.started_ms is None and job.pinned_ms is None}
    return sum(
        one.run is not None and one.id in releases and one.run.start_ms > max(0, releases[one.id]) for one in plan.jobs
    )


def _peak(problem: Problem, plan: Plan) -> int:
    """The most GPUs of each flavor that the plan holds at once, in all: what starting at once is told in, too."""
    jobs = {job.id: job for job in problem.jobs}
    changes: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for one in plan.jobs:
        if one.run is None:
            continue
        for resource, amount in jobs[one.id].shapes[one.run.shape].demand.items():
            if is_gpu(resource):
                for start_ms, end_ms in one.run.segments:
                    changes[resource] += [(start_ms, amount), (end_ms, -amount)]
    return sum(max(accumulate((change for _, change in sorted(found)), initial=0)) for found in changes.values())
