"""How busy GPUs were by what a metrics store scraped of their exporters, scrape by scrape."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from gpuyield.collect import names
from gpuyield.collect.activity import Found, Measured, map_cards, read_activity, target_of
from gpuyield.collect.gpu_page import busy_of, held, models_of
from gpuyield.collect.prometheus import Prometheus, RawSeries
from gpuyield.collect.state import Question
from gpuyield.ledger.tables import Activity
from gpuyield.units import Window

_MOVING = ("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "DCGM_FI_DEV_POWER_USAGE")
"""They say of a GPU that is always as busy that its exporter has read it again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuScrape:
    """What one exporter said at one scrape: `busy` by card (or MIG instance) as a ratio, and `models` of the cards.

    `mark` is another one as soon as that exporter says anything new.
    """

    at_ms: int
    exporter: str
    metric: str
    busy: Mapping[str, float]
    mark: str
    models: Mapping[str, str] = field(default_factory=dict)


def read_gpu_scrapes(source: Prometheus, window: Window, *, namespace: str) -> list[GpuScrape]:
    """The scrapes of a window, in the order of time, of the cards that a namespace holds: their best activity.

    Raises:
        SourceError: Out of reach, refusing, or answering nonsense.
    """
    wanted = [one.name for one in names.ACTIVITY_NAMES]
    present = source.names([*wanted, *_MOVING], window)
    found = read_activity(Question(source=source, present=frozenset(present), window=window))
    moving = [raw for name in _MOVING if name in present for raw in source.raw(name, (), window)]
    by_exporter: dict[tuple[str, str], list[Found]] = defaultdict(list)
    series: dict[tuple[str, str], list[RawSeries]] = defaultdict(list)
    for one in found:
        by_exporter[target_of(one.raw.labels)].append(one)
        series[target_of(one.raw.labels)].append(one.raw)
    for raw in moving:
        series[target_of(raw.labels)].append(raw)
    measured = {
        target: map_cards(of, nodes=(), node_of_pod={}, source="exporter") for target, of in by_exporter.items()
    }
    for activity in Activity:
        chosen = {target: held(of, activity, namespace) for target, of in measured.items()}
        if any(chosen.values()):
            scrapes = [
                scrape for target, of in chosen.items() for scrape in _scrapes("/".join(target), of, series[target])
            ]
            return sorted(scrapes, key=lambda one: (one.at_ms, one.exporter))
    return []


def _scrapes(exporter: str, chosen: Sequence[Measured], series: Sequence[RawSeries]) -> list[GpuScrape]:
    moved_ms = _moved(series)
    at: dict[int, list[tuple[Measured, float]]] = defaultdict(list)
    for one in chosen:
        for ts_ms, value in zip(one.ts_ms.tolist(), one.values.tolist(), strict=True):
            at[ts_ms].append((one, value))
    return [
        GpuScrape(
            at_ms=ts_ms,
            exporter=exporter,
            metric=values[0][0].card.name,
            busy=busy_of((one.card, value) for one, value in values),
            mark=str(int(np.searchsorted(moved_ms, ts_ms, side="right"))),
            models=models_of(one.card for one, _ in values),
        )
        for ts_ms, values in at.items()
    ]


def _moved(series: Sequence[RawSeries]) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """When any of an exporter's series had another value than at the scrape before."""
    changed = [one.ts_ms[1:][np.diff(one.values) != 0] for one in series if len(one.ts_ms) > 1]
    return np.unique(np.concatenate(changed)) if changed else np.zeros(0, dtype=np.int64)
