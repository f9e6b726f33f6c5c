"""Pods over time: what each holds, from when to when, since when it runs, and how long it waited.

A pod holds its devices from the moment it is bound to a node until it ends. The edges are the times that
kube-state-metrics prints where it prints them, else they are taken from samples. Either way the true edge lies in a
span around it: printed times are whole seconds, cut off; a change that samples show came after the last scrape that
did not show it. A uid is bound once, so its hold has no holes.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from gpuyield.account.facts import Fact, Run, RunsByKind, Timeline, timelines
from gpuyield.account.nodes import Nodes
from gpuyield.ledger.tables import RunKind
from gpuyield.model.cells import Owner
from gpuyield.model.evidence import Gap
from gpuyield.model.gpu import DeviceKind, device_kind
from gpuyield.units import MINUTE_MS, Window, merge_windows

_BATCH_KINDS = ("Job", "JobSet", "Workflow", "TaskRun")
"""How the kinds of owners end that run to completion, such as PyTorchJob."""

_SOON_MS = 120_000
"""Within this a Job's controller creates pods once the job is no longer suspended."""

SECOND_MS = 1_000
"""A printed time is the whole second in which it truly was."""

_ACTIVE = ("Pending", "Running", "Unknown")


_PRINTED_TIMES = (
    RunKind.POD_CREATED,
    RunKind.POD_SCHEDULED,
    RunKind.POD_STARTED,
    RunKind.POD_COMPLETED,
    RunKind.CONTAINER_STARTED,
    RunKind.CONTAINER_TERMINATED,
)


class Ending(StrEnum):
    """How the end of a hold is known."""

    TIME = "time"
    SAMPLES = "samples"
    OPEN = "open"
    """Not seen to end: it lasts to the end of what was read."""
    SILENCE = "silence"
    """It ended while kube-state-metrics was silent."""


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


class _Facts:
    """The facts of all pods, by pod."""

    def __init__(self, runs: RunsByKind, gap_limit_ms: int) -> None:
        self.requests = self._lines(runs, RunKind.POD_REQUEST, gap_limit_ms, by=("container", "resource"))
        self.init_requests = self._lines(runs, RunKind.POD_INIT_REQUEST, gap_limit_ms, by=("container", "resource"))
        self.phases = self._lines(runs, RunKind.POD_PHASE, gap_limit_ms, by=("detail",))
        self.sidecars = {(run.pod_key, run.container): run.value >= 1 for run in runs.get(RunKind.POD_SIDECAR, ())}
        self.times = {kind: _times(runs.get(kind, ())) for kind in _PRINTED_TIMES}
        self.completion_shown_ms = self._shown_ms(runs.get(RunKind.POD_COMPLETED, ()))
        self.owners = {run.pod_key: (run.detail, run.text) for run in runs.get(RunKind.POD_OWNER, ())}
        self.job_owners = {(run.namespace, run.pod): (run.detail, run.text) for run in runs.get(RunKind.JOB_OWNER, ())}
        self.suspended = _suspensions(runs, gap_limit_ms)
        self.labels: dict[str, dict[str, str]] = defaultdict(dict)
        for run in runs.get(RunKind.POD_LABEL, ()):
            self.labels[run.pod_key][label_key(run.detail)] = run.text
        self.nodes: dict[str, str] = {}
        self.names: dict[str, tuple[str, str, str]] = {}
        for kind in (RunKind.POD_REQUEST, RunKind.POD_INIT_REQUEST):
            for run in runs.get(kind, ()):
                self.names[run.pod_key] = (run.namespace, run.pod, run.uid)
                if run.node:
                    self.nodes[run.pod_key] = run.node

    @staticmethod
    def _lines(
        runs: RunsByKind, kind: RunKind, gap_limit_ms: int, *, by: Sequence[str]
    ) -> dict[str, dict[tuple[str, ...], Timeline]]:
        groups: dict[tuple[str, tuple[str, ...]], list[Run]] = defaultdict(list)
        for run in runs.get(kind, ()):
            # What a request changes to is the node; no other pod fact has one.
            told = replace(run, text=run.node) if "resource" in by else run
            groups[run.pod_key, tuple(str(getattr(run, name)) for name in by)].append(told)
        found: dict[str, dict[tuple[str, ...], Timeline]] = defaultdict(dict)
        for (pod, rest), line in timelines(groups, gap_limit_ms).items():
            found[pod][rest] = line
        return found

    def _shown_ms(self, completions: Sequence[Run]) -> dict[str, int]:
        """When the latest time of completion of each pod was first printed."""
        shown: dict[str, int] = {}
        for run in completions:
            if int(run.value) == self.last(RunKind.POD_COMPLETED, run.pod_key):
                shown[run.pod_key] = min(run.from_ms, shown.get(run.pod_key, run.from_ms))
        return shown

    def first(self, kind: RunKind, pod: str) -> int | None:
        found = self.times[kind].get(pod)
        return found[0] if found else None

    def last(self, kind: RunKind, pod: str) -> int | None:
        found = self.times[kind].get(pod)
        return found[1] if found else None


