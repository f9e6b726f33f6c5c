"""What kube-state-metrics says about nodes with devices, pods that ask for them, and the jobs that own these pods.

Pods without devices are never fetched: requests are read first, then the rest for these pods only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np

from gpuyield.collect import names
from gpuyield.collect.fixed import Templates, batches, read_fixed
from gpuyield.collect.names import StateName
from gpuyield.collect.prometheus import Prometheus, RawSeries, one_of
from gpuyield.collect.runs import Observed, RunKey
from gpuyield.ledger.tables import RunKind
from gpuyield.units import Window


@dataclass(slots=True)
class State:
    """Samples of all that becomes runs, and what activity series need to know."""

    observed: list[Observed] = field(default_factory=list)
    nodes: set[str] = field(default_factory=set)
    """Nodes with devices."""
    used: dict[str, set[str]] = field(default_factory=dict)
    """Kind -> names of metrics that had samples."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What to read: from where, which names are there, when, and in which pieces."""

    source: Prometheus
    present: frozenset[str]
    window: Window
    chunk_ms: int | None = None
    threads: int = 2


def read_state(question: Question) -> State:
    """Everything about nodes, pods and jobs with devices in the window.

    Raises:
        SourceError: Out of reach, refusing, or answering nonsense.
    """
    state = State()
    _read_nodes(question, state)
    requests = _read_requests(question, state)
    if requests:
        owners = _read_pods(question, state, requests)
        _read_jobs(question, state, sorted(owners))
    return state


def read_pod_nodes(question: Question, state: State, pods: Sequence[str]) -> None:
    """Add on which nodes pods of these names ran (exporters, whose names stand in for their node's)."""
    name = "kube_pod_info"
    if name not in question.present:
        return
    for batch in batches(pods):
        for label in ("pod", "exported_pod"):
            series = question.source.raw(name, [one_of(label, batch)], question.window, chunk_ms=question.chunk_ms)
            _keep(state, name, _pod_node(series))


def pod_of(labels: Mapping[str, str]) -> tuple[str, str, str]:
    """Namespace, name and uid of the pod that a series of kube-state-metrics speaks of."""
    return _own(labels, "namespace"), _own(labels, "pod"), _own(labels, "uid")


def _own(labels: Mapping[str, str], label: str) -> str:
    """A label that the exporter printed, also where the scrape renamed it because its own has the same name."""
    return labels.get(f"exported_{label}") or labels.get(label, "")


def _read_nodes(question: Question, state: State) -> None:
    renamed = False
    for wanted, series in _raw_of_each(question, names.NODE_DEVICE_NAMES):
        renamed = renamed or any("exported_node" in one.labels for one in series)
        found = list(_node_devices(wanted, series))
        state.nodes.update(one.key.node for one in found)
        _keep(state, wanted.name, found)
    label = "exported_node" if renamed else "node"
    labelled = names.NODE_LABEL_NAME
    if labelled.name in question.present:
        read = question.source.raw
        series = read(labelled.name, ['label_nvidia_com_gpu_count!=""'], question.window, chunk_ms=question.chunk_ms)
        seen = {_own(one.labels, "node") for one in series}
        for batch in batches(sorted(state.nodes - seen)):
            series += read(labelled.name, [one_of(label, batch)], question.window, chunk_ms=question.chunk_ms)
        state.nodes.update(seen)
        _keep(state, labelled.name, _node_labels(series))
    for wanted in names.NODE_STATE_NAMES:
        if wanted.name in question.present:
            for batch in batches(sorted(state.nodes)):
                matchers = (*wanted.matchers, one_of(label, batch))
                series = question.source.raw(wanted.name, matchers, question.window, chunk_ms=question.chunk_ms)
                _keep(state, wanted.name, _node_values(wanted, series))


def _read_requests(question: Question, state: State) -> list[RawSeries]:
    everything: list[RawSeries] = []
    for wanted, series in _raw_of_each(question, names.REQUEST_NAMES):
        everything.extend(series)
        _keep(state, wanted.name, _requests(wanted, series))
    return everything


