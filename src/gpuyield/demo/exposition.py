"""What exporters would have said about a scenario, and Prometheus would have kept: its time series.

kube-state-metrics tells what Kubernetes knew (whole seconds for times, as it prints them), DCGM what the cards did.
A sample shows the state at its own instant.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from gpuyield.demo.cluster import BatchJob, Exporter, Node, Pod, Scenario
from gpuyield.demo.story import Dice

Times: TypeAlias = npt.NDArray[np.int64]
Values: TypeAlias = npt.NDArray[np.float64]

_KSM_TARGET = {"job": "kube-state-metrics", "instance": "192.0.2.10:8080"}
_PHASES = ("Pending", "Running", "Succeeded", "Failed", "Unknown")
_FOREVER = 2**62


@dataclass(frozen=True, slots=True)
class Series:
    """One time series: its labels (with `__name__`), epoch ms in order, and values of the same length."""

    labels: Mapping[str, str]
    times_ms: Times
    values: Values


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """How the cluster is instrumented.

    `honor_labels` False: the workload's labels are `exported_*` and `pod` is the exporter's. `sm_active`: the exporter
    was told to print DCGM_FI_PROF_SM_ACTIVE, which it does not by default. `ksm_replicas`: scraped that many times.
    """

    honor_labels: bool = True
    sm_active: bool = False
    ksm_replicas: int = 1


def all_series(scenario: Scenario, dialect: Dialect | None = None) -> list[Series]:
    """Every series with a sample, sorted by name, then labels."""
    spoken = dialect or Dialect()
    made = [one for one in (*_ksm(scenario, spoken), *_dcgm(scenario, spoken)) if len(one.times_ms)]
    return sorted(made, key=lambda one: (one.labels["__name__"], sorted(one.labels.items())))


def scrape_times(scenario: Scenario, exporter: Exporter, node: str | None, replica: int = 0) -> Times:
    """When a target was scraped with success: epoch ms in order."""
    scrapes, window = scenario.scrapes, scenario.window
    changed_ms = window.to_ms if scrapes.later_from_ms is None else scrapes.later_from_ms
    later_ms = scrapes.later_interval_ms or scrapes.interval_ms
    die = Dice(scenario.seed, 1).of(f"scrapes/{exporter}/{node}/{replica}")
    chance = np.random.default_rng(die.getrandbits(64))
    offset_ms = 0 if scenario.grid else die.randrange(min(scrapes.interval_ms, later_ms))
    times = np.concatenate(
        (
            np.arange(window.from_ms + offset_ms, changed_ms, scrapes.interval_ms, dtype=np.int64),
            np.arange(changed_ms + offset_ms, window.to_ms, later_ms, dtype=np.int64),
        )
    )
    if scrapes.jitter_ms:
        times = np.unique(times + chance.integers(-scrapes.jitter_ms, scrapes.jitter_ms, len(times)))
        times = times[(times >= window.from_ms) & (times < window.to_ms)]
    kept = chance.random(len(times)) >= scrapes.lost_share
    for silence in scenario.silences:
        if silence.exporter in (None, exporter) and silence.node in (None, node):
            kept &= (times < silence.window.from_ms) | (times >= silence.window.to_ms)
    return times[kept]


def _ksm(scenario: Scenario, dialect: Dialect) -> Iterator[Series]:
    for replica in range(dialect.ksm_replicas):
        target = dict(_KSM_TARGET, instance=f"192.0.2.{10 + replica}:8080")
        clock = _Clock(scrape_times(scenario, Exporter.KSM, None, replica), target)
        for node in scenario.nodes:
            yield from _node(clock, node)
        for pod in scenario.pods:
            yield from _pod(clock, pod)
        for job in scenario.jobs:
            yield from _job(clock, job)
        yield from _replica_sets(clock, scenario)


class _Clock:
    """The scrapes of one target; cuts series out of them."""

    def __init__(self, times_ms: Times, target: Mapping[str, str]) -> None:
        self._times_ms = times_ms
        self._target = target

    def while_true(
        self, name: str, labels: Mapping[str, str], from_ms: int | None, to_ms: int | None, value: float = 1.0
    ) -> Series:
        """A series that exists from one instant until another with one value; no start: no sample."""
        low = len(self._times_ms) if from_ms is None else int(np.searchsorted(self._times_ms, from_ms))
        high = len(self._times_ms) if to_ms is None else int(np.searchsorted(self._times_ms, to_ms))
        times = self._times_ms[low : max(low, high)]
        return Series({"__name__": name, **labels, **self._target}, times, np.full(len(times), value))

    def steps(self, name: str, labels: Mapping[str, str], steps: list[tuple[int, float]], to_ms: int | None) -> Series:
        """A series that exists from its first step on; each value holds until the next step."""
        shape = self.while_true(name, labels, steps[0][0] if steps else None, to_ms)
        return Series(shape.labels, shape.times_ms, _values_at(steps, shape.times_ms))


def _values_at(steps: list[tuple[int, float]] | tuple[tuple[int, float], ...], times_ms: Times) -> Values:
    """The value of a step function at each time, 0 before the first."""
    starts = np.array([-_FOREVER, *(step[0] for step in steps)], dtype=np.int64)
    values = np.array([0.0, *(step[1] for step in steps)])
    return values[np.searchsorted(starts, times_ms, side="right") - 1]


def _seconds(at_ms: int) -> float:
    """As kube-state-metrics prints a time."""
    return float(at_ms // 1000)


def _node(clock: _Clock, node: Node) -> Iterator[Series]:
    named = {"node": node.name}
    for name in ("kube_node_status_capacity", "kube_node_status_allocatable"):
        for resource, unit, amount in (("nvidia_com_gpu", "integer", len(node.cards)), ("cpu", "core", 96)):
            yield clock.while_true(name, {**named, "resource": resource, "unit": unit}, 0, None, amount)
    lost = [edge for span in node.not_ready for edge in ((span.from_ms, 1.0), (span.to_ms, 0.0))]
    ready = [(at_ms, 1.0 - value) for at_ms, value in lost]
    condition = {**named, "condition": "Ready"}
    yield clock.steps("kube_node_status_condition", {**condition, "status": "true"}, [(0, 1.0), *ready], None)
    yield clock.steps("kube_node_status_condition", {**condition, "status": "unknown"}, [(0, 0.0), *lost], None)
    yield clock.while_true("kube_node_status_condition", {**condition, "status": "false"}, 0, None, 0.0)
    cordons = [edge for span in node.cordoned for edge in ((span.from_ms, 1.0), (span.to_ms, 0.0))]
    yield clock.steps("kube_node_spec_unschedulable", named, [(0, 0.0), *cordons], None)
    yield clock.while_true("kube_node_info", {**named, "kubelet_version": "v1.33.5"}, 0, None)
    labels = {
        "label_nvidia_com_gpu_product": node.product,
        "label_nvidia_com_gpu_count": str(len(node.cards)),
        "label_nvidia_com_gpu_memory": str(node.memory_mib),
        "label_nvidia_com_gpu_replicas": "1",
        "label_gpuyield_dev_flavor": node.flavor,
    }
    yield clock.while_true("kube_node_labels", {**named, **labels}, 0, None)


def _pod(clock: _Clock, pod: Pod) -> Iterator[Series]:
    named = {"namespace": pod.namespace, "pod": pod.name, "uid": pod.uid}
    gone = pod.deleted_ms
    boxed = {**named, "container": pod.container}
    created_by = {"created_by_kind": pod.owner_kind, "created_by_name": pod.owner}
    for node, low, high in (("", pod.created_ms, _before(pod.scheduled_ms, gone)), (pod.node, pod.scheduled_ms, gone)):
        yield clock.while_true("kube_pod_info", {**named, **created_by, "node": node or ""}, low, high)
        for resource, unit, amount in (("nvidia_com_gpu", "integer", pod.gpus), ("cpu", "core", 4)):
            asked = {**boxed, "node": node or "", "resource": resource, "unit": unit}
            if amount:
                yield clock.while_true("kube_pod_container_resource_requests", asked, low, high, amount)
    for phase in _PHASES:
        yield clock.steps("kube_pod_status_phase", {**named, "phase": phase}, _phase_steps(pod, phase), gone)
    yield from _pod_times(clock, pod, named, boxed)
    owned = {"owner_kind": pod.owner_kind, "owner_name": pod.owner, "owner_is_controller": "true"}
    yield clock.while_true("kube_pod_owner", {**named, **owned}, pod.created_ms, gone)
    labels = {f"label_{_printed(key)}": value for key, value in pod.labels.items()}
    yield clock.while_true("kube_pod_labels", {**named, **labels}, pod.created_ms, gone)


def _pod_times(clock: _Clock, pod: Pod, named: Mapping[str, str], boxed: Mapping[str, str]) -> Iterator[Series]:
    gone = pod.deleted_ms
    yield clock.while_true("kube_pod_created", named, pod.created_ms, gone, _seconds(pod.created_ms))
    if pod.scheduled_ms is None:
        return
    placed = _seconds(pod.scheduled_ms)
    yield clock.while_true("kube_pod_status_scheduled_time", named, pod.scheduled_ms, gone, placed)
    yield clock.while_true("kube_pod_start_time", named, pod.scheduled_ms, gone, placed)
    reason = {**boxed, "reason": pod.waiting_reason or "ContainerCreating"}
    waited_ms = _before(pod.running_ms, gone)
    yield clock.while_true("kube_pod_container_status_waiting_reason", reason, pod.scheduled_ms, waited_ms)
    if pod.running_ms is None:
        return
    started = [(at_ms, _seconds(at_ms)) for at_ms in (pod.running_ms, *pod.restarts_ms)]
    yield clock.steps("kube_pod_container_state_started", boxed, started, gone)
    restarts = [(pod.running_ms, 0.0), *((at_ms, float(n)) for n, at_ms in enumerate(pod.restarts_ms, start=1))]
    yield clock.steps("kube_pod_container_status_restarts_total", boxed, restarts, gone)
    if pod.end_phase and pod.ended_ms is not None:
        ended = _seconds(pod.ended_ms)
        yield clock.while_true("kube_pod_completion_time", named, pod.ended_ms, gone, ended)
        why = {**boxed, "reason": "Completed" if pod.end_phase == "Succeeded" else "Error"}
        yield clock.while_true("kube_pod_container_status_terminated_reason", why, pod.ended_ms, gone)


def _phase_steps(pod: Pod, phase: str) -> list[tuple[int, float]]:
    changes = [(pod.created_ms, "Pending")]
    if pod.running_ms is not None:
        changes.append((pod.running_ms, "Running"))
    if pod.ended_ms is not None and pod.end_phase:
        changes.append((pod.ended_ms, pod.end_phase))
    return [(at_ms, float(now == phase)) for at_ms, now in changes]


def _before(at_ms: int | None, otherwise_ms: int | None) -> int | None:
    return otherwise_ms if at_ms is None else at_ms


def _printed(key: str) -> str:
    """A label's key as exporters print it."""
    return "".join(letter if letter.isalnum() else "_" for letter in key)


