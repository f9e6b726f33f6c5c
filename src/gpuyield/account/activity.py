"""What cards measured: one activity series per device, as spans that hold until the next sample.

A device is a card or a MIG instance of one. Of the measures that a device shows on a day the best is taken
(streaming multiprocessors, else graphics engine, else the coarse utilization). A measure that stays at exactly 0
while the coarse one says that kernels run is stuck: the coarse one stands in, and a gap says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple  # Any: arrays of mixed types

import numpy as np
import numpy.typing as npt

from gpuyield.ledger import Ledger
from gpuyield.ledger.tables import SAMPLES, SERIES, Activity
from gpuyield.model.cells import Ints
from gpuyield.model.evidence import Gap
from gpuyield.units import DAY_MS, MINUTE_MS, Window, day_name, parse_instant

PPB = 1_000_000_000
UNKNOWN_PPB = -1
_BEST_FIRST = tuple(Activity)
_MEASURES = frozenset(one.value for one in Activity)


class DeviceKey(NamedTuple):
    """A card by UUID, and its MIG instance ("" for the whole card)."""

    card: str
    instance: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """That an exporter named this pod as the holder of a device; `at_ms` are the samples that say so."""

    namespace: str
    pod: str
    uid: str
    at_ms: Ints


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """The activity of one device.

    Columns per sample: span `[start_ms, end_ms)`; `ppb` the activity in billionths (-1: a value that cannot be
    true); `lo_ppb` and `hi_ppb` the lesser and the greater of it and the next sample (before a gap: all there may
    be). `held` says that the span ends by the next sample rather than after one interval.
    """

    key: DeviceKey
    node: str
    profile: str
    model: str
    start_ms: Ints
    end_ms: Ints
    ppb: Ints
    lo_ppb: Ints
    hi_ppb: Ints
    held: npt.NDArray[np.bool_]
    claims: tuple[Claim, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Devices:
    """All devices, by node; `labelled` are the nodes on which any sample names a pod."""

    devices: tuple[Device, ...]
    labelled: frozenset[str]
    gaps: tuple[Gap, ...] = field(default=())

    def by_node(self) -> dict[str, list[Device]]:
        """The devices of each node that has any."""
        found: dict[str, list[Device]] = {}
        for one in self.devices:
            found.setdefault(one.node, []).append(one)
        return found


def read_devices(
    ledger: Ledger,
    days: Sequence[str],
    *,
    gap_limit_ms: int,
    idle_after_ms: int,
    pod_nodes: Mapping[tuple[str, str], str],
    known_nodes: Set[str],
) -> Devices:
    """Every device's activity in these days.

    `pod_nodes` tells the node of a pod, for samples that name a pod but none of the `known_nodes`.
    """
    series = ledger.read(SERIES, days=days, columns=["date", *SERIES.columns])
    catalogue = _Catalogue(series, pod_nodes, known_nodes)
    devices = _build(catalogue, _samples(ledger, days, catalogue.best_ids()), gap_limit_ms)
    devices, gaps = _without_stuck_measures(ledger, days, catalogue, devices, idle_after_ms)
    labelled = frozenset(one.node for one in devices if one.claims)
    return Devices(devices=tuple(devices), labelled=labelled, gaps=tuple(gaps))


class _Catalogue:
    """The series of these days, and which of them speaks for a device on a day."""

    def __init__(
        self,
        series: Mapping[str, npt.NDArray[Any]],
        pod_nodes: Mapping[tuple[str, str], str],
        known_nodes: Set[str],
    ) -> None:
        self.labels: dict[int, dict[str, str]] = {}
        self._per_day: dict[tuple[DeviceKey, str], dict[str, list[int]]] = {}
        names = ("metric", "card", "instance", "profile", "node", "namespace", "pod", "uid", "vgpu", "model")
        columns = [series[name].tolist() for name in ("date", "series", *names)]
        nodes: dict[DeviceKey, dict[str, int]] = {}
        cut: set[str] = set()
        for date, number, *texts in zip(*columns, strict=True):
            labels = dict(zip(names, texts, strict=True))
            self.labels[number] = labels
            if labels["metric"] not in _MEASURES:
                continue
            key = DeviceKey(labels["card"], labels["instance"])
            if key.instance:
                cut.add(f"{date}/{key.card}")
            self._per_day.setdefault((key, date), {}).setdefault(labels["metric"], []).append(number)
            node = labels["node"] if labels["node"] in known_nodes else ""
            node = node or pod_nodes.get((labels["namespace"], labels["pod"]), "")
            counted = nodes.setdefault(key, {})
            counted[node] = counted.get(node, 0) + (1 if node else 0)
        # Once a card is cut into instances the value of the whole card is no measurement.
        self._per_day = {
            (key, date): metrics
            for (key, date), metrics in self._per_day.items()
            if key.instance or f"{date}/{key.card}" not in cut
        }
        self.node = {key: max(sorted(found), key=lambda name: found[name]) for key, found in nodes.items()}
        self.with_coarse = {
            key for (key, _), metrics in self._per_day.items() if Activity.GPU_UTIL in metrics and len(metrics) > 1
        }
        self.key_of = {number: DeviceKey(row["card"], row["instance"]) for number, row in self.labels.items()}

    def best(self, key: DeviceKey, date: str) -> str:
        """The best measure of a device on a day."""
        return next(one for one in _BEST_FIRST if one in self._per_day[key, date])

    def best_ids(self) -> list[tuple[str, int]]:
        """(day, series) of the best measure of each device on each day."""
        found = []
        for (key, date), metrics in self._per_day.items():
            found += [(date, number) for number in metrics[self.best(key, date)]]
        return found

    def coarse_ids(self, keys: set[DeviceKey]) -> list[tuple[str, int]]:
        """(day, series) of the coarse utilization of these devices."""
        return [
            (date, number)
            for (key, date), metrics in self._per_day.items()
            if key in keys
            for number in metrics.get(Activity.GPU_UTIL, ())
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rows:
    """Samples; `series[i]` is an index into `numbers`, the series that were asked for."""

    numbers: tuple[int, ...]
    series: Ints
    ts_ms: Ints
    value: npt.NDArray[np.float64]

    def by_device(self, device_of: Mapping[int, int], count: int) -> tuple[_Rows, Ints]:
        """The rows by device and time, and where each of so many devices begins (and the last one ends)."""
        device = np.array([device_of[number] for number in self.numbers], dtype=np.int64)[self.series]
        order = np.argsort((device << _TIME_BITS) | self.ts_ms, kind="stable")
        bounds = np.searchsorted(device[order], np.arange(count + 1))
        return replace(self, series=self.series[order], ts_ms=self.ts_ms[order], value=self.value[order]), bounds


_TIME_BITS = 42
"""Epoch milliseconds of this century fit into so many bits."""


def _samples(ledger: Ledger, days: Sequence[str], wanted: Iterable[tuple[str, int]]) -> _Rows:
    pairs = sorted(wanted)
    numbers = sorted({number for _, number in pairs})
    files = ledger.files_of(SAMPLES, days)
    if not pairs or not files:
        none = np.zeros(0, dtype=np.int64)
        return _Rows(numbers=(), series=none, ts_ms=none, value=np.zeros(0))
    position = {number: at for at, number in enumerate(numbers)}
    found = ledger.query(
        "with wanted as (select unnest($days) as date, unnest($ids) as series, unnest($positions) as position)"
        " select position, s.ts_ms, s.value"
        " from read_parquet($files, hive_partitioning = true, hive_types_autocast = false) s"
        " join wanted using (date, series)",
        files=files,
        days=[day for day, _ in pairs],
        ids=[number for _, number in pairs],
        positions=[position[number] for _, number in pairs],
    )
    series = found["position"].astype(np.int64)
    return _Rows(numbers=tuple(numbers), series=series, ts_ms=found["ts_ms"], value=found["value"])


def _build(catalogue: _Catalogue, found: _Rows, gap_limit_ms: int) -> list[Device]:
    there = [found.numbers[at] for at in np.flatnonzero(np.bincount(found.series)).tolist()]
    keys = sorted({catalogue.key_of[number] for number in there}, key=lambda key: (key.card, key.instance))
    position = {key: at for at, key in enumerate(keys)}
    device_of = {number: position.get(catalogue.key_of[number], -1) for number in found.numbers}
    rows, bounds = found.by_device(device_of, len(keys))
    spacings = _Spacings(catalogue, rows, bounds)
    shared = {at for at, number in enumerate(rows.numbers) if catalogue.labels[number]["vgpu"]}
    built = []
    for at, key in enumerate(keys):
        cut = slice(int(bounds[at]), int(bounds[at + 1]))
        by_series = _by_series(rows.series[cut], rows.ts_ms[cut])
        labels = catalogue.labels[rows.numbers[next(iter(by_series))]]
        samples = _merge(rows.ts_ms[cut], rows.value[cut], not shared.isdisjoint(by_series))
        built.append(
            _device(
                key,
                catalogue.node[key],
                labels,
                samples,
                _claims(catalogue, rows.numbers, by_series),
                gap_limit_ms=gap_limit_ms,
                lone_ms=partial(spacings.of_metric, key),
            )
        )
    return built


class _Spacings:
    """How far apart the samples of a metric's series usually are on a UTC day."""

    def __init__(self, catalogue: _Catalogue, rows: _Rows, bounds: Ints) -> None:
        self._catalogue = catalogue
        self._rows = rows
        self._bounds = bounds

    def of_metric(self, key: DeviceKey, day: str) -> int:
        """The median spacing of all series of the device's metric; 60 s where none has two samples on the day."""
        metric = self._catalogue.best(key, day)
        of_metric = [self._catalogue.labels[number]["metric"] == metric for number in self._rows.numbers]
        start_ms = parse_instant(f"{day}T00:00:00Z")
        chosen = (self._rows.ts_ms >= start_ms) & (self._rows.ts_ms < start_ms + DAY_MS)
        chosen &= np.array(of_metric, dtype=np.bool_)[self._rows.series]
        device = np.repeat(np.arange(len(self._bounds) - 1), np.diff(self._bounds))
        spacing = np.diff(self._rows.ts_ms[chosen])[np.diff(device[chosen]) == 0]
        spacing = spacing[spacing > 0]
        return int(np.median(spacing)) if len(spacing) else MINUTE_MS


