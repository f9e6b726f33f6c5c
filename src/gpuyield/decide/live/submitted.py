"""What becomes of jobs that are not submitted yet: start, flavor and slack, or the earliest end and what to add."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any  # Documents are JSON.

from gpuyield.decide.live.coming import made_by
from gpuyield.decide.live.foreign import Foreign
from gpuyield.decide.live.jobs import UNKNOWN_LENGTH, ReadWork, job_settings
from gpuyield.decide.live.problem import LiveProblem
from gpuyield.declare.annotations import read_promise
from gpuyield.declare.values import did_you_mean
from gpuyield.errors import DeclarationError, Mistake
from gpuyield.model.declaration import Declaration
from gpuyield.model.job import PlanJob, Problem
from gpuyield.model.kueue import ClusterSnapshot, Recurring, Work
from gpuyield.model.plan import JobStatus, Plan, PlannedJob
from gpuyield.units import format_instant

NO_LENGTH = 'annotation gpuyield.dev/expected-duration: "2h" (how long it runs), or it runs only on GPUs nobody needs'
NO_DEADLINE = 'annotation gpuyield.dev/deadline: "within 8h" (or a time), or it has weight 1 and runs as backfill'


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    """A job that would be submitted now; times in epoch ms.

    `start_ms` is None where no plan runs it. `earliest_end_ms` is told where it misses its deadline: it could end then
    without anything else becoming late. `add` is what its manifest lacks.
    """

    job: str
    gpus: int
    status: str
    why: str
    start_ms: int | None = None
    end_ms: int | None = None
    flavor: str | None = None
    deadline_ms: int | None = None
    slack_ms: int | None = None
    earliest_end_ms: int | None = None
    add: tuple[str, ...] = ()

    def document(self) -> dict[str, Any]:
        """It as a part of a document."""
        return {
            "id": self.job,
            "gpus": self.gpus,
            "status": self.status,
            "start": _instant(self.start_ms),
            "end": _instant(self.end_ms),
            "flavor": self.flavor,
            "deadline": _instant(self.deadline_ms),
            "slack_s": None if self.slack_ms is None else self.slack_ms / 1000,
            "earliest_end": _instant(self.earliest_end_ms),
            "why": self.why,
            "add": list(self.add),
        }


def mistakes_of(
    work: Iterable[Work], recurring: Iterable[Recurring], seen: ClusterSnapshot, declared: Declaration
) -> list[Mistake]:
    """All that is wrong with jobs to be submitted to this cluster: names that are taken, queues, annotations."""
    found: list[Mistake] = []
    known = {one.id for one in seen.work} | {f"{one.namespace}/{one.name}" for one in seen.recurring}
    queues: dict[str, list[str]] = {}
    for local in seen.local_queues:
        queues.setdefault(local.namespace, []).append(local.name)
    # A CronJob's jobs are made later; what is wrong with one of them is wrong with all.
    for one in (*work, *(first_of(each, seen.at_ms) for each in recurring)):
        if one.id in known:
            found.append(Mistake(what=f"{one.id} is there already.", where=one.id, fix="Give it another name."))
        known.add(one.id)
        there = sorted(queues.get(one.namespace, ()))
        if one.queue and one.queue not in there:
            fix = did_you_mean(one.queue, there) if there else "Ask for one, or use the namespace that has one."
            what = f"there is no LocalQueue {one.queue} in namespace {one.namespace}."
            found.append(Mistake(what=what, where=one.id, fix=fix))
        try:
            read_promise(one.annotations, one.labels, job_settings(one, declared), job=one.id)
        except DeclarationError as err:
            found += err.mistakes
    return found


def first_of(one: Recurring, at_ms: int) -> Work:
    """A CronJob as one job that it makes, under its own name."""
    return made_by(one, one.name, uid=f"not submitted {one.namespace}/{one.name}", cluster_queue=None, at_ms=at_ms)


def with_submitted(seen: ClusterSnapshot, work: Iterable[Work], recurring: Iterable[Recurring]) -> ClusterSnapshot:
    """The cluster as if these had been submitted at the instant of the snapshot."""
    queues = {(one.namespace, one.name): one.cluster_queue for one in seen.local_queues}
    added = (replace(one, cluster_queue=queues.get((one.namespace, one.queue))) for one in work)
    return replace(seen, work=(*seen.work, *added), recurring=(*seen.recurring, *recurring))


def freed(problem: Problem, jobs: Iterable[str]) -> Problem:
    """The problem with these jobs free of their deadlines: what they end at then is the earliest that is possible."""
    named = set(jobs)

    def free(job: PlanJob) -> PlanJob:
        return replace(job, deadline_ms=None, due_ms=None) if job.id in named else job

    return replace(problem, jobs=tuple(free(one) for one in problem.jobs))


def missing(plan: Plan, jobs: Iterable[str]) -> tuple[str, ...]:
    """Those of these jobs that the plan does not run on time."""
    named = set(jobs)
    return tuple(one.id for one in plan.jobs if one.id in named and one.status is not JobStatus.PLANNED)


def submitted(
    before: LiveProblem, live: LiveProblem, plan: Plan, earliest: Plan | None, *, own: Foreign
) -> tuple[Submitted, ...]:
    """What becomes of the jobs that `live` has and `before` had not; `earliest` is the plan of them freed."""
    there = {one.id for one in before.problem.jobs} | {one.work.id for one in before.work}
    planned = {one.id: one for one in plan.jobs}
    free = {one.id: one for one in earliest.jobs} if earliest is not None else {}
    origin_ms = live.problem.origin_ms
    read = {one.work.id: one for one in live.work}
    jobs = {one.id: one for one in live.problem.jobs}
    found = []
    for name in sorted({*jobs, *read} - there):
        its, job = read.get(name), jobs.get(name)
        if job is None or name not in planned:
            assert its is not None
            found.append(_unplanned(its))
            continue
        found.append(_planned(job, its, planned[name], free.get(name), origin_ms, own))
    return tuple(found)


def _unplanned(one: ReadWork) -> Submitted:
    why = f"No start is planned: {one.why}."
    return Submitted(
        job=one.work.id,
        gpus=one.work.gpus,
        status="unplanned",
        why=why,
        deadline_ms=one.promise.deadline_ms,
        add=(NO_LENGTH,) if one.why == UNKNOWN_LENGTH else (),
    )


def _planned(
    job: PlanJob, its: ReadWork | None, one: PlannedJob, free: PlannedJob | None, origin_ms: int, own: Foreign
) -> Submitted:
    run = one.run
    shape = job.shapes[run.shape] if run is not None else job.shapes[0]
    deadline_ms = job.deadline_ms if job.deadline_ms is not None else job.due_ms
    earliest = free.run.end_ms if free is not None and free.run is not None else None
    return Submitted(
        job=job.id,
        gpus=its.work.gpus if its is not None else max(shape.demand.values()),
        status=str(one.status),
        why=own.text(one.why),
        start_ms=None if run is None else origin_ms + run.start_ms,
        end_ms=None if run is None else origin_ms + run.end_ms,
        flavor=None if run is None else shape.flavor,
        deadline_ms=None if deadline_ms is None else origin_ms + deadline_ms,
        slack_ms=one.slack_ms,
        earliest_end_ms=None if earliest is None else origin_ms + earliest,
        add=(NO_DEADLINE,) if deadline_ms is None else (),
    )


def _instant(at_ms: int | None) -> str | None:
    return None if at_ms is None else format_instant(at_ms)
