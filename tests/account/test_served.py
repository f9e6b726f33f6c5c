"""Headroom of a service: certified rate of the replicas there are less the peak, or the reason why it is not known."""

from __future__ import annotations

import math
from dataclasses import replace
from decimal import Decimal

import pytest

from gpuyield.account.served import BIN_MS, REQUESTS, ServingRow, demand_of, headroom, kept_of, to_spare
from gpuyield.model.declaration import Metric, Objective
from gpuyield.model.service_capacity import Provenance, ServiceCapacity
from gpuyield.model.services import Demand, ServiceState
from gpuyield.units import HOUR_MS, Window

_NOW_MS = 1_000_000
_DEMAND = Demand(peak_rps=9.0, most_rps=9.5, bins=100, of=288)
_CAPACITY = ServiceCapacity(
    service="chat",
    started_ms=0,
    expires_ms=_NOW_MS + 1,
    model="m",
    config_digest="sha256:now",
    provenance=Provenance.HERE,
    level="standard",
    confidence=Decimal("0.95"),
    certified_rps=Decimal("12.4"),
    refuted_rps=Decimal("15.2"),
    estimate_rps=Decimal("13.1"),
    limited_by="ttft",
    replicas=2,
    gpus_per_replica=4,
    objectives="[ttft]",
    curve=(),
    inputs_digest="sha256:in",
)


def room(
    capacity: ServiceCapacity | None = _CAPACITY,
    demand: Demand | None = _DEMAND,
    *,
    replicas: int | None = 2,
    digest: str | None = "sha256:now",
) -> tuple[float | None, str]:
    """The headroom of the service."""
    return headroom(
        capacity, demand, again="measure it", replicas=replicas, objectives="[ttft]", now_ms=_NOW_MS, digest=digest
    )


def test_headroom_is_the_certified_rate_less_the_peak() -> None:
    found, reason = room()

    assert found == pytest.approx(3.4)
    assert reason == ""


def test_more_or_fewer_replicas_than_were_measured_count_by_the_rate_of_each() -> None:
    assert room(replicas=3)[0] == pytest.approx(3 * 6.2 - 9)
    assert room(replicas=1)[0] == pytest.approx(6.2 - 9)


@pytest.mark.parametrize(
    ("capacity", "demand", "replicas", "digest", "reason"),
    [
        (None, _DEMAND, 2, None, "never measured"),
        (replace(_CAPACITY, expires_ms=_NOW_MS), _DEMAND, 2, None, "has expired"),
        (replace(_CAPACITY, certified_rps=None), _DEMAND, 2, None, "no rate was certified"),
        (replace(_CAPACITY, objectives="[tpot]"), _DEMAND, 2, None, "against other objectives"),
        (_CAPACITY, _DEMAND, 2, "sha256:other", "settings are others"),
        (replace(_CAPACITY, replicas=None), _DEMAND, 2, None, "how many replicas were measured"),
        (_CAPACITY, _DEMAND, None, None, "how many replicas there are now"),
        (_CAPACITY, None, 2, None, "demand is not known"),
    ],
)
def test_what_does_not_hold_is_unknown_with_its_reason_and_never_zero(
    capacity: ServiceCapacity | None, demand: Demand | None, replicas: int | None, digest: str | None, reason: str
) -> None:
    found, why = room(capacity, demand, replicas=replicas, digest=digest)

    assert found is None
    assert reason in why


def test_pods_of_a_service_add_up_and_hardly_covered_minutes_say_nothing() -> None:
    def row(pod: str, at: int, count: float, span_ms: int = BIN_MS) -> ServingRow:
        return ServingRow(kind=REQUESTS, pod=pod, edge_s=math.inf, from_ms=at, span_ms=span_ms, value=count)

    rows = [row("a", 0, 300), row("b", 0, 600), row("a", BIN_MS, 90, span_ms=30_000)]

    found = demand_of(rows, Window(0, 2 * BIN_MS))

    assert found is not None
    assert (found.peak_rps, found.bins, found.of) == (3.0, 1, 2)


def test_hours_are_missed_surely_or_perhaps() -> None:
    objective = Objective(name="ttft", metric=Metric.TTFT, at_most_us=300_000, share=Decimal("0.9"))

    def hour(number: int, within_250ms: int, within_500ms: int) -> list[ServingRow]:
        edges = ((0.25, within_250ms), (0.5, within_500ms), (math.inf, 100))
        return [
            ServingRow(kind="ttft", pod="a", edge_s=edge, from_ms=number * HOUR_MS, span_ms=BIN_MS, value=float(count))
            for edge, count in edges
        ]

    found = kept_of(objective, [*hour(0, 95, 99), *hour(1, 80, 99), *hour(2, 10, 20)], Window(0, 3 * HOUR_MS))

    assert found.hours_missed == (1, 2)
    assert found.whole is not None
    assert (found.whole.n, found.whole.lo, found.whole.hi) == (300, 185, 218)


def test_pods_whose_histograms_have_other_edges_add_up() -> None:
    objective = Objective(name="ttft", metric=Metric.TTFT, at_most_us=300_000, share=Decimal("0.9"))
    edges = {"old": ((0.25, 80), (0.5, 90), (math.inf, 100)), "new": ((0.2, 10), (0.4, 70), (math.inf, 100))}
    rows = [
        ServingRow(kind="ttft", pod=pod, edge_s=edge, from_ms=0, span_ms=BIN_MS, value=float(count))
        for pod, its in edges.items()
        for edge, count in its
    ]

    found = kept_of(objective, rows, Window(0, HOUR_MS)).whole

    assert found is not None
    assert (found.n, found.lo, found.hi) == (200, 80 + 10, 90 + 70)


def test_what_no_histogram_tells_is_unknown() -> None:
    answered = Objective(name="answered", metric=Metric.ERROR, share=Decimal("0.999"))

    assert kept_of(answered, [], Window(0, HOUR_MS)).whole is None


@pytest.mark.parametrize(
    ("peak", "replicas", "redundancy", "spare"),
    [(9.0, 2, 0, 0), (6.0, 2, 0, 1), (6.0, 2, 1, 0), (0.1, 5, 0, 4), (0.0, 1, 0, 0), (20.0, 2, 0, 0)],
)
def test_replicas_that_demand_and_redundancy_do_not_need_can_be_given_back(
    peak: float, replicas: int, redundancy: int, spare: int
) -> None:
    demand = Demand(peak_rps=peak, most_rps=peak, bins=100, of=288)
    state = ServiceState(
        name="chat",
        team=None,
        objectives=(),
        demand=demand,
        capacity=_CAPACITY,
        is_expired=False,
        replicas=replicas,
        gpu_busy=None,
        headroom_rps=room(demand=demand, replicas=replicas)[0],
        reason="",
    )

    assert to_spare(state, redundancy) == spare
    assert to_spare(replace(state, headroom_rps=None), redundancy) is None
