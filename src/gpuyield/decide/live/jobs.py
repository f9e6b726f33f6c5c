"""Workloads as jobs of a plan: what they promise, how long they run, where they may, and what is not known of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from gpuyield.decide.live.room import Room
from gpuyield.declare.annotations import JobPromise, JobSettings, read_promise
from gpuyield.declare.deadlines import deadline_ms
from gpuyield.declare.selectors import declared_for
from gpuyield.errors import DeclarationError
from gpuyield.model.declaration import BatchFamily, Declaration
from gpuyield.model.duration import DurationBasis, FamilyDuration
from gpuyield.model.evidence import Gap
from gpuyield.model.job import PlanJob, Shape
from gpuyield.model.kueue import ClusterQueue, ClusterSnapshot, Flavor, Work, WorkState, keeps_away, keeps_to
from gpuyield.model.marks import PREFIX
from gpuyield.plan.online.claims import Claims
from gpuyield.units import DAY_MS, HOUR_MS, SECOND_MS, format_duration, parse_zone

UNKNOWN_LENGTH = "nothing tells how long it runs: write the annotation gpuyield.dev/expected-duration, such as 2h"

LEAST_MORE_MS = 10 * SECOND_MS
"""A job that overran is taken to hold its GPUs for at least so long again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveTerms:
    """What jobs are read against. `stem` is a job's name without what differs from run to run.

    `history` is asked for `NAMESPACE/FAMILY`: nobody's runs count for another namespace. `claims` tell whose word on
    run times is believed.
    """

    declaration: Declaration
    history: Callable[[str], FamilyDuration | None]
    stem: Callable[[str], str]
    claims: Claims = field(default_factory=Claims)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadWork:
    """A Workload with its promise, and the job that it is in a plan (None: no plan holds it, `why` says for what).

    `overruns`: its like ran longer than it said too often, so its word on run times counts for nothing, and it fills no
    gaps. `gaps` are what else is not known of it.
    """

    work: Work
    promise: JobPromise
    job: PlanJob | None
    why: str = ""
    flavors: tuple[str, ...] = ()
    overruns: bool = False
    gaps: tuple[Gap, ...] = field(default=())


def job_settings(work: Work, declared: Declaration) -> JobSettings:
    """What the annotations of a Workload are read against."""
    return JobSettings(
        created_ms=work.created_ms,
        zone=parse_zone(declared.reporting_zone),
        milestones=declared.milestones,
        limit=declared.limits.get(work.namespace),
        gpus=work.gpus,
    )


