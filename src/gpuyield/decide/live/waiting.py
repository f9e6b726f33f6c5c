"""Why each job waits now, and when it starts by the plan."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any  # Documents are JSON.

from gpuyield.decide.live.jobs import UNKNOWN_LENGTH, ReadWork
from gpuyield.decide.live.problem import LiveProblem
from gpuyield.decide.live.quotas import resource_of
from gpuyield.model.job import amount_at
from gpuyield.model.kueue import WorkState
from gpuyield.model.plan import JobStatus, Plan, PlannedJob
from gpuyield.model.queue import Cause
from gpuyield.plan.instance.quota import limits_of, said_as
from gpuyield.units import format_instant


class Blocker(StrEnum):
    """What keeps a job from starting at this instant."""

    HELD = "held"
    """It can not start as things are: switched off, its queue stopped or missing, no flavor for it."""
    NOT_YET = "not_yet"
    """Its earliest start, or a job that comes before it."""
    QUOTA = "quota"
    FRAGMENTED = "fragmented"
    CAPACITY = "capacity"
    GATE = "gate"
    KUEUE = "kueue"
    """Quota and GPUs are free; only Kueue's own words tell more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A job that waits; `eta_ms` is its planned start in epoch ms (None: no plan holds it, `why` tells).

    `blocked_by` is what is in its way now, `cause` that of its whole wait so far (contracts, section 4).
    """

    job: str
    queue: str | None
    team: str
    gpus: int
    since_ms: int
    blocked_by: Blocker
    cause: Cause
    why: str
    eta_ms: int | None
    flavor: str | None
    deadline_ms: int | None
    due_ms: int | None


def waiting_document(waiting: Iterable[Waiting]) -> list[dict[str, Any]]:
    """The jobs that wait, as a part of a document; `eta` null: no plan holds it."""
    return [
        {
            "job": one.job,
            "queue": one.queue,
            "team": one.team,
            "gpus": one.gpus,
            "since": format_instant(one.since_ms),
            "blocked_by": str(one.blocked_by),
            "cause": str(one.cause),
            "why": one.why,
            "eta": None if one.eta_ms is None else format_instant(one.eta_ms),
            "flavor": one.flavor,
            "deadline": None if one.deadline_ms is None else format_instant(one.deadline_ms),
            "due": None if one.due_ms is None else format_instant(one.due_ms),
        }
        for one in waiting
    ]


def waiting_now(live: LiveProblem, plan: Plan | None) -> tuple[Waiting, ...]:
    """Every job that waits, in the order in which it came; `plan` None: no plan was made."""
    planned = {one.id: one for one in plan.jobs} if plan is not None else {}
    look = _Look(live)
    found = [
        _waiting(one, look, live, planned.get(one.work.id)) for one in live.work if one.work.state is WorkState.WAITING
    ]
    return tuple(sorted(found, key=lambda one: (one.since_ms, one.job)))


class _Look:
    """What is free of each limit and on each node."""

    def __init__(self, live: LiveProblem) -> None:
        self.live = live
        limits = limits_of(live.quotas, live.problem.capacity)
        held: dict[tuple[str, str], int] = defaultdict(int)
        for one in live.work:
            if one.work.holds_quota:
                for flavor, gpus in one.work.held.items():
                    held[one.work.cluster_queue or "", resource_of(flavor)] += gpus
        self._limits = {
            name: (limit, amount_at(limit.steps, 0), sum(held[queue, limit.resource] for queue in limit.queues))
            for name, limit in limits.items()
        }

    def short_quota(self, queue: str, flavor: str, gpus: int) -> str:
        """The limit that leaves too few GPUs to a queue, in words; "" where none does."""
        for name, (limit, most, held) in self._limits.items():
            if limit.resource == resource_of(flavor) and queue in limit.queues and held + gpus > most:
                whose = said_as(name)[1].removeprefix(" of ") or f"queue {queue}"
                return f"of {most} {flavor} GPUs of {whose} {held} are held, and it needs {gpus}"
        return ""

    def short_nodes(self, one: ReadWork, flavor: str) -> tuple[Blocker, str] | None:
        """What lacks on the nodes of a flavor; None where its pods fit now, or nobody knows."""
        places = self.live.room.places.get(flavor)
        if places is None or self.live.seen.pods is None:
            return None
        free = sorted((each.free for each in places if each.free), reverse=True)
        if sum(free) < one.work.gpus:
            exist = sum(each.gpus for each in places)
            return Blocker.CAPACITY, f"{sum(free)} of {exist} {flavor} GPUs are free, and it needs {one.work.gpus}"
        left = list(free)
        for pods in sorted(one.work.pod_sets, key=lambda each: -each.gpus):
            for _ in range(pods.count if pods.gpus else 0):
                fits = [at for at, gpus in enumerate(left) if gpus >= pods.gpus]
                if not fits:
                    why = (
                        f"{sum(free)} {flavor} GPUs are free on {len(free)} nodes, at most {free[0]} together, "
                        f"and each of its pods needs {pods.gpus} on one node"
                    )
                    return Blocker.FRAGMENTED, why
                left[min(fits, key=left.__getitem__)] -= pods.gpus
        return None


def _waiting(one: ReadWork, look: _Look, live: LiveProblem, planned: PlannedJob | None) -> Waiting:
    work, promise, origin_ms = one.work, one.promise, live.problem.origin_ms
    blocked_by, why = _blocked(one, look, live)
    run = planned.run if planned is not None else None
    if planned is not None and run is None and planned.why:
        why = f"{why}; {planned.why.rstrip('.')}"
    elif one.job is None and one.why not in why:
        why = f"{why}; no start is planned: {one.why}"
    return Waiting(
        job=work.id,
        queue=work.cluster_queue,
        team=live.teams.team_of(work.namespace),
        gpus=work.gpus,
        since_ms=work.created_ms,
        blocked_by=blocked_by,
        cause=_cause(one, planned, blocked_by),
        why=why,
        eta_ms=None if run is None else origin_ms + run.start_ms,
        flavor=None if run is None or one.job is None else one.job.shapes[run.shape].flavor,
        deadline_ms=promise.deadline_ms,
        due_ms=promise.due_ms,
    )


def _blocked(one: ReadWork, look: _Look, live: LiveProblem) -> tuple[Blocker, str]:
    """What is in the way of a job at this instant, in words."""
    work = one.work
    if one.why and one.why != UNKNOWN_LENGTH:
        return Blocker.HELD, one.why
    start_ms = one.promise.earliest_start_ms
    if start_ms is not None and start_ms > live.seen.at_ms:
        return Blocker.NOT_YET, f"it may not start before {format_instant(start_ms)}"
    if one.job is not None and one.job.after:
        return Blocker.NOT_YET, f"it comes after {', '.join(one.job.after)}"
    short: list[tuple[Blocker, str]] = []
    for flavor in one.flavors:
        quota = look.short_quota(work.cluster_queue or "", flavor, work.gpus)
        found = (Blocker.QUOTA, quota) if quota else look.short_nodes(one, flavor)
        if found is None:
            break
        short.append(found)
    else:
        # Where some flavor has quota left, GPUs are what lacks.
        first = next((kind for kind, _ in short if kind is not Blocker.QUOTA), Blocker.QUOTA)
        return first, "; ".join(why for _, why in short)
    inactive = next((queue.inactive for queue in live.seen.queues if queue.name == work.cluster_queue), "")
    if inactive:
        return Blocker.KUEUE, f"its queue admits nothing now ({inactive})"
    if work.gates:
        return Blocker.GATE, f"{flavor} GPUs are free; gate {' and '.join(work.gates)} holds it until it is removed"
    return Blocker.KUEUE, f"{flavor} GPUs and quota are free; Kueue says: {work.said or work.reason or 'nothing yet'}"


def _cause(one: ReadWork, planned: PlannedJob | None, blocked_by: Blocker) -> Cause:
    """The first cause that applies, in the order of contracts, section 4."""
    limited = one.promise.deadline_ms is not None or one.promise.due_ms is not None
    if limited and planned is not None and planned.status is JobStatus.PLANNED:
        return Cause.NOT_DUE_YET
    if planned is not None and planned.status is JobStatus.IMPOSSIBLE:
        return Cause.IMPOSSIBLE
    if blocked_by is Blocker.QUOTA:
        return Cause.QUOTA
    if blocked_by is Blocker.FRAGMENTED:
        return Cause.FRAGMENTED
    if not limited:
        return Cause.UNDECLARED
    return Cause.CAPACITY if blocked_by is Blocker.CAPACITY else Cause.UNEXPLAINED
