"""Small objects of Kueue and Kubernetes as an API server sends them, and the snapshot that they make."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any  # Objects of the API server are JSON.

from gpuyield.collect.kueue.reading import Objects
from gpuyield.collect.kueue.snapshot import snapshot
from gpuyield.decide.live.jobs import LiveTerms
from gpuyield.decide.live.problem import LiveProblem, live_problem
from gpuyield.model.declaration import Declaration
from gpuyield.model.kueue import ClusterSnapshot
from gpuyield.units import format_instant, parse_instant

NOW = parse_instant("2026-12-01T00:00:00Z")
GPU = "nvidia.com/gpu"

Object = dict[str, Any]


def flavor(name: str, **labels: str) -> Object:
    """A ResourceFlavor of nodes with these labels."""
    return {"metadata": {"name": name}, "spec": {"nodeLabels": labels}}


def queue(name: str, quotas: Mapping[str, Mapping[str, int]], **spec: object) -> Object:
    """A ClusterQueue; `quotas` are nominalQuota, borrowingLimit and lendingLimit by flavor."""
    flavors = [
        {"name": one, "resources": [{"name": GPU, **{key: str(amount) for key, amount in its.items()}}]}
        for one, its in quotas.items()
    ]
    return {
        "metadata": {"name": name},
        "spec": {"resourceGroups": [{"coveredResources": [GPU], "flavors": flavors}], **spec},
        "status": {"conditions": [{"type": "Active", "status": "True"}]},
    }


def local_queue(name: str, cluster_queue: str, namespace: str = "evals") -> Object:
    """A LocalQueue."""
    return {"metadata": {"name": name, "namespace": namespace}, "spec": {"clusterQueue": cluster_queue}}


def node(name: str, gpus: int, *, ready: bool = True, **labels: str) -> Object:
    """A node."""
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {},
        "status": {
            "allocatable": {GPU: str(gpus), "cpu": "64"},
            "conditions": [{"type": "Ready", "status": "True" if ready else "False", "reason": "KubeletNotReady"}],
        },
    }


def pod(name: str, on: str, gpus: int, *, through_kueue: bool = True) -> Object:
    """A pod on a node."""
    labels = {"kueue.x-k8s.io/podset": "main"} if through_kueue else {}
    return {
        "metadata": {"name": name, "namespace": "evals", "labels": labels},
        "spec": {"nodeName": on, **_spec(gpus)},
        "status": {"phase": "Running"},
    }


def job(name: str, *, namespace: str = "evals", created: str = "2026-11-30T23:00:00Z", **annotations: str) -> Object:
    """The Job behind a Workload, with our annotations (`expected_duration="2h"`)."""
    written = {f"gpuyield.dev/{key.replace('_', '-')}": text for key, text in annotations.items()}
    meta = {"name": name, "namespace": namespace, "uid": f"uid-{name}", "creationTimestamp": created}
    return {"metadata": {**meta, "annotations": written}}


def workload(
    name: str,
    gpus: int,
    *,
    pods: int = 1,
    queue: str = "main",
    on: str = "",
    cluster_queue: str = "batch",
    admitted: str = "2026-11-30T23:30:00Z",
    finished: str = "",
    namespace: str = "evals",
    kind: str = "Job",
    selector: Mapping[str, str] | None = None,
    **spec: object,
) -> Object:
    """The Workload of a job of `pods` with `gpus` each; `on` is the flavor that it was admitted to ("": it waits)."""
    template = {"metadata": {}, "spec": {**_spec(gpus), "nodeSelector": dict(selector or {})}}
    conditions = [{"type": "QuotaReserved", "status": "False", "reason": "Pending", "message": "no room"}]
    status: Object = {}
    if on:
        conditions = [
            {"type": "QuotaReserved", "status": "True", "lastTransitionTime": admitted},
            {"type": "Admitted", "status": "True", "lastTransitionTime": admitted},
        ]
        assigned = {"name": "main", "flavors": {GPU: on}, "resourceUsage": {GPU: str(gpus * pods)}, "count": pods}
        status["admission"] = {"clusterQueue": cluster_queue, "podSetAssignments": [assigned]}
    if finished:
        conditions.append({"type": "Finished", "status": "True", "reason": "Succeeded", "lastTransitionTime": finished})
    return {
        "metadata": {
            "name": f"job-{name}",
            "namespace": namespace,
            "uid": f"workload-{name}",
            "creationTimestamp": "2026-11-30T23:00:00Z",
            "ownerReferences": [{"kind": kind, "name": name, "uid": f"uid-{name}", "controller": True}],
        },
        "spec": {"queueName": queue, "podSets": [{"name": "main", "count": pods, "template": template}], **spec},
        "status": {**status, "conditions": conditions},
    }


def seen(
    at_ms: int = NOW, api_version: str = "v1beta2", without: Sequence[str] = (), **lists: Sequence[Object]
) -> ClusterSnapshot:
    """The snapshot of these objects by plural; kinds that are not named have none, those of `without` were not read."""
    everything: dict[str, list[Object]] = {
        one: []
        for one in ("resourceflavors", "clusterqueues", "localqueues", "workloads", "cohorts", "jobs", "nodes", "pods")
    }
    everything.update({name: list(objects) for name, objects in lists.items()})
    read = {name: objects for name, objects in everything.items() if name not in without}
    return snapshot(Objects(api_version=api_version, lists=read), at_ms=at_ms)


def problem(of: ClusterSnapshot, declaration: Declaration | None = None) -> LiveProblem:
    """Its planning problem, without any history of runs."""
    terms = LiveTerms(declaration=declaration or Declaration(), history=lambda family: None, stem=lambda name: name)
    return live_problem(of, terms)


def clock(at_ms: int | None) -> str:
    """A time as people read it."""
    return "" if at_ms is None else format_instant(at_ms)


def _spec(gpus: int) -> Object:
    return {"containers": [{"name": "main", "resources": {"limits": {GPU: str(gpus)}}}]}
