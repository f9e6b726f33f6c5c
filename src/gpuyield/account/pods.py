"""Pods over time: what each holds, from when to when, since when it runs, and what it waited for.

A pod holds its devices from the moment it is bound to a node until it ends.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpuyield.account.facts import RunsByKind, Timeline
from gpuyield.account.lives import Ending, Life, life_of
from gpuyield.account.nodes import Nodes
from gpuyield.account.pod_facts import PRINTED_TIMES, PodFacts, label_key, may_be_true
from gpuyield.model.cells import Owner
from gpuyield.model.evidence import Gap
from gpuyield.model.gpu import DeviceKind, device_kind
from gpuyield.units import Window

_BATCH_KINDS = ("Job", "JobSet", "Workflow", "TaskRun")
"""How the kinds of owners end that run to completion, such as PyTorchJob."""

_SOON_MS = 120_000
"""Within this a Job's controller creates pods once the job is no longer suspended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """Devices of one resource that one pod holds on one node over `[from_ms, to_ms)`.

    `running_ms` is when it began to run (None: not in what was read). The truth of an edge lies around it, within
    `[from_ms - from_slack_ms, from_ms + from_lag_ms]`, likewise for the end and for `running_ms` (None: for the end in
    its place). `may_hold` is how many devices more it may hold (init containers whose restart policy is not known).
    `clock_is_wrong`: it is said to have started before it was bound.
    """

    pod_key: str
    namespace: str
    pod: str
    uid: str
    node: str
    owner: Owner
    job: str | None
    resource: str
    devices: int
    may_hold: int
    from_ms: int
    to_ms: int
    running_ms: int | None
    from_slack_ms: int = 0
    from_lag_ms: int = 0
    to_slack_ms: int = 0
    to_lag_ms: int = 0
    running_slack_ms: int = 0
    running_lag_ms: int = 0
    ending: Ending = Ending.TIME
    clock_is_wrong: bool = False

    @property
    def kind(self) -> DeviceKind:
        """What a device of it is."""
        return device_kind(self.resource)


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """Devices that a pod asked for and was not yet given, over `[from_ms, to_ms)`; `placed` says how it ended.

    `suspended`: the queue held its Job back, and the pod was not there yet.
    """

    pod_key: str
    owner: Owner
    job: str | None
    resource: str
    devices: int
    from_ms: int
    to_ms: int
    placed: bool
    suspended: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Pods:
    """All that pods held and waited for."""

    holdings: tuple[Holding, ...]
    waiting: tuple[Waiting, ...]
    gaps: tuple[Gap, ...] = ()


def read_pods(
    runs: RunsByKind,
    *,
    gap_limit_ms: int,
    nodes: Nodes,
    team_label: str | None,
    teams: Mapping[str, str],
) -> Pods:
    """What every pod held and waited for; `nodes` tell when kube-state-metrics answered at all."""
    known = PodFacts(runs, gap_limit_ms)
    wanted_label = label_key(team_label) if team_label else None
    holdings: list[Holding] = []
    waiting: list[Waiting] = []
    for pod in sorted(known.names):
        namespace, name, uid = known.names[pod]
        workload, job = _workload(known, pod, namespace, name)
        label = known.labels.get(pod, {}).get(wanted_label, "") if wanted_label else ""
        owner = Owner(namespace, workload, label or teams.get(namespace, namespace))
        life = life_of(known, pod, nodes, gap_limit_ms)
        waits = [(life.wait, False)] if life.wait else []
        waits += [(window, True) for window in _suspended_before(known, pod, namespace, job, life)]
        for resource in sorted(known.resources(pod)):
            devices, may_hold = _devices(known, pod, resource)
            waiting += [
                Waiting(
                    pod_key=pod,
                    owner=owner,
                    job=job,
                    resource=resource,
                    devices=devices,
                    from_ms=window.from_ms,
                    to_ms=window.to_ms,
                    placed=suspended or life.hold is not None,
                    suspended=suspended,
                )
                for window, suspended in waits
                if devices
            ]
            if life.hold and (devices or may_hold):
                holdings.append(
                    Holding(
                        pod_key=pod,
                        namespace=namespace,
                        pod=name,
                        uid=uid,
                        node=known.nodes[pod],
                        owner=owner,
                        job=job,
                        resource=resource,
                        devices=devices,
                        may_hold=may_hold,
                        from_ms=life.hold.from_ms,
                        to_ms=life.hold.to_ms,
                        running_ms=life.running_ms,
                        from_slack_ms=life.bound.slack_ms,
                        from_lag_ms=life.bound.lag_ms,
                        to_slack_ms=life.end.slack_ms,
                        to_lag_ms=life.end.lag_ms,
                        running_slack_ms=life.running.slack_ms,
                        running_lag_ms=life.running.lag_ms,
                        ending=life.ending,
                        clock_is_wrong=life.clock_is_wrong,
                    )
                )
    return Pods(holdings=tuple(holdings), waiting=tuple(waiting), gaps=tuple(_wrong_clocks(runs, holdings)))


def _suspended_before(known: PodFacts, pod: str, namespace: str, job: str | None, life: Life) -> list[Window]:
    """The suspension of its Job that ended in this pod's creation: the pod's devices waited all that time."""
    began = life.wait.from_ms if life.wait else life.hold.from_ms if life.hold else None
    if job is None or began is None:
        return []
    windows = known.suspended.get((namespace, job), [])
    return [
        Window(window.from_ms, min(window.to_ms, began))
        for window in windows
        if window.from_ms < began <= window.to_ms + _SOON_MS
    ]


def _devices(known: PodFacts, pod: str, resource: str) -> tuple[int, int]:
    """Devices that a pod surely holds, and how many more it may hold.

    Source: Kubernetes' effective request: the larger of the largest ordinary init container and the sum of main
    containers and sidecars (init containers that restart always).
    """

    def amounts(lines: dict[tuple[str, ...], Timeline]) -> dict[str, int]:
        return {
            rest[0]: max(int(fact.value) for fact in line.facts)
            for rest, line in lines.items()
            if rest[1] == resource and line.facts
        }

    main = sum(amounts(known.requests.get(pod, {})).values())
    ordinary, unclear = [0], 0
    sidecars = 0
    for container, amount in amounts(known.init_requests.get(pod, {})).items():
        restarts = known.sidecars.get((pod, container))
        if restarts:
            sidecars += amount
        else:
            ordinary.append(amount)
            unclear += amount if restarts is None else 0
    sure = max(main + sidecars, *ordinary)
    return sure, max(0, main + sidecars + unclear - sure)


def _workload(known: PodFacts, pod: str, namespace: str, name: str) -> tuple[str, str | None]:
    kind, owner = known.owners.get(pod, ("", ""))
    if not owner or owner == "<none>":
        return name, None
    if kind == "ReplicaSet":
        return owner.rpartition("-")[0] or owner, None
    if kind == "Job":
        above = known.job_owners.get((namespace, owner))
        return (above[1] if above and above[1] not in ("", "<none>") else owner), owner
    return owner, owner if kind.endswith(_BATCH_KINDS) else None


def _wrong_clocks(runs: RunsByKind, holdings: Sequence[Holding]) -> list[Gap]:
    """Nodes of pods whose printed times cannot be true."""
    late = {run.pod_key for kind in PRINTED_TIMES for run in runs.get(kind, ()) if not may_be_true(run)}
    nodes = sorted({one.node for one in holdings if one.pod_key in late or one.clock_is_wrong})
    return [
        Gap(reason="printed times of pods contradict the samples (is a clock wrong?): samples count there", where=node)
        for node in nodes
    ]
