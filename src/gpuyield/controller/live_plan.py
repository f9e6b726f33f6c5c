"""The plan of a cluster as it is now, carried on from the one in force, with the inputs that prove it. No I/O here.

What the controller itself keeps from running is planned like work that waits: parked jobs, and those that hold quota
only until their check is answered. Nothing is planned with pauses, for nothing that runs is ever stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any  # Documents are JSON.

from gpuyield.controller.decide import wanted_queue
from gpuyield.controller.places import Place
from gpuyield.controller.plan_parts import StoredPlan
from gpuyield.decide.live.jobs import LiveTerms
from gpuyield.decide.live.problem import LiveProblem, live_problem
from gpuyield.errors import DeclarationError
from gpuyield.model.document import canonical_bytes, gaps_document, inputs_digest
from gpuyield.model.job import PlanJob, Problem
from gpuyield.model.kueue import ClusterSnapshot, Work, WorkState
from gpuyield.model.marks import PREFIX
from gpuyield.model.plan import Plan, Run
from gpuyield.plan import carry_on, plan_document, plan_inputs, with_outlook
from gpuyield.units import SECOND_MS, parse_instant

WORK = 60_000
"""Placements that one replan may try; the clock of the caller cuts it shorter."""

Claim = Callable[[Work], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class MadePlan:
    """A plan, and the live problem that it was made of."""

    stored: StoredPlan
    plan: Plan
    live: LiveProblem


def as_to_plan(
    seen: ClusterSnapshot, *, is_parked: Claim, is_asked: Claim, starting: Mapping[str, str] | None = None
) -> ClusterSnapshot:
    """The snapshot as it is planned: parked work waits, and so does work that only asks whether it may start.

    `is_asked` tells of work with quota whose check is not answered yet; after an eviction an old place says nothing. An
    instant is cut to its second: what can start now is planned for now, not for the next second. `starting` are the
    flavors, by uid, of work that was let go just now and has no quota yet: it keeps its place.
    """
    stops = {(one.namespace, one.name): one.stopped for one in seen.local_queues}
    leads_to = {(one.namespace, one.name): one.cluster_queue for one in seen.local_queues}

    def planned(work: Work) -> Work:
        wanted = wanted_queue(work, stops)
        if wanted is not None:
            # In a queue on hold, which is how it waits: it is planned for the one that it is for.
            work = replace(work, queue=wanted, cluster_queue=leads_to[work.namespace, wanted])
        if starting and work.uid in starting and work.state is WorkState.WAITING:
            return replace(work, state=WorkState.RESERVED, held={starting[work.uid]: work.gpus})
        if work.state is WorkState.WAITING and not work.active and is_parked(work):
            return replace(work, active=True)
        if work.state is WorkState.RESERVED and is_asked(work):
            return replace(work, state=WorkState.WAITING, held={}, active=work.active or is_parked(work))
        return work

    return replace(seen, at_ms=seen.at_ms - seen.at_ms % SECOND_MS, work=tuple(planned(one) for one in seen.work))


def make_live_plan(
    seen: ClusterSnapshot,
    terms: LiveTerms,
    before: Mapping[str, Any] | None,
    *,
    should_stop: Callable[[], bool],
    seed: int = 0,
) -> MadePlan:
    """The plan of a snapshot (as `as_to_plan` leaves it), carried on from the document of the plan `before`.

    Raises:
        PlanError: The problem cannot be built.
    """
    live = live_problem(seen, terms)
    problem = replace(live.problem, jobs=tuple(_as_it_runs(job) for job in live.problem.jobs))
    old = {} if before is None else runs_of(before, problem)
    plan = with_outlook(problem, carry_on(problem, old, seed=seed, work=WORK, should_stop=should_stop))
    inputs = canonical_bytes(plan_inputs(problem))
    document = plan_document(problem, plan, digest=inputs_digest(inputs))
    document["gaps"] = gaps_document(live.gaps)
    return MadePlan(stored=StoredPlan(document=document, inputs=inputs), plan=plan, live=live)


def _as_it_runs(job: PlanJob) -> PlanJob:
    """A job that is never paused; one that runs beyond its deadline is late, and no longer given up for it."""
    job = replace(job, restart_ms=None)
    if job.started_ms is None or job.deadline_ms is None:
        return job
    if job.started_ms + job.shapes[0].duration_ms <= job.deadline_ms:
        return job
    due_ms = job.deadline_ms if job.due_ms is None else min(job.due_ms, job.deadline_ms)
    return replace(job, deadline_ms=None, due_ms=due_ms)


def runs_of(document: Mapping[str, Any], problem: Problem) -> dict[str, Run]:
    """The runs of a document as ms from the origin of a problem; what it no longer has, or has otherwise, is left out.

    A job that the document pauses is left out too.
    """
    jobs = {job.id: job for job in problem.jobs}
    found: dict[str, Run] = {}
    for said in document.get("jobs", ()):
        job = jobs.get(said.get("id"))
        segments: list[list[str]] = said.get("segments") or []
        if job is None or len(segments) != 1:
            continue
        shape = next((at for at, one in enumerate(job.shapes) if one.flavor == said.get("flavor")), None)
        if shape is None:
            continue
        try:
            start_ms, end_ms = (parse_instant(text) - problem.origin_ms for text in segments[0])
        except DeclarationError:
            continue
        found[job.id] = Run(shape=shape, start_ms=start_ms, end_ms=end_ms)
    return found


def next_change_ms(places: Iterable[Place], after_ms: int) -> int | None:
    """The first start or end of the plan after an instant: if nothing is seen of it then, the plan no longer holds."""
    times = (at_ms for one in places for at_ms in (one.start_ms, one.end_ms) if at_ms is not None)
    return min((at_ms for at_ms in times if at_ms > after_ms), default=None)


def is_same_plan(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two documents let every job run at the same time on the same GPUs, under the same deadlines."""
    keys = ("flavor", "gpus", "segments", "deadline", "due", "status", "p_late")

    def told(document: Mapping[str, Any]) -> dict[str, Any]:
        return {said["id"]: tuple(said.get(key) for key in keys) for said in document.get("jobs", ())}

    return told(one) == told(other)


def facts(seen: ClusterSnapshot) -> int:
    """A number that changes when the plan may have to: work, promises, quotas, nodes; not instants, not messages."""
    return hash(
        (
            tuple(hash(_of_work(one)) for one in seen.work),
            tuple((one.name, one.cohort, one.quotas, one.stopped) for one in seen.queues),
            seen.cohorts,
            seen.local_queues,
            tuple((one.name, one.gpus, one.unusable, tuple(sorted(one.labels.items()))) for one in seen.nodes or ()),
            frozenset(one for one in seen.pods or () if not one.through_kueue),
            tuple((one.namespace, one.name, one.schedule, one.zone, one.suspended) for one in seen.recurring),
        )
    )


def _of_work(work: Work) -> tuple[object, ...]:
    if work.state is WorkState.FINISHED:
        return (work.uid, work.state)
    ours = tuple(sorted((key, text) for key, text in work.annotations.items() if key.startswith(PREFIX)))
    said = tuple(sorted((key, text) for key, text in work.labels.items() if key.startswith(PREFIX)))
    held = tuple(sorted(work.held.items()))
    pods = tuple((one.name, one.count, one.gpus) for one in work.pod_sets)
    return (work.id, work.uid, work.state, work.active, work.queue, work.cluster_queue, held, pods, ours, said)
