"""A cluster small enough to count by hand: one node of two cards, one pod of one card."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from doubles.exposition_text import series, steady
from gpuyield.demo.exposition import Series

POD = {"namespace": "team-a", "pod": "train-0", "uid": "u-1"}


def node(times_ms: Sequence[int], name: str = "node-a", cards: int = 2) -> list[Series]:
    """A node as kube-state-metrics prints it."""
    devices = {"node": name, "resource": "nvidia_com_gpu", "unit": "integer"}
    return [
        steady("kube_node_status_capacity", cards, times_ms, **devices),
        steady("kube_node_status_allocatable", cards, times_ms, **devices),
        steady("kube_node_status_condition", 1, times_ms, node=name, condition="Ready", status="true"),
        steady("kube_node_spec_unschedulable", 0, times_ms, node=name),
    ]


def pod(times_ms: Sequence[int], *, gpus: int = 1, node_name: str = "node-a", **labels: str) -> list[Series]:
    """A running pod as kube-state-metrics prints it."""
    its = {**POD, **labels}
    request = {"container": "main", "node": node_name, "resource": "nvidia_com_gpu", "unit": "integer"}
    return [
        steady("kube_pod_container_resource_requests", gpus, times_ms, **its, **request),
        steady("kube_pod_status_phase", 1, times_ms, **its, phase="Running"),
        steady("kube_pod_status_phase", 0, times_ms, **its, phase="Pending"),
        steady("kube_pod_created", 1_794_000_000, times_ms, **its),
        steady("kube_pod_owner", 1, times_ms, **its, owner_kind="Job", owner_name="train"),
        steady("kube_pod_labels", 1, times_ms, **its, label_team="red", label_gpuyield_dev_deadline="within 8h"),
        steady("kube_pod_info", 1, times_ms, **its, node=node_name),
    ]


def card(samples: Iterable[tuple[int, float]], *, uuid: str = "GPU-1", **labels: str) -> Series:
    """A card's activity in percent, as the DCGM exporter prints it."""
    named = {"__name__": "DCGM_FI_DEV_GPU_UTIL", "gpu": "0", "UUID": uuid, "Hostname": "node-a", **labels}
    return series(named, list(samples))


def busy_cluster(times_ms: Sequence[int]) -> list[Series]:
    """The node, its pod, and both cards, whose activity changes from minute to minute."""
    return [
        *node(times_ms),
        *pod(times_ms),
        card(((at, at // 60_000 % 101) for at in times_ms), pod="train-0", namespace="team-a", container="main"),
        card(((at, 0) for at in times_ms), uuid="GPU-2", gpu="1"),
    ]