class JobReader:
    """Reads the Workloads of one snapshot."""

    def __init__(self, seen: ClusterSnapshot, room: Room, terms: LiveTerms, *, origin_ms: int) -> None:
        self._room = room
        self._terms = terms
        self._origin_ms = origin_ms
        self._flavors = {one.name: one for one in seen.flavors}
        self._queues = {one.name: one for one in seen.queues}
        self._local = {(one.namespace, one.name): one for one in seen.local_queues}

    def read(self, work: Work, *, comes_ms: int = 0) -> ReadWork:
        """A Workload that is not finished.

        One that is there may start, whatever a clock says of when it was made; others come at `comes_ms`.
        """
        promise, gaps = self.promise(work)
        if work.holds_quota:
            return self._running(work, promise, gaps)
        return self._waiting(work, promise, gaps, comes_ms)

    def promise(self, work: Work) -> tuple[JobPromise, list[Gap]]:
        """What a job promises, as far as it can be read; each mistake is a gap."""
        settings = job_settings(work, self._terms.declaration)
        annotations, labels = dict(work.annotations), dict(work.labels)
        gaps: list[Gap] = []
        while True:
            try:
                promise = read_promise(annotations, labels, settings, job=work.id)
                return self._with_family(work, promise, weighed=f"{PREFIX}weight" in {**labels, **annotations}), gaps
            except DeclarationError as err:
                for one in err.mistakes:
                    key = one.where.partition(": ")[2]
                    reason = f"{one.what} {one.fix} The annotation does not count.".replace("  ", " ")
                    gaps.append(Gap(reason=reason, where=f"{work.id}: {key}"))
                    left = len(annotations) + len(labels)
                    annotations.pop(key, None)
                    labels.pop(key, None)
                    if len(annotations) + len(labels) == left:
                        # A name that is cut for the message: leave all of ours out.
                        annotations = {name: text for name, text in annotations.items() if not name.startswith(PREFIX)}
                        labels = {name: text for name, text in labels.items() if not name.startswith(PREFIX)}

    def _with_family(self, work: Work, promise: JobPromise, *, weighed: bool) -> JobPromise:
        """A promise with what the declaration says of the job's family where it says nothing itself."""
        family = self._family(work)
        if family is None:
            return promise
        milestones = self._terms.declaration.milestones
        if promise.deadline_ms is None and promise.due_ms is None:
            deadline, due = (
                None if one is None else deadline_ms(one, created_ms=work.created_ms, milestones=milestones)
                for one in (family.deadline, family.due)
            )
            promise = replace(promise, deadline_ms=deadline, due_ms=due)
        return replace(
            promise,
            weight=promise.weight if weighed else family.weight,
            restart_ms=family.restart_ms if promise.restart_ms is None else promise.restart_ms,
        )

    def _waiting(self, work: Work, promise: JobPromise, gaps: list[Gap], comes_ms: int) -> ReadWork:
        why = self._barred(work)
        flavors: tuple[str, ...] = ()
        queue = self._queues.get(work.cluster_queue or "")
        if not why and queue is not None:
            flavors, why = self._eligible(work, queue)
        family = self._family(work)
        known = self._known(work, family)
        lengths = {flavor: self._length(flavor, promise, family, known, work) for flavor in flavors}
        shapes = tuple(
            Shape(flavor=flavor, demand=dict.fromkeys(self._room.resources(flavor), work.gpus), duration_ms=length)
            for flavor, length in lengths.items()
            if length is not None
        )
        if not why and not shapes:
            why = UNKNOWN_LENGTH
        if why:
            return ReadWork(
                work=work,
                promise=promise,
                job=None,
                why=why,
                flavors=flavors,
                overruns=self._overruns(work, family),
                gaps=tuple(gaps),
            )
        start_ms = max(comes_ms, promise.earliest_start_ms or 0)
        from_history = promise.expected_duration_ms is None and family is None
        return ReadWork(
            work=work,
            promise=promise,
            job=PlanJob(
                id=work.id,
                shapes=shapes,
                release_ms=max(0, start_ms - self._origin_ms),
                deadline_ms=self._from_origin(promise.deadline_ms),
                due_ms=self._from_origin(promise.due_ms),
                weight=promise.weight,
                after=tuple(f"{work.namespace}/{name}" for name in promise.after),
                restart_ms=promise.restart_ms,
                queue=work.cluster_queue,
                team=self._terms.declaration.teams.team_of(work.namespace),
                family=self._name_of(work, family),
                spread_ms=known.spread_ms if known is not None and from_history else (),
            ),
            flavors=flavors,
            overruns=self._overruns(work, family),
            gaps=tuple(gaps),
        )

    def _running(self, work: Work, promise: JobPromise, gaps: list[Gap]) -> ReadWork:
        """A job that holds quota keeps it for as long as it is known to run; without that for a day."""
        # One that only holds quota has not begun: all of its run is ahead.
        began_ms = work.admitted_ms or self._origin_ms
        began = min(began_ms - self._origin_ms, 0)
        family = self._family(work)
        known = self._known(work, family)
        lengths = [self._length(flavor, promise, family, known, work) for flavor in work.held]
        length = max((one for one in lengths if one is not None), default=None)
        if work.state is WorkState.RESERVED:
            gaps.append(Gap(reason="It holds quota and waits for its admission checks.", where=work.id))
        if length is None:
            until = DAY_MS
            gaps.append(Gap(reason="Nothing tells when it ends: it is taken to hold GPUs for a day.", where=work.id))
        else:
            until = began + max(1, length - work.past_run_ms)
            if until <= 0:
                # As long again as it was expected to take: jobs of seconds do not hold a plan up for an hour.
                until = min(HOUR_MS, max(length, LEAST_MORE_MS))
                reason = (
                    f"It runs longer than expected: it is taken to hold its GPUs for {format_duration(until)} more."
                )
                gaps.append(Gap(reason=reason, where=work.id))
        demand: dict[str, int] = {}
        for flavor, gpus in work.held.items():
            for resource in self._room.resources(flavor):
                demand[resource] = demand.get(resource, 0) + gpus
        if not demand:
            return ReadWork(work=work, promise=promise, job=None, why="all its pods have ended", gaps=tuple(gaps))
        shape = Shape(
            flavor=next(iter(work.held)) if len(work.held) == 1 else None, demand=demand, duration_ms=until - began
        )
        job = PlanJob(
            id=work.id,
            shapes=(shape,),
            release_ms=began,
            started_ms=began,
            deadline_ms=self._from_origin(promise.deadline_ms),
            due_ms=self._from_origin(promise.due_ms),
            weight=promise.weight,
            queue=work.cluster_queue,
            team=self._terms.declaration.teams.team_of(work.namespace),
            family=self._name_of(work, family),
        )
        return ReadWork(work=work, promise=promise, job=job, flavors=tuple(work.held), gaps=tuple(gaps))

    def _barred(self, work: Work) -> str:
        """What keeps a job from ever starting as things are; "" where nothing does."""
        local = self._local.get((work.namespace, work.queue))
        if not work.active:
            return "it is switched off: spec.active of its Workload is false"
        if not work.queue:
            return "it names no queue: set the label kueue.x-k8s.io/queue-name"
        if local is None or work.cluster_queue is None:
            return f"there is no LocalQueue {work.queue} in namespace {work.namespace}"
        queue = self._queues.get(work.cluster_queue)
        if queue is None:
            return f"there is no ClusterQueue {work.cluster_queue}"
        if local.stopped:
            return f"LocalQueue {local.name} is stopped ({local.stopped})"
        if queue.stopped:
            return f"ClusterQueue {queue.name} is stopped ({queue.stopped})"
        return "" if queue.quotas else f"ClusterQueue {queue.name} has no quota of GPUs"

    def _eligible(self, work: Work, queue: ClusterQueue) -> tuple[tuple[str, ...], str]:
        """The flavors of its queue that it may run on, else why there is none."""
        known = [found for one in queue.quotas if (found := self._flavors.get(one.flavor)) is not None]
        keys = {key for one in known for key in one.node_labels}
        refusals = [(one.name, self._refused(work, one, keys)) for one in known]
        fit = tuple(name for name, why in refusals if not why)
        why = "; ".join(f"{name}: {why}" for name, why in refusals)
        return fit, "" if fit else f"no flavor of ClusterQueue {queue.name} is for it ({why or 'it has none'})"

    def _refused(self, work: Work, flavor: Flavor, keys: set[str]) -> str:
        for pods in work.pod_sets:
            for key, value in pods.node_selector.items():
                if key in keys and flavor.node_labels.get(key) != value:
                    return f"its nodes are not {key}={value}"
            if not keeps_to(pods.node_terms, flavor.node_labels, keys):
                return "its nodes are not those of the required node affinity"
            taint = keeps_away(flavor.taints, (*pods.tolerations, *flavor.tolerations))
            if taint is not None:
                return f"taint {taint.key} is not tolerated"
            widest = self._room.widest(flavor.name)
            if widest and pods.gpus > widest:
                return f"a pod asks for {pods.gpus} GPUs, and its widest node has {widest}"
        return ""

    def _name_of(self, work: Work, family: BatchFamily | None) -> str:
        return family.name if family else self._terms.stem(work.owner or work.name)

    def _overruns(self, work: Work, family: BatchFamily | None) -> bool:
        return self._terms.claims.overruns(work.namespace, self._name_of(work, family))

    def _family(self, work: Work) -> BatchFamily | None:
        return declared_for(
            self._terms.declaration.batch, namespace=work.namespace, labels=work.labels, queue=work.queue
        )

    def _known(self, work: Work, family: BatchFamily | None) -> FamilyDuration | None:
        """How long its like ran: its declared family, what makes it again and again, else jobs named alike.

        The first of them counts that has enough runs of its own; where none has, what is known of all jobs.
        """
        names = (family.name if family else "", work.owner, self._terms.stem(work.name))
        whose = (f"{work.namespace}/{name}" for name in names if name)
        found = [known for name in whose if (known := self._terms.history(name)) is not None]
        return min(found, key=lambda known: known.basis is not DurationBasis.FAMILY, default=None)

    def _length(
        self,
        flavor: str,
        promise: JobPromise,
        family: BatchFamily | None,
        known: FamilyDuration | None,
        work: Work,
    ) -> int | None:
        """How long it runs on a flavor; None: nothing tells."""
        claimed = promise.expected_duration_ms
        if claimed is None:
            claimed = declared_length(family, flavor)
        if claimed is not None:
            return self._terms.claims.planned_ms(work.namespace, self._name_of(work, family), claimed)
        return known.planned_ms if known is not None else work.max_run_ms

    def _from_origin(self, at_ms: int | None) -> int | None:
        return None if at_ms is None else at_ms - self._origin_ms


def declared_length(family: BatchFamily | None, flavor: str) -> int | None:
    """How long a run of a declared family takes on a flavor; None where that is not declared."""
    return None if family is None else family.durations_ms.get(flavor, family.duration_ms)