def _job(clock: _Clock, job: BatchJob) -> Iterator[Series]:
    named = {"namespace": job.namespace, "job_name": job.name}
    created = _seconds(job.created_ms)
    over_ms = job.failed_ms if job.completed_ms is None else job.completed_ms
    gone = None if over_ms is None else over_ms + 3_600_000
    yield clock.while_true("kube_job_created", named, job.created_ms, gone, created)
    yield clock.while_true("kube_job_status_start_time", named, job.started_ms, gone, created)
    if job.completed_ms is not None:
        done = _seconds(job.completed_ms)
        yield clock.while_true("kube_job_status_completion_time", named, job.completed_ms, gone, done)
        yield clock.while_true("kube_job_status_succeeded", named, job.completed_ms, gone)
    if job.failed_ms is not None:
        yield clock.while_true("kube_job_failed", {**named, "condition": "true"}, job.failed_ms, gone)
    owned = {"owner_kind": "CronJob" if job.cron else "", "owner_name": job.cron or "", "owner_is_controller": "true"}
    yield clock.while_true("kube_job_owner", {**named, **owned}, job.created_ms, gone)
    labels = {"label_job": job.family, "label_team": job.team}
    yield clock.while_true("kube_job_labels", {**named, **labels}, job.created_ms, gone)


