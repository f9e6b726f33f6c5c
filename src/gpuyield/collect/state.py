"""What kube-state-metrics says about nodes with devices, pods that ask for them, and the jobs that own these pods.

Pods without devices are never fetched: requests are read first, then the rest for these pods only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from gpuyield.collect import names
from gpuyield.collect.facts import (
    job_series,
    node_devices,
    node_labels,
    node_values,
    own_label,
    owning_jobs,
    pod_nodes,
    pod_of,
    pod_series,
    requests_of,
)
from gpuyield.collect.fixed import Templates, batches, read_fixed
from gpuyield.collect.names import StateName
from gpuyield.collect.prometheus import Prometheus, RawSeries, one_of
from gpuyield.collect.runs import Observed
from gpuyield.ledger.tables import RunKind
from gpuyield.units import Window

Instants = npt.NDArray[np.int64]

Scrapes = dict[str, Instants]
"""Moments at which a target (its `instance`) answered, in order."""


@dataclass(slots=True)
class State:
    """Samples of all that becomes runs, and what activity series need to know."""

    observed: list[Observed] = field(default_factory=list)
    nodes: set[str] = field(default_factory=set)
    """Nodes with devices."""
    used: dict[str, set[str]] = field(default_factory=dict)
    """Kind -> names of metrics that had samples."""
    scrapes: Scrapes = field(default_factory=dict)
    """When each target answered that tells of nodes or of requests."""


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
            _keep(state, name, pod_nodes(series))


def _read_nodes(question: Question, state: State) -> None:
    renamed = False
    for wanted, series in _raw_of_each(question, names.NODE_DEVICE_NAMES):
        renamed = renamed or any("exported_node" in one.labels for one in series)
        found = list(node_devices(wanted, series))
        _note_scrapes(state, series)
        state.nodes.update(one.key.node for one in found)
        _keep(state, wanted.name, found)
    label = "exported_node" if renamed else "node"
    labelled = names.NODE_LABEL_NAME
    if labelled.name in question.present:
        read = question.source.raw
        series = read(labelled.name, ['label_nvidia_com_gpu_count!=""'], question.window, chunk_ms=question.chunk_ms)
        seen = {own_label(one.labels, "node") for one in series}
        for batch in batches(sorted(state.nodes - seen)):
            series += read(labelled.name, [one_of(label, batch)], question.window, chunk_ms=question.chunk_ms)
        state.nodes.update(seen)
        _keep(state, labelled.name, node_labels(series))
    for wanted in names.NODE_STATE_NAMES:
        if wanted.name in question.present:
            for batch in batches(sorted(state.nodes)):
                matchers = (*wanted.matchers, one_of(label, batch))
                series = question.source.raw(wanted.name, matchers, question.window, chunk_ms=question.chunk_ms)
                _keep(state, wanted.name, node_values(wanted, series))


def _read_requests(question: Question, state: State) -> list[RawSeries]:
    everything: list[RawSeries] = []
    for wanted, series in _raw_of_each(question, names.REQUEST_NAMES):
        everything.extend(series)
        _note_scrapes(state, series)
        _keep(state, wanted.name, requests_of(wanted, series))
    return everything


def _read_pods(question: Question, state: State, requests: list[RawSeries]) -> set[tuple[str, str]]:
    """Adds what is said of the requests' pods; returns the jobs that own them, as (namespace, name)."""
    pods = {pod_of(one.labels) for one in requests}
    uids = sorted({uid for _, _, uid in pods if uid})
    nameless = sorted({f"{space}/{pod}" for space, pod, uid in pods if not uid})
    known = frozenset(uids), frozenset(nameless)
    renamed = any("exported_pod" in one.labels for one in requests)

    def by_uid(labels: Mapping[str, str]) -> str:
        uid = own_label(labels, "uid")
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
            owners.update(owning_jobs(series))
        _keep(state, name.name, pod_series(name, series, tops))
    return owners


def _read_jobs(question: Question, state: State, jobs: Sequence[tuple[str, str]]) -> None:
    wanted = [one for one in names.JOB_NAMES if one.name in question.present]
    if not jobs or not wanted:
        return
    known = frozenset(f"{space}/{job}" for space, job in jobs)

    def objects(labels: Mapping[str, str]) -> str:
        found = f"{own_label(labels, 'namespace')}/{labels.get('job_name', '')}"
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
    _keep(state, first.name, job_series(first, series))
    templates = Templates(series, objects)
    for name, found in _fixed_of_each(question, others, listed, objects, matchers, templates):
        _keep(state, name.name, job_series(name, found))


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
                key = (own_label(one.labels, "namespace"), one.labels.get("replicaset", ""))
                tops[key] = max(tops.get(key, ("", "")), (kind, name))
    return tops


def _note_scrapes(state: State, series: Iterable[RawSeries]) -> None:
    by_target: dict[str, list[Instants]] = {}
    for one in series:
        by_target.setdefault(one.labels.get("instance", ""), []).append(one.ts_ms)
    for target, parts in by_target.items():
        known = state.scrapes.get(target)
        state.scrapes[target] = np.unique(np.concatenate(parts if known is None else [*parts, known]))


def _keep(state: State, name: str, observed: Iterable[Observed]) -> None:
    for one in observed:
        state.observed.append(one)
        state.used.setdefault(one.key.kind, set()).add(name)
