"""What Kueue counted of its queues, from the samples that a metrics store has of its own metrics.

Replicas that do not lead export the same names under `replica_role="follower"`, and a promoted one exports its counters
under both roles: only the leader counts (kueue: site/content/en/docs/reference/metrics.md).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from gpuyield.collect.activity import target_of
from gpuyield.collect.prometheus import Prometheus, RawSeries
from gpuyield.model.kueue import is_gpu_resource
from gpuyield.model.kueue_counts import KueueCounts, Level, QueueCounts, Waits
from gpuyield.units import MINUTE_MS, Window

PENDING = "kueue_pending_workloads"
RESERVED, USED = "kueue_cluster_queue_resource_reservation", "kueue_cluster_queue_resource_usage"
ADMITTED = "kueue_admitted_workloads_total"
EVICTED = "kueue_evicted_workloads_total"
WAIT = "kueue_admission_wait_time_seconds"
_WAITS = (f"{WAIT}_bucket", f"{WAIT}_sum", f"{WAIT}_count")
NAMES = (PENDING, RESERVED, USED, ADMITTED, EVICTED, *_WAITS)
_OF_GPUS = ('resource=~".*gpu.*"',)
_MATCHERS = {RESERVED: _OF_GPUS, USED: _OF_GPUS}
"""Processors and memory are not read."""

_BEAT_MS = MINUTE_MS
_HOLDS_MS = 5 * MINUTE_MS
"""A sample is the level for so long, as in Prometheus."""

_Levels = npt.NDArray[np.float64]
_Target = tuple[str, str]


def read_counts(source: Prometheus, window: Window) -> KueueCounts | None:
    """What Kueue counted over a window; None where the store has none of its metrics.

    Raises:
        SourceError: Out of reach, refusing, or answering nonsense.
    """
    present = source.names(NAMES, window)
    found = {name: source.raw(name, _MATCHERS.get(name, ()), window) for name in NAMES if name in present}
    return counts_of(found, window) if any(found.values()) else None


def counts_of(found: Mapping[str, Sequence[RawSeries]], window: Window) -> KueueCounts:
    """The counts of all queues from the series of each of NAMES."""
    found = {name: [real for one in series if (real := _real(one)) is not None] for name, series in found.items()}
    since = _first_seen(found)
    led = {name: [one for one in series if _leads(one)] for name, series in found.items()}
    counts = bool(led.get(ADMITTED))
    queues = sorted({one.labels["cluster_queue"] for series in led.values() for one in series if _is_of_queue(one)})

    def of(name: str, queue: str) -> list[RawSeries]:
        return [one for one in led.get(name, ()) if one.labels.get("cluster_queue") == queue]

    def gpus(name: str, queue: str) -> list[RawSeries]:
        return [one for one in of(name, queue) if is_gpu_resource(one.labels.get("resource", ""))]

    return KueueCounts(
        window=window,
        known=_known([one for series in led.values() for one in series], window),
        queues=tuple(
            QueueCounts(
                queue=queue,
                waiting=_level(of(PENDING, queue), window),
                reserved_gpus=_level(gpus(RESERVED, queue), window),
                used_gpus=_level(gpus(USED, queue), window),
                # What never happened has no series: it is none where the counters of others are there, else unknown.
                admitted=_total(of(ADMITTED, queue), since) if counts else None,
                evicted=_by_reason(of(EVICTED, queue), since) if counts or led.get(EVICTED) else None,
                waits=_waits([of(name, queue) for name in _WAITS], since),
            )
            for queue in queues
        ),
    )


def _real(one: RawSeries) -> RawSeries | None:
    """A series without the samples that are no numbers; None where none is left."""
    there = np.isfinite(one.values)
    return RawSeries(labels=one.labels, ts_ms=one.ts_ms[there], values=one.values[there]) if there.any() else None


def _leads(one: RawSeries) -> bool:
    return one.labels.get("replica_role", "") in ("", "leader", "standalone")


def _is_of_queue(one: RawSeries) -> bool:
    return bool(one.labels.get("cluster_queue"))


def _first_seen(found: Mapping[str, Sequence[RawSeries]]) -> dict[_Target, int]:
    """When anything of each target was scraped first."""
    first: dict[_Target, int] = {}
    for series in found.values():
        for one in series:
            target, at_ms = target_of(one.labels), int(one.ts_ms[0])
            first[target] = min(first.get(target, at_ms), at_ms)
    return first


# Levels.


def _level(series: Sequence[RawSeries], window: Window) -> Level | None:
    """The sum over the series of one target; where several targets tell at once (a new leader), the larger one."""
    grid = _grid(window)
    by_target: dict[_Target, list[_Levels]] = defaultdict(list)
    for one in series:
        by_target[target_of(one.labels)].append(_held(one, grid))
    if not by_target:
        return None
    level = np.fmax.reduce([_sum(parts) for parts in by_target.values()])
    known = ~np.isnan(level)
    if not known.any():
        return None
    quarter = max(1, len(grid) // 4)
    last_ms = max(int(one.ts_ms[-1]) for one in series)
    return Level(
        now=float(level[known][-1]) if window.to_ms - last_ms < _HOLDS_MS else None,
        mean=float(level[known].mean()),
        most=float(level[known].max()),
        first=_mean_if_known(level[:quarter]),
        last=_mean_if_known(level[-quarter:]),
        known=float(known.mean()),
    )


def _known(series: Sequence[RawSeries], window: Window) -> float:
    """Of how much of a window anything was told, as a ratio."""
    grid = _grid(window)
    told = [~np.isnan(_held(one, grid)) for one in series]
    return float(np.logical_or.reduce(told).mean()) if told else 0.0


def _grid(window: Window) -> npt.NDArray[np.int64]:
    """The instants that levels are read at: the last ones of each minute."""
    return np.arange(window.from_ms, window.to_ms, _BEAT_MS, dtype=np.int64) + _BEAT_MS - 1


def _held(one: RawSeries, grid: npt.NDArray[np.int64]) -> _Levels:
    """The last sample before each instant; NaN where it is too old, or there is none."""
    at = np.searchsorted(one.ts_ms, grid, side="right") - 1
    there = at >= 0
    value = np.where(there, one.values[np.maximum(at, 0)], np.nan)
    age_ms = grid - one.ts_ms[np.maximum(at, 0)]
    return np.where(there & (age_ms < _HOLDS_MS), value, np.nan)


def _sum(parts: Sequence[_Levels]) -> _Levels:
    """The sum of what is known; NaN where nothing is."""
    stacked = np.array(parts)
    known = ~np.isnan(stacked)
    return np.where(known.any(axis=0), np.where(known, stacked, 0.0).sum(axis=0), np.nan)


def _mean_if_known(level: _Levels) -> float | None:
    """The mean of what is known; None where that is less than half."""
    known = level[~np.isnan(level)]
    return float(known.mean()) if 2 * len(known) >= len(level) else None


# Counters.


def _increase(one: RawSeries, since: Mapping[_Target, int]) -> float:
    """By how much a counter grew; it begins at 0 where its target was scraped before without it, and after a fall."""
    steps = np.diff(one.values)
    grown = float(np.where(steps < 0, one.values[1:], steps).sum())
    born = since[target_of(one.labels)] < int(one.ts_ms[0])
    return grown + (float(one.values[0]) if born else 0.0)


def _sum_of(series: Iterable[RawSeries], since: Mapping[_Target, int]) -> float:
    return sum(_increase(one, since) for one in series)


def _total(series: Iterable[RawSeries], since: Mapping[_Target, int]) -> int:
    return round(_sum_of(series, since))


def _by_reason(series: Iterable[RawSeries], since: Mapping[_Target, int]) -> dict[str, int]:
    reasons: dict[str, list[RawSeries]] = defaultdict(list)
    for one in series:
        reasons[one.labels.get("reason", "")].append(one)
    totals = {reason: _total(its, since) for reason, its in sorted(reasons.items())}
    return {reason: number for reason, number in totals.items() if number}


def _waits(of_parts: Sequence[Sequence[RawSeries]], since: Mapping[_Target, int]) -> Waits | None:
    buckets, sums, counts = of_parts
    if not counts:
        return None
    n = _total(counts, since)
    by_edge: dict[float, list[RawSeries]] = defaultdict(list)
    for one in buckets:
        by_edge[float(one.labels.get("le", "nan"))].append(one)
    at_most = {edge: _sum_of(its, since) for edge, its in sorted(by_edge.items()) if not np.isnan(edge)}
    return Waits(
        n=n,
        mean_s=_sum_of(sums, since) / n if n and sums else None,
        p50_at_most_s=_edge(at_most, 0.5 * n),
        p90_at_most_s=_edge(at_most, 0.9 * n),
    )


def _edge(at_most: Mapping[float, float], wanted: float) -> float | None:
    """The first edge below which so many are; None where it is the last, which is no bound."""
    found = next((edge for edge, number in at_most.items() if number >= wanted > 0), float("inf"))
    return found if np.isfinite(found) else None
