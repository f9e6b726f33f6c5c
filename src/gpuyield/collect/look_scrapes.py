"""How a metrics store is filled: how far samples are apart, and whether one thing is scraped more than once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from gpuyield.collect import names
from gpuyield.collect.prometheus import RawSeries

KSM = "kube-state-metrics"
DEVICES = "GPU exporter"

_NODE_LABELS = ("exported_node", "node", "resource")
_HOLDER_LABELS = tuple(pod for pod, _, _ in names.WORKLOAD_DIALECTS if pod != "pod")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scrapes:
    """What one exporter gives: the usual distance of samples, and how many series tell of the same thing."""

    exporter: str
    metric: str
    interval_ms: int | None
    """None where no series has two samples."""
    copies: int
    """1 where everything is told once."""


def scrapes_of_nodes(metric: str, series: Sequence[RawSeries]) -> Scrapes:
    """Of a metric that tells each resource of each node once."""
    return _scrapes(KSM, metric, series, (_values(one, _NODE_LABELS) for one in series))


def scrapes_of_cards(metric: str, series: Sequence[RawSeries]) -> Scrapes:
    """Of a metric that tells each card (or slice of it) once for each pod that holds it."""
    told = (_first(one, names.CARD_LABELS) for one in series)
    rest = (_values(one, (*names.INSTANCE_LABELS, *_HOLDER_LABELS, *_own_pod(one))) for one in series)
    return _scrapes(DEVICES, metric, series, ((card, *more) for card, more in zip(told, rest, strict=True) if card))


def _scrapes(exporter: str, metric: str, series: Sequence[RawSeries], things: Iterable[tuple[str, ...]]) -> Scrapes:
    steps = [np.diff(one.ts_ms) for one in series if len(one.ts_ms) > 1]
    return Scrapes(
        exporter=exporter,
        metric=metric,
        interval_ms=int(np.median(np.concatenate(steps))) if steps else None,
        copies=max(Counter(things).values(), default=1),
    )


def _own_pod(one: RawSeries) -> tuple[str, ...]:
    """The label `pod`, where it names the holder and not the exporter."""
    pod = one.labels.get("pod", "")
    return () if any(mark in pod for mark in names.EXPORTER_POD_MARKS) else ("pod",)


def _first(one: RawSeries, labels: Iterable[str]) -> str:
    return next((text for label in labels if (text := one.labels.get(label, ""))), "")


def _values(one: RawSeries, labels: Iterable[str]) -> tuple[str, ...]:
    return tuple(one.labels.get(label, "") for label in labels)