def _replica_sets(clock: _Clock, scenario: Scenario) -> Iterator[Series]:
    spans: dict[tuple[str, str], tuple[int, int | None]] = {}
    for pod in scenario.pods:
        if pod.owner_kind == "ReplicaSet":
            low, high = spans.get((pod.namespace, pod.owner), (pod.created_ms, pod.deleted_ms))
            gone = None if high is None or pod.deleted_ms is None else max(high, pod.deleted_ms)
            spans[(pod.namespace, pod.owner)] = (min(low, pod.created_ms), gone)
    for (namespace, name), (low, gone) in sorted(spans.items()):
        owned = {"owner_kind": "Deployment", "owner_name": name.rpartition("-")[0], "owner_is_controller": "true"}
        labels = {"namespace": namespace, "replicaset": name, **owned}
        yield clock.while_true("kube_replicaset_owner", labels, low, gone)


def _dcgm(scenario: Scenario, dialect: Dialect) -> Iterator[Series]:
    holders: dict[str, list[tuple[int, int, Pod]]] = {}
    for pod in scenario.pods:
        for card in pod.cards:
            held = (pod.scheduled_ms or 0, _FOREVER if pod.ended_ms is None else pod.ended_ms, pod)
            holders.setdefault(card, []).append(held)
    for number, node in enumerate(scenario.nodes):
        times = scrape_times(scenario, Exporter.DCGM, node.name)
        target = {"job": "dcgm-exporter", "instance": f"192.0.2.{100 + number % 100}:9400"}
        exporter = {"namespace": "monitoring", "pod": f"dcgm-exporter-{number:05d}", "container": "exporter"}
        for index, card in enumerate(node.cards):
            plain = {"gpu": str(index), "UUID": card, "device": f"nvidia{index}", "modelName": node.product}
            labels = {**plain, "Hostname": node.name, **target}
            yield from _card(scenario, dialect, card, labels, exporter, times, node, holders.get(card, []))