def _read_pods(question: Question, state: State, requests: list[RawSeries]) -> set[tuple[str, str]]:
    """Adds what is said of the requests' pods; returns the jobs that own them, as (namespace, name)."""
    pods = {pod_of(one.labels) for one in requests}
    uids = sorted({uid for _, _, uid in pods if uid})
    nameless = sorted({f"{space}/{pod}" for space, pod, uid in pods if not uid})
    known = frozenset(uids), frozenset(nameless)
    renamed = any("exported_pod" in one.labels for one in requests)

    def by_uid(labels: Mapping[str, str]) -> str:
        uid = _own(labels, "uid")
        return uid if uid in known[0] else ""

    def by_name(labels: Mapping[str, str]) -> str:
        space, pod, uid = pod_of(labels)
        return f"{space}/{pod}" if not uid and f"{space}/{pod}" in known[1] else ""

    def of_uids(batch: Sequence[str]) -> Sequence[str]:
        return (one_of("uid", batch),)

    def of_names(batch: Sequence[str]) -> Sequence[str]:
        return (one_of("exported_pod" if renamed else "pod", sorted({one.partition("/")[2] for one in batch})),)

    series_of: dict[str, list[RawSeries]] = {}
    wanted = [one for one in names.POD_NAMES if one.name in question.present]
    for objects, matchers, listed in ((by_uid, of_uids, uids), (by_name, of_names, nameless)):
        if listed:
            templates = Templates(requests, objects)
            for name, series in _fixed_of_each(question, wanted, listed, objects, matchers, templates):
                series_of.setdefault(name.name, []).extend(series)
    tops = _replicaset_owners(question, series_of.get("kube_pod_owner", []))
    owners: set[tuple[str, str]] = set()
    for name in wanted:
        series = series_of.get(name.name, [])
        if name.kind is RunKind.POD_OWNER:
            owners.update(_owning_jobs(series))
        _keep(state, name.name, _pod_series(name, series, tops))
    return owners


def _read_jobs(question: Question, state: State, jobs: Sequence[tuple[str, str]]) -> None:
    wanted = [one for one in names.JOB_NAMES if one.name in question.present]
    if not jobs or not wanted:
        return
    known = frozenset(f"{space}/{job}" for space, job in jobs)

    def objects(labels: Mapping[str, str]) -> str:
        found = f"{_own(labels, 'namespace')}/{labels.get('job_name', '')}"
        return found if found in known else ""

    def matchers(batch: Sequence[str]) -> Sequence[str]:
        return (one_of("job_name", sorted({one.partition("/")[2] for one in batch})),)

    listed = sorted(known)
    first, *others = wanted
    series = [
        one
        for batch in batches(listed)
        for one in question.source.raw(
            first.name, (*first.matchers, *matchers(batch)), question.window, chunk_ms=question.chunk_ms
        )
        if objects(one.labels)
    ]
    _keep(state, first.name, _job_series(first, series))
    templates = Templates(series, objects)
    for name, found in _fixed_of_each(question, others, listed, objects, matchers, templates):
        _keep(state, name.name, _job_series(name, found))


def _raw_of_each(question: Question, wanted: Iterable[StateName]) -> Iterator[tuple[StateName, list[RawSeries]]]:
    present = [one for one in wanted if one.name in question.present]

    def read(one: StateName) -> list[RawSeries]:
        return question.source.raw(one.name, one.matchers, question.window, chunk_ms=question.chunk_ms)

    with ThreadPoolExecutor(question.threads) as pool:
        yield from zip(present, pool.map(read, present), strict=True)


def _fixed_of_each(
    question: Question,
    wanted: Sequence[StateName],
    listed: Sequence[str],
    objects: Callable[[Mapping[str, str]], str],
    matchers: Callable[[Sequence[str]], Sequence[str]],
    templates: Templates,
) -> Iterator[tuple[StateName, list[RawSeries]]]:
    def read(one: StateName) -> list[RawSeries]:
        return read_fixed(
            question.source,
            one.name,
            one.matchers,
            listed,
            objects=objects,
            matchers=matchers,
            templates=templates,
            window=question.window,
            chunk_ms=question.chunk_ms,
        )

    with ThreadPoolExecutor(question.threads) as pool:
        yield from zip(wanted, pool.map(read, wanted), strict=True)