def _suspensions(runs: RunsByKind, gap_limit_ms: int) -> dict[tuple[str, str], list[Window]]:
    """When each Job was suspended."""
    groups: dict[tuple[str, str], list[Run]] = defaultdict(list)
    for run in runs.get(RunKind.JOB_SUSPENDED, ()):
        groups[run.namespace, run.pod].append(run)
    return {
        job: merge_windows(fact.window for fact in line.facts if fact.value >= 1)
        for job, line in timelines(groups, gap_limit_ms).items()
    }


def label_key(key: str) -> str:
    """A label's key as exporters print it: `gpuyield.dev/team` and `label_gpuyield_dev_team` are the same."""
    return re.sub(r"[^a-zA-Z0-9_]", "_", key).removeprefix("label_")


def _times(runs: Sequence[Run]) -> dict[str, tuple[int, int]]:
    """The earliest and the latest of the times that are printed of each pod.

    None can be later than the sample that prints it, by more than an interval (a scrape takes its time, and clocks
    differ a little).
    """
    found: dict[str, tuple[int, int]] = {}
    for run in runs:
        if 0 < run.value <= run.from_ms + run.interval_ms:
            at_ms = int(run.value)
            low, high = found.get(run.pod_key, (at_ms, at_ms))
            found[run.pod_key] = (min(low, at_ms), max(high, at_ms))
    return found


def _wrong_clocks(runs: RunsByKind, holdings: Sequence[Holding]) -> list[Gap]:
    """Nodes of pods whose printed times cannot be true."""
    late = {
        run.pod_key
        for kind in _PRINTED_TIMES
        for run in runs.get(kind, ())
        if not 0 < run.value <= run.from_ms + run.interval_ms
    }
    nodes = sorted({one.node for one in holdings if one.pod_key in late or one.clock_is_wrong})
    return [
        Gap(reason="printed times of pods contradict the samples (is a clock wrong?): samples count there", where=node)
        for node in nodes
    ]


def read_pods(
    runs: RunsByKind,
    *,
    gap_limit_ms: int,
    nodes: Nodes,
    team_label: str | None,
    teams: Mapping[str, str],
) -> Pods:
    """What every pod held and waited for; `nodes` tell when kube-state-metrics answered at all."""
    known = _Facts(runs, gap_limit_ms)
    wanted_label = label_key(team_label) if team_label else None
    holdings: list[Holding] = []
    waiting: list[Waiting] = []
    for pod in sorted(known.names):
        namespace, name, uid = known.names[pod]
        workload, job = _workload(known, pod, namespace, name)
        label = known.labels.get(pod, {}).get(wanted_label, "") if wanted_label else ""
        owner = Owner(namespace, workload, label or teams.get(namespace, namespace))
        life = _life(known, pod, nodes, gap_limit_ms)
        waits = [(life.wait, False)] if life.wait else []
        waits += [(window, True) for window in _suspended_before(known, pod, namespace, job, life)]
        for resource in sorted(_resources(known, pod)):
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


def _suspended_before(known: _Facts, pod: str, namespace: str, job: str | None, life: _Life) -> list[Window]:
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


def _resources(known: _Facts, pod: str) -> set[str]:
    return {rest[1] for lines in (known.requests, known.init_requests) for rest in lines.get(pod, {})}


def _devices(known: _Facts, pod: str, resource: str) -> tuple[int, int]:
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


