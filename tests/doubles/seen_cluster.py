"""A small cluster as its exporters tell it: a chat service on one card, a nightly job on another, one card free."""

from __future__ import annotations

from collections.abc import Sequence

from doubles.exposition_text import series, steady
from doubles.small_cluster import card, node
from gpuyield.demo.exposition import Series

CARD = {"modelName": "NVIDIA H100 80GB HBM3", "Hostname": "node-a"}
CHAT = {"namespace": "support", "pod": "chat-7d9f6c5b8-x2x4z", "uid": "u-chat"}
NIGHTLY = {"namespace": "evals", "pod": "nightly-28841100-abcde", "uid": "u-nightly"}


def whole_cluster(times_ms: Sequence[int], job_times_ms: Sequence[int]) -> list[Series]:
    """Everything, the job within its own times; it has ended after them, and the pod is still listed."""
    begin_s, end_s = job_times_ms[0] // 1000, (job_times_ms[-1] + 60_000) // 1000
    after = [at for at in times_ms if at > job_times_ms[-1]]
    return [
        *node(times_ms, cards=3),
        steady("kube_node_labels", 1, times_ms, node="node-a", label_nvidia_com_gpu_product="NVIDIA-H100-80GB-HBM3"),
        *_pod(times_ms, CHAT, "ReplicaSet", "chat-7d9f6c5b8", times_ms[0] // 1000, {"label_app": "chat"}),
        steady("kube_replicaset_owner", 1, times_ms, **_owned("replicaset", CHAT, "Deployment", "chat")),
        *_pod(job_times_ms, NIGHTLY, "Job", "nightly-28841100", begin_s, {"label_job": "nightly"}, after=after),
        steady("kube_pod_completion_time", end_s, after or [times_ms[-1]], **NIGHTLY),
        *_job([*job_times_ms, *after], begin_s, end_s, after),
        card(((at, 60.0) for at in times_ms), **CARD, pod=CHAT["pod"], namespace="support"),
        card(((at, 90.0) for at in job_times_ms), uuid="GPU-2", **CARD, pod=NIGHTLY["pod"], namespace="evals"),
        card(((at, 0.0) for at in times_ms), uuid="GPU-3", **CARD),
        series(
            {
                "__name__": "DCGM_FI_PROF_GR_ENGINE_ACTIVE",
                "gpu": "0",
                "UUID": "GPU-1",
                **CARD,
                "pod": CHAT["pod"],
                "namespace": "support",
            },
            [(at, 0.6) for at in times_ms],
        ),
        steady("vllm:num_requests_running", 3, times_ms, namespace="support", pod=CHAT["pod"], model_name="llama-70b"),
    ]


def without(made: Sequence[Series], *names: str) -> list[Series]:
    """All but the metrics of these names."""
    return [one for one in made if one.labels["__name__"] not in names]


def without_labels(made: Sequence[Series], name: str, *labels: str) -> list[Series]:
    """A metric's series without some labels."""
    return [
        Series({key: text for key, text in one.labels.items() if key not in labels}, one.times_ms, one.values)
        if one.labels["__name__"].startswith(name)
        else one
        for one in made
    ]


def twice(made: Sequence[Series], name: str) -> list[Series]:
    """A metric told by two replicas of its exporter."""
    copies = [
        Series({**one.labels, "instance": f"192.0.2.{at}:8080"}, one.times_ms, one.values)
        for one in made
        if one.labels["__name__"] == name
        for at in (1, 2)
    ]
    return [*without(made, name), *copies]


def _pod(
    runs_ms: Sequence[int],
    its: dict[str, str],
    kind: str,
    owner: str,
    begin_s: int,
    labels: dict[str, str],
    after: Sequence[int] = (),
) -> list[Series]:
    """A pod that runs, and is listed `after` it succeeded."""
    request = {"container": "main", "node": "node-a", "resource": "nvidia_com_gpu", "unit": "integer"}
    times_ms = [*runs_ms, *after]
    phase = {"__name__": "kube_pod_status_phase", **its}
    return [
        steady("kube_pod_container_resource_requests", 1, times_ms, **its, **request),
        series({**phase, "phase": "Running"}, [(at, float(at in runs_ms)) for at in times_ms]),
        series({**phase, "phase": "Succeeded"}, [(at, float(at not in runs_ms)) for at in times_ms]),
        steady("kube_pod_created", begin_s, times_ms, **its),
        steady("kube_pod_status_scheduled_time", begin_s, times_ms, **its),
        steady("kube_pod_container_state_started", begin_s, times_ms, **its, container="main"),
        steady("kube_pod_owner", 1, times_ms, **its, owner_kind=kind, owner_name=owner),
        steady("kube_pod_labels", 1, times_ms, **its, label_team="red", **labels),
        steady("kube_pod_info", 1, times_ms, **its, node="node-a"),
    ]


def _job(times_ms: Sequence[int], begin_s: int, end_s: int, after: Sequence[int]) -> list[Series]:
    named = {"namespace": "evals", "job_name": "nightly-28841100"}
    return [
        steady("kube_job_created", begin_s, times_ms, **named),
        steady("kube_job_status_completion_time", end_s, after or [times_ms[-1]], **named),
        steady("kube_job_owner", 1, times_ms, **named, owner_kind="CronJob", owner_name="nightly"),
    ]


def _owned(kind: str, its: dict[str, str], owner_kind: str, owner: str) -> dict[str, str]:
    name = its["pod"].rpartition("-")[0]
    return {"namespace": its["namespace"], kind: name, "owner_kind": owner_kind, "owner_name": owner}
