"""How busy GPUs are by an exporter's own page (dcgm-exporter, AMD's), without a metrics store between. No I/O here."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from gpuyield.collect import names
from gpuyield.collect.activity import Card, Found, Measured, map_cards
from gpuyield.collect.prometheus import RawSeries
from gpuyield.ledger.tables import Activity
from gpuyield.model.exposition import Sample, samples_of

_BY_NAME = {one.name: one for one in names.ACTIVITY_NAMES}
_BEST_FIRST = tuple(Activity)
_PREFIXES = ("DCGM_", "dcgm_", "gpu_", "GPU_")


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuPage:
    """The best activity that a page has: `busy` by card (or MIG instance) as a ratio, and the metric's name.

    `models` are those of the cards, "" where the exporter does not tell. `mark` is another one as soon as the exporter
    says anything new.
    """

    metric: str
    busy: dict[str, float]
    mark: str
    models: dict[str, str] = field(default_factory=dict)


def read_gpu_page(page: str, *, namespace: str | None = None) -> GpuPage | None:
    """The cards of a page that this namespace holds (None: all of them); None where it names none."""
    samples = samples_of(page, prefixes=_PREFIXES)
    mark = hashlib.sha256(" ".join(one.text for one in samples).encode()).hexdigest()
    measured = map_cards(
        [_found(one) for one in samples if one.name in _BY_NAME], nodes=(), node_of_pod={}, source="exporter"
    )
    for activity in _BEST_FIRST:
        chosen = held(measured, activity, namespace)
        if chosen:
            busy = busy_of((one.card, float(one.values[0])) for one in chosen)
            models = models_of(one.card for one in chosen)
            return GpuPage(metric=chosen[0].card.name, busy=busy, mark=mark, models=models)
    return None


def held(measured: Iterable[Measured], activity: Activity, namespace: str | None) -> list[Measured]:
    """What is measured of an activity, of the cards that a namespace holds; of a divided card only its parts."""
    found = [
        one
        for one in measured
        if one.card.metric == activity and (namespace is None or (one.card.pod and one.card.namespace == namespace))
    ]
    divided = {one.card.card for one in found if one.card.instance}
    return [one for one in found if one.card.instance or one.card.card not in divided]


def _found(sample: Sample) -> Found:
    return Found(
        _BY_NAME[sample.name],
        RawSeries(dict(sample.labels), np.zeros(1, dtype=np.int64), np.array([sample.value])),
    )


def models_of(cards: Iterable[Card]) -> dict[str, str]:
    """The model of each card or MIG instance."""
    return {name_of(card): " ".join(filter(None, (card.model, card.profile))) for card in cards}


def name_of(card: Card) -> str:
    """A card, or its MIG instance."""
    return "/".join(filter(None, (card.card, card.instance)))


def busy_of(values_of: Iterable[tuple[Card, float]]) -> dict[str, float]:
    """Each card, or MIG instance, once. Of several pods on it, equal values are copies of the card's, others shares."""
    values: dict[str, list[float]] = defaultdict(list)
    for card, value in values_of:
        if not np.isnan(value):
            values[name_of(card)].append(value)
    return {card: many[0] if len(set(many)) == 1 else min(1.0, sum(many)) for card, many in values.items()}