def _by_series(series: npt.NDArray[Any], ts_ms: Ints) -> dict[int, Ints]:
    """The instants of each series of a device, in order."""
    if series[0] == series[-1] and (series == series[0]).all():
        return {int(series[0]): ts_ms}
    order = np.argsort(series, kind="stable")
    ordered = series[order]
    first = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
    pieces = np.split(ts_ms[order], first[1:])
    return dict(zip(ordered[first].tolist(), pieces, strict=True))


def _claims(catalogue: _Catalogue, numbers: Sequence[int], by_series: Mapping[int, Ints]) -> tuple[Claim, ...]:
    by_pod: dict[tuple[str, str, str], list[Ints]] = {}
    for at, ts_ms in by_series.items():
        labels = catalogue.labels[numbers[at]]
        if labels["pod"] or labels["uid"]:
            by_pod.setdefault((labels["namespace"], labels["pod"], labels["uid"]), []).append(ts_ms)
    return tuple(
        Claim(namespace=pod[0], pod=pod[1], uid=pod[2], at_ms=np.sort(np.concatenate(found)))
        for pod, found in sorted(by_pod.items())
    )


def _merge(ts_ms: Ints, value: npt.NDArray[np.float64], shared: bool) -> tuple[Ints, Ints, Ints]:
    """One value per instant: times, activity, and the least it can be (both in billionths).

    Copies count once. Where the pods of a shared card show different values these are shares: the card's activity
    is their sum and at least the largest of them. Elsewhere two values of one instant are two readings: the larger.
    """
    ppb = np.where(np.isnan(value), UNKNOWN_PPB, np.rint(np.nan_to_num(value) * PPB)).astype(np.int64)
    new = np.append(True, ts_ms[1:] != ts_ms[:-1])
    if new.all():
        return ts_ms, ppb, ppb
    first = np.flatnonzero(new)
    largest = np.maximum.reduceat(ppb, first)
    if not shared:
        return ts_ms[first], largest, largest
    smallest = np.minimum.reduceat(ppb, first)
    summed = np.minimum(np.add.reduceat(np.maximum(ppb, 0), first), PPB)
    differ = (largest != smallest) & (smallest >= 0)
    return ts_ms[first], np.where(differ, summed, largest), largest