def _replicaset_owners(question: Question, owned: Iterable[RawSeries]) -> dict[tuple[str, str], tuple[str, str]]:
    """(namespace, replica set) -> kind and name of what owns it, most often a Deployment."""
    sets = sorted({one.labels.get("owner_name", "") for one in owned if one.labels.get("owner_kind") == "ReplicaSet"})
    tops: dict[tuple[str, str], tuple[str, str]] = {}
    if names.REPLICASET_OWNER not in question.present:
        return tops
    for batch in batches([one for one in sets if one]):
        for one in question.source.raw(
            names.REPLICASET_OWNER, [one_of("replicaset", batch)], question.window, chunk_ms=question.chunk_ms
        ):
            kind, name = one.labels.get("owner_kind", ""), one.labels.get("owner_name", "")
            if kind and kind != "<none>":
                key = (_own(one.labels, "namespace"), one.labels.get("replicaset", ""))
                tops[key] = max(tops.get(key, ("", "")), (kind, name))
    return tops


def _keep(state: State, name: str, observed: Iterable[Observed]) -> None:
    for one in observed:
        state.observed.append(one)
        state.used.setdefault(one.key.kind, set()).add(name)


def _node_devices(wanted: StateName, series: Iterable[RawSeries]) -> Iterator[Observed]:
    for one in series:
        node, resource = _own(one.labels, "node"), wanted.resource or one.labels.get("resource", "")
        if node and resource:
            key = RunKey(wanted.kind, node=node, resource=resource)
            yield Observed(key, wanted.name, one.ts_ms, one.values)


def _node_values(wanted: StateName, series: Iterable[RawSeries]) -> Iterator[Observed]:
    for one in series:
        node = _own(one.labels, "node")
        if node:
            yield Observed(RunKey(wanted.kind, node=node), wanted.name, one.ts_ms, one.values)


def _node_labels(series: Iterable[RawSeries]) -> Iterator[Observed]:
    for one in series:
        node = _own(one.labels, "node")
        for detail, printed in names.NODE_LABEL_DETAILS.items():
            text = next((one.labels[label] for label in printed if one.labels.get(label)), "")
            if node and text:
                key = RunKey(RunKind.NODE_LABEL, node=node, detail=detail, text=text)
                yield Observed(key, names.NODE_LABEL_NAME.name, one.ts_ms, np.ones(len(one.ts_ms)))


def _requests(wanted: StateName, series: Iterable[RawSeries]) -> Iterator[Observed]:
    for one in series:
        space, pod, uid = pod_of(one.labels)
        resource = wanted.resource or one.labels.get("resource", "")
        key = RunKey(
            wanted.kind,
            node=_own(one.labels, "node"),
            namespace=space,
            pod=pod,
            uid=uid,
            container=_own(one.labels, "container"),
            resource=resource,
        )
        if pod and resource:
            yield Observed(key, wanted.name, one.ts_ms, one.values)


def _pod_series(
    wanted: StateName, series: Iterable[RawSeries], tops: Mapping[tuple[str, str], tuple[str, str]]
) -> Iterator[Observed]:
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
            yield from _pod_node(series)
        case _:
            for one in series:
                space, pod, uid = pod_of(one.labels)
                of_container = wanted.kind in (RunKind.CONTAINER_STARTED, RunKind.CONTAINER_TERMINATED)
                container = _own(one.labels, "container") if of_container else ""
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
            key = RunKey(wanted.kind, namespace=space, pod=pod, uid=uid, container=_own(one.labels, "container"))
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


def _owning_jobs(series: Iterable[RawSeries]) -> Iterator[tuple[str, str]]:
    for one in series:
        if one.labels.get("owner_kind") == "Job" and one.labels.get("owner_name"):
            yield _own(one.labels, "namespace"), one.labels["owner_name"]


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


def _pod_node(series: Iterable[RawSeries]) -> Iterator[Observed]:
    for one in series:
        space, pod, uid = pod_of(one.labels)
        node = _own(one.labels, "node")
        if node and pod:
            key = RunKey(RunKind.POD_NODE, node=node, namespace=space, pod=pod, uid=uid)
            yield Observed(key, "kube_pod_info", one.ts_ms, np.ones(len(one.ts_ms)))


def _job_series(wanted: StateName, series: Iterable[RawSeries]) -> Iterator[Observed]:
    for one in series:
        space, job = _own(one.labels, "namespace"), one.labels.get("job_name", "")
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


def _scaled(wanted: StateName, one: RawSeries) -> np.typing.NDArray[np.float64]:
    return one.values if wanted.scale == 1.0 else np.rint(one.values * wanted.scale)