def _card(
    scenario: Scenario,
    dialect: Dialect,
    card: str,
    labels: Mapping[str, str],
    exporter: Mapping[str, str],
    times: Times,
    node: Node,
    holders: list[tuple[int, int, Pod]],
) -> Iterator[Series]:
    busy = _values_at(scenario.activity.get(card, ()), times)
    holder = np.full(len(times), -1)
    for number, (low, high, _) in enumerate(holders):
        holder[np.searchsorted(times, low) : np.searchsorted(times, high)] = number
    metrics = {
        "DCGM_FI_PROF_GR_ENGINE_ACTIVE": busy,
        "DCGM_FI_DEV_GPU_UTIL": np.minimum(100.0, np.ceil(busy * 115)),
        "DCGM_FI_DEV_FB_USED": np.where(holder >= 0, np.floor(node.memory_mib * 0.8), 4.0),
    }
    if dialect.sm_active:
        metrics["DCGM_FI_PROF_SM_ACTIVE"] = busy
    for number in np.unique(holder):
        at = holder == number
        workload = _workload(holders[number][2]) if number >= 0 else {}
        if not dialect.honor_labels:
            workload = {**exporter, **{f"exported_{key}": value for key, value in workload.items()}}
        for name, values in metrics.items():
            yield Series({"__name__": name, **labels, **workload}, times[at], values[at])


def _workload(pod: Pod) -> dict[str, str]:
    return {"namespace": pod.namespace, "pod": pod.name, "container": pod.container}