def _device(
    key: DeviceKey,
    node: str,
    labels: Mapping[str, str],
    samples: tuple[Ints, Ints, Ints],
    claims: tuple[Claim, ...],
    *,
    gap_limit_ms: int,
    lone_ms: Callable[[str], int],
) -> Device:
    ts_ms, ppb, least = samples
    start, end, held = _holds(ts_ms, gap_limit_ms, lone_ms)
    low_ppb, high_ppb = _between_neighbours(ppb, held)
    return Device(
        key=key,
        node=node,
        profile=labels["profile"],
        model=labels["model"],
        start_ms=start,
        end_ms=end,
        ppb=ppb,
        lo_ppb=np.minimum(low_ppb, least),
        hi_ppb=high_ppb,
        held=held,
        claims=claims,
    )


def _between_neighbours(ppb: Ints, held: npt.NDArray[np.bool_]) -> tuple[Ints, Ints]:
    """The lesser and the greater of each sample and the next one that can be true.

    Where samples between them cannot be true, the one before counts too. After the last sample before a gap nobody
    looked: anything may have been.
    """
    true = np.flatnonzero(ppb >= 0)
    told = ppb if len(true) == len(ppb) else ppb[true]
    following = np.append(told[1:], told[-1:])
    low, high = np.minimum(told, following), np.maximum(told, following)
    apart = np.flatnonzero(np.diff(true) > 1)
    before = told[np.maximum(apart - 1, 0)]
    low[apart], high[apart] = np.minimum(low[apart], before), np.maximum(high[apart], before)
    last = ~held[true]
    low[last], high[last] = 0, PPB
    if len(true) == len(ppb):
        return low, high
    lowest, highest = ppb.copy(), ppb.copy()
    lowest[true], highest[true] = low, high
    return lowest, highest


