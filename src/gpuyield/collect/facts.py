"""Series of kube-state-metrics as samples of what they say, under one name whatever the exporter calls it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import numpy.typing as npt

from gpuyield.collect import names
from gpuyield.collect.names import StateName
from gpuyield.collect.prometheus import RawSeries
from gpuyield.collect.runs import Observed, RunKey
from gpuyield.ledger.tables import RunKind


def pod_of(labels: Mapping[str, str]) -> tuple[str, str, str]:
    """Namespace, name and uid of the pod that a series of kube-state-metrics speaks of."""
    return own_label(labels, "namespace"), own_label(labels, "pod"), own_label(labels, "uid")


def own_label(labels: Mapping[str, str], label: str) -> str:
    """A label that the exporter printed, also where the scrape renamed it because its own has the same name."""
    return labels.get(f"exported_{label}") or labels.get(label, "")


def node_devices(wanted: StateName, series: Iterable[RawSeries]) -> Iterator[Observed]:
    """Devices of each resource that nodes have or offer."""
    for one in series:
        node, resource = own_label(one.labels, "node"), wanted.resource or one.labels.get("resource", "")
        if node and resource:
            key = RunKey(wanted.kind, node=node, resource=resource)
            yield Observed(key, wanted.name, one.ts_ms, one.values)


def node_values(wanted: StateName, series: Iterable[RawSeries]) -> Iterator[Observed]:
    """A number about each node."""
    for one in series:
        node = own_label(one.labels, "node")
        if node:
            yield Observed(RunKey(wanted.kind, node=node), wanted.name, one.ts_ms, one.values)


def node_labels(series: Iterable[RawSeries]) -> Iterator[Observed]:
    """Labels of nodes that say what their devices are."""
    for one in series:
        node = own_label(one.labels, "node")
        for detail, printed in names.NODE_LABEL_DETAILS.items():
            text = next((one.labels[label] for label in printed if one.labels.get(label)), "")
            if node and text:
                key = RunKey(RunKind.NODE_LABEL, node=node, detail=detail, text=text)
                yield Observed(key, names.NODE_LABEL_NAME.name, one.ts_ms, np.ones(len(one.ts_ms)))


def requests_of(wanted: StateName, series: Iterable[RawSeries]) -> Iterator[Observed]:
    """Devices that containers of pods ask for."""
    for one in series:
        space, pod, uid = pod_of(one.labels)
        resource = wanted.resource or one.labels.get("resource", "")
        key = RunKey(
            wanted.kind,
            node=own_label(one.labels, "node"),
            namespace=space,
            pod=pod,
            uid=uid,
            container=own_label(one.labels, "container"),
            resource=resource,
        )
        if pod and resource:
            yield Observed(key, wanted.name, one.ts_ms, one.values)


def pod_series(
    wanted: StateName, series: Iterable[RawSeries], tops: Mapping[tuple[str, str], tuple[str, str]]
) -> Iterator[Observed]:
    """What a metric says of pods; `tops` are the owners above replica sets."""
    match wanted.kind:
        case RunKind.POD_PHASE:
            yield from _phases(wanted, series)
        case RunKind.POD_SIDECAR:
            yield from _sidecars(wanted, series)
        case RunKind.POD_OWNER:
            yield from _owners(wanted, series, tops)
        case RunKind.POD_LABEL:
            for one in series:
                space, pod, uid = pod_of(one.labels)
                yield from _labels(wanted, one, RunKey(wanted.kind, namespace=space, pod=pod, uid=uid))
        case RunKind.POD_NODE:
            yield from pod_nodes(series)
        case _:
            for one in series:
                space, pod, uid = pod_of(one.labels)
                of_container = wanted.kind in (RunKind.CONTAINER_STARTED, RunKind.CONTAINER_TERMINATED)
                container = own_label(one.labels, "container") if of_container else ""
                key = RunKey(wanted.kind, namespace=space, pod=pod, uid=uid, container=container)
                yield Observed(key, wanted.name, one.ts_ms, _scaled(wanted, one))


def _phases(wanted: StateName, series: Iterable[RawSeries]) -> Iterator[Observed]:
    """Phases a pod was never in that day are left out."""
    by_key: dict[RunKey, list[RawSeries]] = {}
    for one in series:
        space, pod, uid = pod_of(one.labels)
        key = RunKey(wanted.kind, namespace=space, pod=pod, uid=uid, detail=one.labels.get("phase", ""))
        by_key.setdefault(key, []).append(one)
    for key, parts in by_key.items():
        if any(bool((one.values == 1).any()) for one in parts):
            for one in parts:
                yield Observed(key, wanted.name, one.ts_ms, one.values)


def _sidecars(wanted: StateName, series: Iterable[RawSeries]) -> Iterator[Observed]:
    for one in series:
        policy = one.labels.get("restart_policy")
        if policy is not None:
            space, pod, uid = pod_of(one.labels)
            key = RunKey(wanted.kind, namespace=space, pod=pod, uid=uid, container=own_label(one.labels, "container"))
            yield Observed(key, wanted.name, one.ts_ms, np.full(len(one.ts_ms), float(policy == "Always")))


def _owners(
    wanted: StateName, series: Iterable[RawSeries], tops: Mapping[tuple[str, str], tuple[str, str]]
) -> Iterator[Observed]:
    for one in series:
        kind, name = one.labels.get("owner_kind", ""), one.labels.get("owner_name", "")
        if kind in ("", "<none>") or one.labels.get("owner_is_controller") == "false":
            continue
        space, pod, uid = pod_of(one.labels)
        if kind == "ReplicaSet":
            kind, name = tops.get((space, name), (kind, name))
        key = RunKey(wanted.kind, namespace=space, pod=pod, uid=uid, detail=kind, text=name)
        yield Observed(key, wanted.name, one.ts_ms, np.ones(len(one.ts_ms)))


def owning_jobs(series: Iterable[RawSeries]) -> Iterator[tuple[str, str]]:
    """Jobs that own pods, as (namespace, name)."""
    for one in series:
        if one.labels.get("owner_kind") == "Job" and one.labels.get("owner_name"):
            yield own_label(one.labels, "namespace"), one.labels["owner_name"]


def _labels(wanted: StateName, one: RawSeries, key: RunKey) -> Iterator[Observed]:
    for printed, text in one.labels.items():
        prefix, _, rest = printed.partition("_")
        of_pod_annotation = prefix == "annotation" and wanted.kind is RunKind.POD_LABEL
        if prefix not in ("label", "annotation") or not rest or not text:
            continue
        if of_pod_annotation and not rest.startswith("gpuyield_dev_"):
            continue
        detail = names.KUBERNETES_LABELS.get(rest, rest)
        yield Observed(key._replace(detail=detail, text=text), wanted.name, one.ts_ms, np.ones(len(one.ts_ms)))


def pod_nodes(series: Iterable[RawSeries]) -> Iterator[Observed]:
    """Nodes that pods run on."""
    for one in series:
        space, pod, uid = pod_of(one.labels)
        node = own_label(one.labels, "node")
        if node and pod:
            key = RunKey(RunKind.POD_NODE, node=node, namespace=space, pod=pod, uid=uid)
            yield Observed(key, "kube_pod_info", one.ts_ms, np.ones(len(one.ts_ms)))


def job_series(wanted: StateName, series: Iterable[RawSeries]) -> Iterator[Observed]:
    """What a metric says of jobs."""
    for one in series:
        space, job = own_label(one.labels, "namespace"), one.labels.get("job_name", "")
        key = RunKey(wanted.kind, namespace=space, pod=job)
        match wanted.kind:
            case RunKind.JOB_LABEL:
                yield from _labels(wanted, one, key)
            case RunKind.JOB_OWNER:
                kind, name = one.labels.get("owner_kind", ""), one.labels.get("owner_name", "")
                if kind not in ("", "<none>"):
                    key = key._replace(detail=kind, text=name)
                    yield Observed(key, wanted.name, one.ts_ms, np.ones(len(one.ts_ms)))
            case RunKind.JOB_FAILED if wanted.matchers:
                yield Observed(key._replace(detail="condition"), wanted.name, one.ts_ms, one.values)
            case _:
                yield Observed(key, wanted.name, one.ts_ms, _scaled(wanted, one))


def _scaled(wanted: StateName, one: RawSeries) -> npt.NDArray[np.float64]:
    return one.values if wanted.scale == 1.0 else np.rint(one.values * wanted.scale)
