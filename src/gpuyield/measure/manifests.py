"""A probe as a Kubernetes Indexed Job: the objects, and nothing else. No I/O here.

The pods need no rights: their ServiceAccount has no role and they get no token of it. They take what they send from a
ConfigMap, keys from a Secret that is named and never read here, and leave their records in a volume that all share.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any  # Kubernetes objects

from gpuyield.measure.shards import Round
from gpuyield.model.pods import CONTAINER_SECURITY, POD_SECURITY

ROUND_PATH = "/etc/gpuyield/round.json"
CA_PATH = "/etc/gpuyield/ca.pem"
REQUESTS_PATH = "/requests/requests.jsonl"
TRACE_FOLDER = "/trace"
TOKEN_PATH = "/token/token"
RECORDS_PATH = "/records"
_SLACK_S = 120
_KEPT_S = 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a probe runs. `claim` is a PersistentVolumeClaim that every pod may write to; names of others are None."""

    image: str
    namespace: str
    claim: str
    requests_map: str | None = None
    trace_map: str | None = None
    token_secret: str | None = None
    cores: int = 1


def manifests(
    round_: Round, place: Place, data: Mapping[str, str], *, lead_s: int, trace: str | None = None
) -> list[dict[str, Any]]:
    """ServiceAccount, ConfigMap with `data`, Job, and a pod from which the records are copied.

    `trace` is the file of the trace in its ConfigMap.
    """
    name = round_.name
    labels = {"app.kubernetes.io/name": "gpuyield-measure", "gpuyield/round": name}

    def metadata(of: str) -> dict[str, Any]:
        return {"name": of, "namespace": place.namespace, "labels": labels}

    account = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": metadata(name),
        "automountServiceAccountToken": False,
    }
    settings = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata(name), "immutable": True, "data": data}
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata(name),
        "spec": {
            "completionMode": "Indexed",
            "completions": round_.shards,
            "parallelism": round_.shards,
            # What was sent cannot be sent again: a pod that failed makes the probe void.
            "backoffLimit": 0,
            "activeDeadlineSeconds": _longest_s(round_, lead_s),
            "ttlSecondsAfterFinished": _KEPT_S,
            "template": {"metadata": {"labels": labels}, "spec": _sender(round_, place, data, trace)},
        },
    }
    files = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata(f"{name}-files"),
        "spec": _files(round_, place, _longest_s(round_, lead_s) + _KEPT_S),
    }
    return [account, settings, job, files]


def _longest_s(round_: Round, lead_s: int) -> int:
    return lead_s + (round_.plan.sending_ns + round_.plan.drain_ns) // 10**9 + 1 + _SLACK_S


def _sender(round_: Round, place: Place, data: Mapping[str, str], trace: str | None) -> dict[str, Any]:
    args = ["measure", "--shard", ROUND_PATH, "--records", RECORDS_PATH, "--apply", "--quiet", "-o", "json"]
    volumes: list[dict[str, Any]] = [
        {"name": "round", "configMap": {"name": round_.name}},
        {"name": "records", "persistentVolumeClaim": {"claimName": place.claim}},
        {"name": "tmp", "emptyDir": {"sizeLimit": "1Gi"}},
    ]
    mounts: list[dict[str, Any]] = [
        {"name": "round", "mountPath": "/etc/gpuyield", "readOnly": True},
        {"name": "records", "mountPath": RECORDS_PATH},
        {"name": "tmp", "mountPath": "/tmp"},
    ]
    if place.requests_map is not None:
        args += ["--requests", REQUESTS_PATH]
        volumes.append({"name": "requests", "configMap": {"name": place.requests_map}})
        mounts.append({"name": "requests", "mountPath": "/requests", "readOnly": True})
    if place.trace_map is not None and trace is not None:
        args += ["--trace", f"{TRACE_FOLDER}/{trace}"]
        volumes.append({"name": "trace", "configMap": {"name": place.trace_map}})
        mounts.append({"name": "trace", "mountPath": TRACE_FOLDER, "readOnly": True})
    if place.token_secret is not None:
        args += ["--token-file", TOKEN_PATH]
        volumes.append({"name": "token", "secret": {"secretName": place.token_secret, "defaultMode": 0o440}})
        mounts.append({"name": "token", "mountPath": "/token", "readOnly": True})
    if "ca.pem" in data:
        args += ["--ca-file", CA_PATH]
    container = _container(place, "sender", mounts, cpu=str(place.cores), memory=f"{512 * (1 + place.cores)}Mi")
    spread = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {"gpuyield/round": round_.name}},
    }
    return _pod(round_, [container | {"args": args}], volumes) | {
        "terminationGracePeriodSeconds": 10,
        "topologySpreadConstraints": [spread],
    }


def _files(round_: Round, place: Place, seconds: int) -> dict[str, Any]:
    volumes = [{"name": "records", "persistentVolumeClaim": {"claimName": place.claim}}]
    mounts = [{"name": "records", "mountPath": RECORDS_PATH, "readOnly": True}]
    container = _container(place, "files", mounts, cpu="10m", memory="64Mi")
    wait = {"command": ["python3", "-c", f"import time; time.sleep({seconds})"]}
    return _pod(round_, [container | wait], volumes) | {
        "activeDeadlineSeconds": seconds,
        "terminationGracePeriodSeconds": 1,
    }


def _pod(round_: Round, containers: list[dict[str, Any]], volumes: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "serviceAccountName": round_.name,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "restartPolicy": "Never",
        "securityContext": dict(POD_SECURITY),
        "containers": containers,
        "volumes": volumes,
    }


def _container(place: Place, name: str, mounts: list[dict[str, Any]], *, cpu: str, memory: str) -> dict[str, Any]:
    amount = {"cpu": cpu, "memory": memory}
    return {
        "name": name,
        "image": place.image,
        "imagePullPolicy": "IfNotPresent",
        # Requests that are the limits: whole cores, and no neighbour that takes them away.
        "resources": {"requests": amount, "limits": dict(amount)},
        "env": [{"name": "HOME", "value": "/tmp"}],
        "securityContext": dict(CONTAINER_SECURITY),
        "volumeMounts": mounts,
    }