def _holds(ts_ms: Ints, gap_limit_ms: int, lone_ms: Callable[[str], int]) -> tuple[Ints, Ints, npt.NDArray[np.bool_]]:
    """Start and end of each sample's span, and whether the next sample ends it.

    `lone_ms` tells how long a sample holds that is the only one of its device on a UTC day.
    """
    spacing = np.diff(ts_ms)
    held = np.append(spacing <= gap_limit_ms, False)
    day = ts_ms // DAY_MS
    interval = np.zeros(len(ts_ms), dtype=np.int64)
    for at in np.flatnonzero(~held).tolist():
        low, high = np.searchsorted(day, (day[at], day[at] + 1))
        alone = high - low == 1
        interval[at] = lone_ms(day_name(int(ts_ms[at]))) if alone else int(np.median(np.diff(ts_ms[low:high])))
    end = np.where(held, np.append(ts_ms[1:], 0), ts_ms + interval)
    end[:-1] = np.minimum(end[:-1], ts_ms[1:])
    return ts_ms, end, held


def _without_stuck_measures(
    ledger: Ledger, days: Sequence[str], catalogue: _Catalogue, devices: list[Device], idle_after_ms: int
) -> tuple[list[Device], list[Gap]]:
    """The devices with the coarse measure in place of one that is stuck at 0, and a gap for each of them."""
    doubtful = [one.key for one in devices if one.key in catalogue.with_coarse and _longest_zero(one) >= idle_after_ms]
    if not doubtful:
        return devices, []
    position = {key: at for at, key in enumerate(doubtful)}
    found = _samples(ledger, days, catalogue.coarse_ids(set(doubtful)))
    rows, bounds = found.by_device(
        {number: position[catalogue.key_of[number]] for number in found.numbers}, len(doubtful)
    )
    coarse = {
        key: (rows.ts_ms[low:high], rows.value[low:high])
        for key, (low, high) in zip(doubtful, pairwise(bounds.tolist()), strict=True)
    }
    mended, gaps = [], []
    for one in devices:
        new, window = _without_stuck(one, *coarse[one.key], idle_after_ms) if one.key in coarse else (one, None)
        mended.append(new)
        if window:
            gaps.append(
                Gap(
                    reason="profiling activity stuck at 0 while GPU utilization says that kernels ran; "
                    "the coarse utilization was used",
                    where=f"{one.node or 'unknown node'}/{one.key.card}",
                    window=window,
                )
            )
    return mended, gaps


def _longest_zero(device: Device) -> int:
    return max(
        (int(device.end_ms[high - 1] - device.start_ms[low]) for low, high in _stretches(device.ppb == 0, device)),
        default=0,
    )


def _stretches(chosen: npt.NDArray[np.bool_], device: Device) -> list[tuple[int, int]]:
    """Index ranges of chosen samples whose spans touch."""
    joined = np.append(False, (device.end_ms[:-1] == device.start_ms[1:]) & chosen[:-1] & chosen[1:])
    first = np.flatnonzero(chosen & ~joined)
    last = np.flatnonzero(chosen & ~np.append(joined[1:], False)) + 1
    return list(zip(first.tolist(), last.tolist(), strict=True))


def _without_stuck(
    device: Device, coarse_ms: Ints, coarse: npt.NDArray[np.float64], idle_after_ms: int
) -> tuple[Device, Window | None]:
    """The device with stuck stretches replaced by the coarse measure, and the window that they span."""
    if not len(coarse_ms):
        return device, None
    at = np.maximum(np.searchsorted(coarse_ms, device.start_ms, side="right") - 1, 0)
    fresh = np.abs(device.start_ms - coarse_ms[at]) <= device.end_ms - device.start_ms
    told = np.where(fresh & ~np.isnan(coarse[at]), np.rint(np.nan_to_num(coarse[at]) * PPB), UNKNOWN_PPB)
    ppb, low, high = device.ppb.copy(), device.lo_ppb.copy(), device.hi_ppb.copy()
    found: list[Window] = []
    for first, last in _stretches((device.ppb == 0) & (told >= PPB // 20), device):
        span = Window(int(device.start_ms[first]), int(device.end_ms[last - 1]))
        if span.length_ms >= idle_after_ms:
            found.append(span)
            ppb[first:last] = told[first:last]
            low[first:last] = 0
            high[first:last] = told[first:last]
    if not found:
        return device, None
    return replace(device, ppb=ppb, lo_ppb=low, hi_ppb=high), Window(found[0].from_ms, found[-1].to_ms)