def _workload(known: _Facts, pod: str, namespace: str, name: str) -> tuple[str, str | None]:
    kind, owner = known.owners.get(pod, ("", ""))
    if not owner or owner == "<none>":
        return name, None
    if kind == "ReplicaSet":
        return owner.rpartition("-")[0] or owner, None
    if kind == "Job":
        above = known.job_owners.get((namespace, owner))
        return (above[1] if above and above[1] not in ("", "<none>") else owner), owner
    return owner, owner if kind.endswith(_BATCH_KINDS) else None


@dataclass(frozen=True, slots=True)
class _Edge:
    """An edge of a life; the truth lies within `[at_ms - slack_ms, at_ms + lag_ms]`."""

    at_ms: int
    slack_ms: int = 0
    lag_ms: int = 0


_NO_EDGE = _Edge(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Life:
    wait: Window | None
    hold: Window | None
    running_ms: int | None
    bound: _Edge = _NO_EDGE
    running: _Edge = _NO_EDGE
    end: _Edge = _NO_EDGE
    ending: Ending = Ending.TIME
    clock_is_wrong: bool = False


def _life(known: _Facts, pod: str, nodes: Nodes, gap_limit_ms: int) -> _Life:
    active = _active_facts(known, pod)
    seen_ms = min((fact.from_ms for fact in active), default=None)
    created = known.first(RunKind.POD_CREATED, pod)
    wait_from = created if created is not None else seen_ms
    ended = _end(known, pod, active, nodes, gap_limit_ms)
    if ended is None or not known.nodes.get(pod):
        wait = (
            Window(wait_from, ended[0].at_ms)
            if ended and wait_from is not None and wait_from < ended[0].at_ms
            else None
        )
        return _Life(wait=wait, hold=None, running_ms=None)
    end, ending = ended
    bound = _bound(known, pod, active, nodes)
    from_ms, to_ms = min(bound.at_ms, end.at_ms), end.at_ms
    running = _running(known, pod, from_ms, to_ms, nodes)
    never = _Edge(to_ms, to_ms - _last_pending_ms(known, pod, from_ms, to_ms))
    return _Life(
        wait=Window(wait_from, from_ms) if wait_from is not None and wait_from < from_ms else None,
        hold=Window(from_ms, to_ms) if from_ms < to_ms else None,
        running_ms=running.at_ms if running else None,
        bound=bound,
        running=running or never,
        end=end,
        ending=ending,
        clock_is_wrong=_started_too_early(known, pod),
    )


def _bound(known: _Facts, pod: str, active: Sequence[Fact], nodes: Nodes) -> _Edge:
    """When the pod was bound to its node."""
    scheduled = known.first(RunKind.POD_SCHEDULED, pod)
    if scheduled is not None:
        return _Edge(scheduled, 0, SECOND_MS)
    placed = [fact for fact in _request_facts(known, pod) if fact.text]
    first = min(placed, key=lambda fact: fact.from_ms)
    seen_ms = min((fact.from_ms for fact in active), default=first.from_ms)
    from_ms = max(first.from_ms, seen_ms)
    # A pod that is there in the very first sample was bound before anything was read.
    unseen = nodes.present and from_ms <= nodes.present[0].from_ms
    earliest_ms = from_ms if unseen else nodes.scrapes.before(from_ms, first.interval_ms)
    earliest_ms = max(earliest_ms, known.first(RunKind.POD_CREATED, pod) or earliest_ms)
    # The kubelet takes a pod after it was bound.
    taken = known.first(RunKind.POD_STARTED, pod)
    if taken is not None:
        return _Edge(taken, max(0, taken - earliest_ms), SECOND_MS)
    return _Edge(from_ms, max(0, from_ms - earliest_ms))


def _active_facts(known: _Facts, pod: str) -> list[Fact]:
    phases = known.phases.get(pod, {})
    found = [fact for (phase,), line in phases.items() if phase in _ACTIVE for fact in line.facts if fact.value >= 1]
    if not phases:
        # No phase series at all: a pod that is listed counts as active while it is listed.
        found = _request_facts(known, pod)
    return sorted(found, key=lambda fact: fact.from_ms)


def _all_facts(lines: Mapping[tuple[str, ...], Timeline]) -> list[Fact]:
    return [fact for line in lines.values() for fact in line.facts]


def _request_facts(known: _Facts, pod: str) -> list[Fact]:
    """When a pod's requests were listed; the text of a fact is the node, "" until it is placed."""
    lines = (*known.requests.get(pod, {}).values(), *known.init_requests.get(pod, {}).values())
    return [fact for line in lines for fact in line.facts]


def _end(
    known: _Facts, pod: str, active: Sequence[Fact], nodes: Nodes, gap_limit_ms: int
) -> tuple[_Edge, Ending] | None:
    """When the pod ended, and how that is known; None: nothing tells that it lived."""
    completed = known.last(RunKind.POD_COMPLETED, pod)
    if completed is not None and not _lived_on(known, pod, active):
        return _Edge(completed, 0, SECOND_MS), Ending.TIME
    if not active:
        return None
    spans = merge_windows(fact.window for fact in active)
    last = max(active, key=lambda fact: (fact.to_ms, fact.last_ms))
    to_ms = spans[-1].to_ms
    terminated = known.last(RunKind.CONTAINER_TERMINATED, pod)
    if terminated is not None and last.last_ms - gap_limit_ms <= terminated <= to_ms and _is_terminal(known, pod):
        return _Edge(terminated, 0, SECOND_MS), Ending.TIME
    # Scrapes half an interval apart count as the same.
    next_ms = last.last_ms + last.interval_ms // 2
    if nodes.sampled and next_ms >= nodes.sampled[-1].to_ms:
        open_ms = max(to_ms, nodes.present[-1].to_ms)
        return _Edge(open_ms, open_ms - last.last_ms), Ending.OPEN
    answered = any(window.from_ms <= next_ms < window.to_ms for window in nodes.sampled)
    asked_ms = nodes.scrapes.after(last.last_ms, last.interval_ms) or to_ms
    return (
        _Edge(to_ms, to_ms - last.last_ms, max(0, asked_ms - to_ms)),
        Ending.SAMPLES if answered or not nodes.sampled else Ending.SILENCE,
    )


def _lived_on(known: _Facts, pod: str, active: Sequence[Fact]) -> bool:
    """Whether the pod was alive when its time of completion was printed: one of its containers had ended, not all."""
    has_phases = pod in known.phases
    return has_phases and any(fact.last_ms >= known.completion_shown_ms[pod] for fact in active)


def _started_too_early(known: _Facts, pod: str) -> bool:
    """Whether a container is said to have started long before its pod was bound."""
    started, scheduled = known.first(RunKind.CONTAINER_STARTED, pod), known.first(RunKind.POD_SCHEDULED, pod)
    return started is not None and scheduled is not None and started < scheduled - MINUTE_MS


def _is_terminal(known: _Facts, pod: str) -> bool:
    return any(
        fact.value >= 1
        for (phase,), line in known.phases.get(pod, {}).items()
        if phase in ("Succeeded", "Failed")
        for fact in line.facts
    )


def _running(known: _Facts, pod: str, from_ms: int, to_ms: int, nodes: Nodes) -> _Edge | None:
    """Since when the pod ran; None: it was never seen to."""
    phases = known.phases.get(pod)
    if not phases:
        return _Edge(from_ms)
    candidates = []
    started = known.first(RunKind.CONTAINER_STARTED, pod)
    if started is not None and not _started_too_early(known, pod):
        candidates.append(_Edge(max(started, from_ms), 0, SECOND_MS))
    line = phases.get(("Running",))
    seen = next((fact for fact in line.facts if fact.value >= 1), None) if line else None
    if seen is not None:
        at_ms = max(seen.from_ms, from_ms)
        before_ms = max((fact.last_ms for fact in _all_facts(phases) if fact.last_ms < seen.from_ms), default=None)
        if before_ms is None:
            before_ms = nodes.scrapes.before(seen.from_ms, seen.interval_ms)
        candidates.append(_Edge(at_ms, max(0, at_ms - max(before_ms, from_ms))))
    if not candidates:
        return None
    found = min(candidates, key=lambda edge: (edge.at_ms, edge.slack_ms))
    return replace(found, at_ms=min(found.at_ms, to_ms))


def _last_pending_ms(known: _Facts, pod: str, from_ms: int, to_ms: int) -> int:
    """When a pod that was never seen to run was last seen not to."""
    line = known.phases.get(pod, {}).get(("Pending",))
    seen = [fact.last_ms for fact in line.facts if fact.value >= 1 and fact.last_ms < to_ms] if line else []
    return max([from_ms, *seen])
