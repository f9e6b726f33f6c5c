"""Jobs that CronJobs are going to make in the next day, planned as if they were there already."""

from __future__ import annotations

from itertools import islice

from gpuyield.decide.live.jobs import JobReader
from gpuyield.declare.cron import comings, parse_cron
from gpuyield.errors import DeclarationError
from gpuyield.model.evidence import Gap
from gpuyield.model.job import PlanJob
from gpuyield.model.kueue import ClusterSnapshot, Recurring, Work, WorkState
from gpuyield.units import DAY_MS, MINUTE_MS, Window, parse_zone

MOST = 100
"""Of one CronJob so many coming runs are planned."""


def coming_jobs(seen: ClusterSnapshot, reader: JobReader, *, origin_ms: int) -> tuple[list[PlanJob], list[Gap]]:
    """The jobs to come in the day after the origin, and what is not known of them."""
    found: list[PlanJob] = []
    gaps: list[Gap] = []
    for one in seen.recurring:
        if not one.suspended:
            jobs, told = _coming(one, seen, reader, Window(origin_ms, origin_ms + DAY_MS))
            found += jobs
            gaps += told
    return found, gaps


def _coming(
    one: Recurring, seen: ClusterSnapshot, reader: JobReader, window: Window
) -> tuple[list[PlanJob], list[Gap]]:
    where = f"CronJob {one.namespace}/{one.name}"
    try:
        zone = parse_zone(one.zone or "UTC")
        times = list(islice(comings(parse_cron(one.schedule), window, zone), MOST + 1))
    except DeclarationError as err:
        return [], [Gap(reason=f"Its coming runs are not planned: {err.mistakes[0]}", where=where)]
    gaps = []
    if times and one.zone is None:
        reason = "It names no time zone, so its coming runs are planned in UTC: set spec.timeZone."
        gaps.append(Gap(reason=reason, where=where))
    if len(times) > MOST:
        gaps.append(Gap(reason=f"Only the first {MOST} of its runs in the next day are planned.", where=where))
    queue = next(
        (each.cluster_queue for each in seen.local_queues if (each.namespace, each.name) == (one.namespace, one.queue)),
        None,
    )
    read = [reader.read(_work(one, queue, at_ms), comes_ms=at_ms) for at_ms in times[:MOST]]
    if read:
        # What is told of the first holds for all.
        its = read[0]
        gaps += [Gap(reason=each.reason, where=each.where.replace(its.work.id, where, 1)) for each in its.gaps]
        if its.job is None:
            gaps.append(Gap(reason=f"Its coming runs are not planned: {its.why}.", where=where))
    return [each.job for each in read if each.job is not None], gaps


def _work(one: Recurring, queue: str | None, at_ms: int) -> Work:
    """The Workload to come, under the name that Kubernetes gives its job."""
    name = f"{one.name}-{at_ms // MINUTE_MS}"
    return made_by(one, name, uid=f"coming {one.namespace}/{name}", cluster_queue=queue, at_ms=at_ms)


def made_by(one: Recurring, name: str, *, uid: str, cluster_queue: str | None, at_ms: int) -> Work:
    """A Workload as a CronJob makes it at an instant."""
    return Work(
        namespace=one.namespace,
        name=name,
        workload=name,
        kind="Job",
        uid=uid,
        created_ms=at_ms,
        queue=one.queue,
        cluster_queue=cluster_queue,
        pod_sets=one.pod_sets,
        state=WorkState.WAITING,
        max_run_ms=one.max_run_ms,
        owner=one.name,
        annotations=one.annotations,
        labels=one.labels,
    )
