"""How busy devices were: exporters' series, mapped to cards, nodes and workloads.

An activity that cannot be true becomes NaN, never 0 and never 1. An exporter's own pod is never a workload, and
its name never a node.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gpuyield.collect import names
from gpuyield.collect.names import ActivityName
from gpuyield.collect.prometheus import RawSeries, in_order
from gpuyield.collect.state import Question


class Card(NamedTuple):
    """What identifies a series of the ledger, in the order of its columns."""

    metric: str
    name: str
    card: str
    instance: str
    profile: str
    slot: str
    node: str
    namespace: str
    pod: str
    uid: str
    container: str
    vgpu: str
    model: str
    source: str

    def number(self) -> int:
        """A stable 63-bit hash."""
        digest = hashlib.sha256("\x1f".join(self).encode()).digest()
        return int.from_bytes(digest[:8], "big") >> 1

    def place(self) -> tuple[str, str, str]:
        """What is measured: which activity of which card or instance."""
        return self.metric, self.card, self.instance


@dataclass(frozen=True, slots=True)
class Measured:
    """Samples of a card's series; values are ratios 0..1, NaN where they cannot be true."""

    card: Card
    ts_ms: npt.NDArray[np.int64]
    values: npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Found:
    """A series as it was read, with the name it was read by."""

    name: ActivityName
    raw: RawSeries


def read_activity(question: Question) -> list[Found]:
    """All activity series of the window, best activity first.

    Raises:
        SourceError: Out of reach, refusing, or answering nonsense.
    """
    wanted = [one for one in names.ACTIVITY_NAMES if one.name in question.present]

    def read(one: ActivityName) -> list[RawSeries]:
        return question.source.raw(one.name, (), question.window, chunk_ms=question.chunk_ms)

    with ThreadPoolExecutor(question.threads) as pool:
        series = list(pool.map(read, wanted))
    return [Found(one, raw) for one, many in zip(wanted, series, strict=True) for raw in many]


def hosts_that_are_no_nodes(found: Iterable[Found], nodes: Collection[str]) -> list[str]:
    """Host names that exporters print and that are no known node: perhaps their own pods."""
    hosts = {_first(one.raw.labels, names.HOST_LABELS) for one in found if not _scraped_node(one.raw.labels)}
    return sorted(host for host in hosts if host and not _node_called(host, nodes))


def map_cards(
    found: Sequence[Found], *, nodes: Collection[str], node_of_pod: Mapping[str, str], source: str
) -> list[Measured]:
    """Series by card, in the order of their identity; the same series read twice is one."""
    renaming = {target_of(one.raw.labels) for one in found if one.raw.labels.get("exported_pod")}
    gathered: dict[Card, list[tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]]] = {}
    for one in found:
        card = _card(one, nodes, node_of_pod, renaming, source)
        if card is not None:
            gathered.setdefault(card, []).append((one.raw.ts_ms, ratios(one.raw.values, one.name.full)))
    merged = [Measured(card, *_together(parts)) for card, parts in sorted(gathered.items())]
    return _best_name_only(merged)


def ratios(values: npt.NDArray[np.float64], full: float) -> npt.NDArray[np.float64]:
    """Values as ratios; NaN for those outside 0..1, such as an exporter's words for "no value"."""
    with np.errstate(invalid="ignore"):
        shares = values / full
        return np.where((shares >= 0) & (shares <= 1), shares, np.nan)


def _card(
    one: Found,
    nodes: Collection[str],
    node_of_pod: Mapping[str, str],
    renaming: Collection[tuple[str, str]],
    source: str,
) -> Card | None:
    labels = one.raw.labels
    node = _node(labels, nodes, node_of_pod)
    slot = _first(labels, names.SLOT_LABELS)
    by_place = f"{node}/{slot}" if node and slot and not one.name.preview else ""
    card = _first(labels, names.CARD_LABELS) or by_place
    if not card:
        return None
    pod, namespace, container = _workload(labels, is_renaming=target_of(labels) in renaming)
    return Card(
        metric=one.name.activity,
        name=one.name.name,
        card=card,
        instance=_first(labels, names.INSTANCE_LABELS),
        profile=_first(labels, names.PROFILE_LABELS),
        slot=slot,
        node=node,
        namespace=namespace,
        pod=pod,
        uid=_first(labels, names.UID_LABELS) if pod else "",
        container=container,
        vgpu=_first(labels, names.VGPU_LABELS),
        model=_first(labels, names.MODEL_LABELS),
        source=source,
    )


