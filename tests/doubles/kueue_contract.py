"""Kueue's contract in virtual time: gates, quota, checks, eviction, parking. No I/O, no chance.

What it keeps to was seen on the real Kueue 0.17 (tests/controlplane/contract*.py): a gated job has no quota; quota
counts from its reservation; every eviction sets our check back to Pending; a Workload that is switched off gives its
quota back and comes back when it is switched on; where the feature of gates is off they are ignored; while a check is
not active its queue reserves nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from gpuyield.collect.kueue.work import GATES
from gpuyield.controller.actions import Action, MoveQueue, Park, Ready, Release, Return, Say
from gpuyield.decide.live.quotas import quotas_of, resource_of
from gpuyield.model.job import Capacity, amount_at
from gpuyield.model.kueue import (
    Check,
    CheckEntry,
    CheckState,
    ClusterQueue,
    ClusterSnapshot,
    Flavor,
    GpuQuota,
    LocalQueue,
    Node,
    PodSet,
    Work,
    WorkState,
)
from gpuyield.model.marks import PARKED, PLAN
from gpuyield.plan.instance.quota import limits_by_queue, limits_of
from gpuyield.units import parse_instant

BEGIN = parse_instant("2026-12-01T00:00:00Z")
CHECK = "gpuyield"


@dataclass(slots=True)
class Submitted:
    """A job as its owner knows it: how long it really runs, and what happened to it."""

    name: str
    gpus: int
    runs_ms: int
    namespace: str = "evals"
    queue: str = "main"
    gated: bool = True
    annotations: dict[str, str] = field(default_factory=dict)
    begins: list[int] = field(default_factory=list)
    ended_ms: int | None = None
    stopped: list[int] = field(default_factory=list)
    reserved_ms: int | None = None

    @property
    def id(self) -> str:
        return f"{self.namespace}/{self.name}"


class Conflict(Exception):
    """The version that a write was decided on is not the present one."""


class KueueContract:
    """A cluster: what is in it is `Work`, as the importer makes it of the real objects."""

    def __init__(self, queues: Iterable[ClusterQueue], gpus: dict[str, int], *, honours_gates: bool = True) -> None:
        self.now_ms = BEGIN
        self.queues = {one.name: one for one in queues}
        self.gpus, self.honours_gates = gpus, honours_gates
        self.local = tuple(
            LocalQueue(namespace=namespace, name=name, cluster_queue=name)
            for name in self.queues
            for namespace in ("evals", "train")
        )
        self.work: dict[str, Work] = {}
        self.jobs: dict[str, Submitted] = {}
        self.check_is_active = True
        self.most_used: dict[str, int] = {}
        self._version = 0

    # What happens.

    def submit(self, job: Submitted) -> None:
        """A new job, with our gate or without."""
        annotations = {f"gpuyield.dev/{key}": text for key, text in job.annotations.items()}
        if job.gated:
            annotations[GATES] = PLAN
        self.jobs[job.id] = job
        checked = CHECK in self.queues[job.queue].checks
        self.work[job.id] = Work(
            namespace=job.namespace,
            name=job.name,
            workload=f"job-{job.name}",
            kind="Job",
            uid=f"uid-{job.id}",
            created_ms=self.now_ms,
            queue=job.queue,
            cluster_queue=job.queue,
            pod_sets=(PodSet(name="main", count=1, gpus=job.gpus),),
            state=WorkState.WAITING,
            gates=(PLAN,) if job.gated else (),
            annotations=annotations,
            checks=(CheckEntry(name=CHECK, state=CheckState.PENDING),) if checked else (),
            version=self._next(),
        )

    def pass_time(self, to_ms: int) -> None:
        """Running jobs end when they have run long enough; what they free is given away in turn."""
        while True:
            ends = sorted(
                (job.begins[-1] + job.runs_ms, name)
                for name, job in self.jobs.items()
                if self._state(name) is WorkState.ADMITTED
            )
            if not ends or ends[0][0] > to_ms:
                break
            self.now_ms, name = max(self.now_ms, ends[0][0]), ends[0][1]
            self.jobs[name].ended_ms = self.now_ms
            self.put(
                replace(self.work[name], state=WorkState.FINISHED, held={}, finished_ms=self.now_ms, succeeded=True)
            )
            self.settle()
        self.now_ms = to_ms
        self.settle()

    def settle(self) -> None:
        """What Kueue does by itself: reserve quota in the order of creation, admit what every check is ready for."""
        for name, work in sorted(self.work.items(), key=lambda item: (item[1].created_ms, item[0])):
            if work.state is WorkState.WAITING and work.active and not self._is_gated(work):
                self._reserve(name, work)
        for name, work in self.work.items():
            ready = all(one.state is CheckState.READY for one in work.checks)
            if work.state is WorkState.RESERVED and work.active and ready:
                self.jobs[name].begins.append(self.now_ms)
                self.put(replace(self.work[name], state=WorkState.ADMITTED, admitted_ms=self.now_ms))
        for flavor in self.gpus:
            used = sum(one.held.get(flavor, 0) for one in self.work.values() if one.state is WorkState.ADMITTED)
            self.most_used[flavor] = max(self.most_used.get(flavor, 0), used)

    def evict(self, name: str) -> None:
        """An administrator stops a job that runs, or holds quota."""
        if self._state(name) is WorkState.ADMITTED:
            self.jobs[name].stopped.append(self.now_ms)
        if self.work[name].holds_quota:
            self._give_back(name)
            self.put(replace(self.work[name], evictions=self.work[name].evictions + 1))
        self.settle()

    def set_quota(self, queue: str, nominal: int) -> None:
        """Another quota; what runs goes on."""
        old = self.queues[queue]
        self.queues[queue] = replace(old, quotas=tuple(replace(one, nominal=nominal) for one in old.quotas))
        self.settle()

    def put(self, work: Work) -> None:
        """Write a Workload, whoever does it."""
        self.work[work.id] = replace(work, version=self._next())

    # What we do.

    def write(self, action: Action) -> None:
        """An action, on the version that it was decided on. Raises Conflict."""
        name = action.work.id
        present = self.work[name]
        if isinstance(action, Say):
            return
        if present.version != action.work.version:
            raise Conflict(name)
        match action:
            case Release():
                self.put(replace(self.work[name], gates=tuple(one for one in present.gates if one != PLAN)))
            case Ready():
                entries = tuple(
                    replace(one, state=CheckState.READY) if one.name in action.checks else one for one in present.checks
                )
                self.put(replace(self.work[name], checks=entries))
            case Park():
                if present.state is WorkState.ADMITTED:
                    self.jobs[name].stopped.append(self.now_ms)
                self._give_back(name)
                self.put(replace(self.work[name], active=False, marks={PARKED: "yes"}))
            case Return():
                self.put(replace(self.work[name], active=True, marks={}))
            case MoveQueue():
                self.put(replace(self.work[name], queue=action.queue))
        self.settle()

    def snapshot(self) -> ClusterSnapshot:
        """What there is now."""
        return ClusterSnapshot(
            at_ms=self.now_ms,
            api_version="v1beta2",
            flavors=tuple(Flavor(name=one, node_labels={"gpu": one}) for one in self.gpus),
            queues=tuple(self.queues.values()),
            cohorts=(),
            local_queues=self.local,
            work=tuple(self.work.values()),
            nodes=tuple(Node(name=f"n-{one}", gpus=gpus, labels={"gpu": one}) for one, gpus in self.gpus.items()),
            pods=(),
            checks=(Check(name=CHECK, controller=PLAN, active=self.check_is_active),),
        )

    # Kueue's own.

    def _state(self, name: str) -> WorkState:
        return self.work[name].state

    def _is_gated(self, work: Work) -> bool:
        return bool(work.gates) and self.honours_gates

    def _reserve(self, name: str, work: Work) -> None:
        queue = self.queues[work.cluster_queue or ""]
        if queue.stopped or (CHECK in queue.checks and not self.check_is_active):
            return
        capacity = Capacity(steps={resource_of(one): ((0, 1_000),) for one in self.gpus})
        limits = limits_of(quotas_of(self.snapshot()).queues, capacity)
        for quota in queue.quotas:
            names = limits_by_queue(limits).get((queue.name, resource_of(quota.flavor)), ())
            if all(
                self._held_of(quota.flavor, limits[one].queues) + work.gpus <= amount_at(limits[one].steps, 0)
                for one in names
            ):
                held = {quota.flavor: work.gpus}
                self.jobs[name].reserved_ms = self.now_ms
                self.put(
                    replace(
                        self.work[name], state=WorkState.RESERVED, held=held, reserved_ms=self.now_ms, evicted=False
                    )
                )
                return

    def _held_of(self, flavor: str, queues: frozenset[str]) -> int:
        return sum(
            one.held.get(flavor, 0) for one in self.work.values() if one.holds_quota and one.cluster_queue in queues
        )

    def _give_back(self, name: str) -> None:
        """What every eviction does: the quota goes, and our check asks again."""
        work = self.work[name]
        entries = tuple(replace(one, state=CheckState.PENDING) for one in work.checks)
        self.put(
            replace(
                work,
                state=WorkState.WAITING,
                held={},
                reserved_ms=None,
                admitted_ms=None,
                evicted=True,
                checks=entries,
            )
        )

    def _next(self) -> str:
        self._version += 1
        return str(self._version)


def planned_queue(name: str, quotas: dict[str, int], *, cohort: str | None = None) -> ClusterQueue:
    """A queue that asks our check."""
    given = tuple(GpuQuota(flavor=flavor, nominal=gpus) for flavor, gpus in quotas.items())
    return ClusterQueue(name=name, quotas=given, checks=(CHECK,), cohort=cohort)
