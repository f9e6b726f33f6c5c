"""Objectives kept and demand of a service, from what its servers counted in each five minutes. No I/O here."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal

from gpuyield.model.declaration import Metric, Objective
from gpuyield.model.service_capacity import ServiceCapacity
from gpuyield.model.services import Attained, Demand, ObjectiveKept, ServiceState
from gpuyield.units import HOUR_MS, MINUTE_MS, Window

BIN_MS = 5 * MINUTE_MS
REQUESTS = "requests"
HISTOGRAMS = (Metric.TTFT, Metric.TPOT, Metric.E2E)
"""Latencies that servers count by edges; the ledger has the kind under the same name."""

_FEWEST_MS = MINUTE_MS
"""Five minutes of which samples cover less say nothing of their rate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingRow:
    """A row of the ledger's `serving` table."""

    kind: str
    pod: str
    edge_s: float
    from_ms: int
    span_ms: int
    value: float


def demand_of(rows: Iterable[ServingRow], window: Window) -> Demand | None:
    """The rates at which requests were finished, of all pods together; None where no five minutes are covered.

    A rate that the servers could not keep up with shows as the rate they could.
    """
    rates: dict[int, float] = defaultdict(float)
    for row in rows:
        if row.kind == REQUESTS and row.span_ms >= _FEWEST_MS and _inside(row, window):
            rates[row.from_ms] += row.value / row.span_ms * 1000
    if not rates:
        return None
    ordered = sorted(rates.values())
    return Demand(
        peak_rps=ordered[math.ceil(0.99 * len(ordered)) - 1],
        most_rps=ordered[-1],
        bins=len(ordered),
        of=-(-window.length_ms // BIN_MS),
    )


def kept_of(objective: Objective, rows: Sequence[ServingRow], window: Window) -> ObjectiveKept:
    """How often an objective was kept, as far as the edges of histograms tell; None where none does.

    A limit between two edges is kept by at least those of the lower edge and at most those of the upper one.
    """
    if objective.metric not in HISTOGRAMS or objective.at_most_us is None:
        return ObjectiveKept(objective=objective, whole=None)
    by_hour: dict[int, list[ServingRow]] = defaultdict(list)
    for row in rows:
        if row.kind == objective.metric and _inside(row, window):
            by_hour[row.from_ms // HOUR_MS * HOUR_MS].append(row)
    hours = tuple((hour, _attained(by_hour[hour], objective.at_most_us / 1e6)) for hour in sorted(by_hour))
    if not hours:
        return ObjectiveKept(objective=objective, whole=None)
    whole = Attained(
        n=sum(one.n for _, one in hours), lo=sum(one.lo for _, one in hours), hi=sum(one.hi for _, one in hours)
    )
    return ObjectiveKept(objective=objective, whole=whole, hours=hours)


def headroom(
    capacity: ServiceCapacity | None,
    demand: Demand | None,
    *,
    again: str,
    replicas: int | None,
    objectives: str,
    now_ms: int,
    digest: str | None = None,
) -> tuple[float | None, str]:
    """Certified rate of the replicas there are, less the peak; None with the reason, and how to change that.

    `again` is the command that measures it. `objectives` are the declared ones as canonical JSON, `digest` that of the
    service's settings now (None: not known).
    """
    if capacity is None:
        return None, f"never measured: {again}"
    if capacity.is_expired(now_ms):
        return None, f"its measurement has expired: {again}"
    if capacity.certified_rps is None:
        return None, f"no rate was certified: {again}"
    if capacity.objectives != objectives:
        return None, f"it was measured against other objectives than are declared: {again}"
    if digest is not None and capacity.config_digest != digest:
        return None, f"its settings are others than were measured: {again}"
    each = capacity.certified_rps_per_replica
    if each is None:
        return None, f"how many replicas were measured is not known: {again} --replicas N"
    if replicas is None:
        return None, "how many replicas there are now is not known"
    if demand is None:
        return None, "its demand is not known: no requests of its servers were collected"
    return float(each * replicas - Decimal(repr(demand.peak_rps))), ""


def to_spare(state: ServiceState, redundancy: int) -> int | None:
    """Replicas that neither demand nor the declared redundancy needs; None where the headroom is not known.

    At least one replica stays.
    """
    each = None if state.capacity is None else state.capacity.certified_rps_per_replica
    if state.headroom_rps is None or not each or state.replicas is None:
        return None
    free = math.floor(state.headroom_rps / float(each) + 1e-9)
    return max(0, min(free - redundancy, state.replicas - 1))


def _attained(rows: Iterable[ServingRow], limit_s: float) -> Attained:
    """What all pods kept, each by the edges of its own histogram: those of another version may be others."""
    pods: dict[str, dict[float, float]] = defaultdict(lambda: defaultdict(float))
    for row in rows:
        pods[row.pod][row.edge_s] += row.value
    total = below = above = 0.0
    for counts in pods.values():
        every = counts.get(math.inf, max(counts.values()))
        total += every
        below += max((count for edge, count in counts.items() if edge <= limit_s), default=0.0)
        above += min((count for edge, count in counts.items() if edge >= limit_s), default=every)
    n = round(total)
    return Attained(n=n, lo=min(n, math.floor(below + 1e-6)), hi=min(n, math.ceil(above - 1e-6)))


def _inside(row: ServingRow, window: Window) -> bool:
    return window.from_ms <= row.from_ms < window.to_ms