def _workload(labels: Mapping[str, str], *, is_renaming: bool) -> tuple[str, str, str]:
    """Pod, namespace and container of who holds the card; empty where only the exporter itself is named."""
    for pod_label, space_label, container_label in names.WORKLOAD_DIALECTS:
        pod = labels.get(pod_label, "")
        if not pod:
            continue
        is_targets_own = pod_label in ("pod", "k8s_pod_name") and (
            is_renaming or _is_exporter(pod, labels.get(container_label, ""), labels)
        )
        if is_targets_own:
            return "", "", ""
        return pod, labels.get(space_label) or labels.get("namespace", ""), labels.get(container_label, "")
    return "", "", ""


def _is_exporter(pod: str, container: str, labels: Mapping[str, str]) -> bool:
    return (
        pod == _first(labels, names.HOST_LABELS)
        or container in names.EXPORTER_CONTAINERS
        or any(mark in pod for mark in names.EXPORTER_POD_MARKS)
    )


def _node(labels: Mapping[str, str], nodes: Collection[str], node_of_pod: Mapping[str, str]) -> str:
    scraped = _scraped_node(labels)
    if scraped:
        return scraped
    host = _first(labels, names.HOST_LABELS)
    if not host:
        return node_of_pod.get(labels.get("pod", ""), "")
    called = _node_called(host, nodes)
    if called:
        return called
    if host in node_of_pod:
        return node_of_pod[host]
    is_pod = host == labels.get("pod") or any(mark in host for mark in names.EXPORTER_POD_MARKS)
    return "" if nodes or is_pod else host


def _scraped_node(labels: Mapping[str, str]) -> str:
    return _first(labels, names.NODE_NAME_LABELS)


def _node_called(host: str, nodes: Collection[str]) -> str:
    """The node of this host name; short and full spellings are the same where only one node fits."""
    if host in nodes:
        return host
    short = host.partition(".")[0]
    fitting = [one for one in nodes if one.partition(".")[0] == short and ("." in one) != ("." in host)]
    return fitting[0] if len(fitting) == 1 else ""


def _best_name_only(measured: list[Measured]) -> list[Measured]:
    """Where an exporter prints one activity under two names, the better one's samples count."""
    rank = {one.name: at for at, one in enumerate(names.ACTIVITY_NAMES)}
    by_place: dict[tuple[str, str, str], dict[str, list[Measured]]] = {}
    for one in measured:
        by_place.setdefault(one.card.place(), {}).setdefault(one.card.name, []).append(one)
    kept: list[Measured] = []
    for by_name in by_place.values():
        taken = np.zeros(0, dtype=np.int64)
        for name in sorted(by_name, key=rank.__getitem__):
            for one in by_name[name]:
                if len(taken):
                    free = ~np.isin(one.ts_ms, taken)
                    one = Measured(one.card, one.ts_ms[free], one.values[free])
                if len(one.ts_ms):
                    kept.append(one)
            if len(by_name) > 1:
                taken = np.concatenate([taken, *(one.ts_ms for one in by_name[name])])
    return sorted(kept, key=lambda one: one.card)


def _together(
    parts: list[tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    if len(parts) == 1:
        return parts[0]
    return in_order(np.concatenate([ts_ms for ts_ms, _ in parts]), np.concatenate([values for _, values in parts]))


def _first(labels: Mapping[str, str], wanted: Sequence[str]) -> str:
    return next((labels[label] for label in wanted if labels.get(label)), "")


def target_of(labels: Mapping[str, str]) -> tuple[str, str]:
    """Whose page a series was read of, as the store names it: its job and its instance."""
    return labels.get("job", ""), labels.get("instance", "")
