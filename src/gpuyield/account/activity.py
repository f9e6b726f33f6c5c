"""What cards measured: one activity series per device, as spans that hold until the next sample.

A device is a card or a MIG instance of one. Of the measures that a device shows on a day the best is taken
(streaming multiprocessors, else graphics engine, else the coarse utilization). A measure that stays at exactly 0
while the coarse one says that kernels run is stuck: the coarse one stands in, and a gap says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any  # arrays of mixed types

import numpy as np
import numpy.typing as npt

from gpuyield.ledger import Ledger
from gpuyield.ledger.tables import SAMPLES, SERIES, Activity
from gpuyield.model.cells import Ints
from gpuyield.model.evidence import Gap
from gpuyield.units import DAY_MS, MINUTE_MS, Window

PPB = 1_000_000_000
UNKNOWN_PPB = -1
_BEST_FIRST = tuple(Activity)


@dataclass(frozen=True, slots=True)
class DeviceKey:
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
    true); `lo_ppb` and `hi_ppb` the lesser and the greater of it and the next sample (of the last before a gap: the
    one before). `held` says that the span ends by the next sample rather than after one interval.
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
    claims: tuple[Claim, ...]
    several_values: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Devices:
    """All devices, by node; `labelled` are the nodes on which any sample names a pod."""

    devices: tuple[Device, ...]
    labelled: frozenset[str]
    gaps: tuple[Gap, ...] = field(default=())

    def on(self, node: str) -> list[Device]:
        """The devices of a node."""
        return [one for one in self.devices if one.node == node]


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
    rows = _samples(ledger, days, catalogue.best_ids())
    devices = _build(catalogue, rows, gap_limit_ms)
    doubtful = [one for one in devices if catalogue.has_coarse(one.key) and _longest_zero(one) >= idle_after_ms]
    gaps: list[Gap] = []
    if doubtful:
        coarse = _build(
            catalogue, _samples(ledger, days, catalogue.coarse_ids({one.key for one in doubtful})), gap_limit_ms
        )
        coarse_by_key = {one.key: one for one in coarse}
        mended = {}
        for device in doubtful:
            other = coarse_by_key.get(device.key)
            if other is not None:
                new, window = _without_stuck(device, other, idle_after_ms)
                if window:
                    mended[device.key] = new
                    gaps.append(
                        Gap(
                            reason="profiling activity stuck at 0 while GPU utilization says that kernels ran; "
                            "the coarse utilization was used",
                            where=f"{device.node or 'unknown node'}/{device.key.card}",
                            window=window,
                        )
                    )
        devices = [mended.get(one.key, one) for one in devices]
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
            if labels["metric"] not in {one.value for one in Activity}:
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
        self.key_of = {number: DeviceKey(row["card"], row["instance"]) for number, row in self.labels.items()}

    def best_ids(self) -> list[tuple[str, int]]:
        """(day, series) of the best measure of each device on each day."""
        found = []
        for (_, date), metrics in self._per_day.items():
            best = next(one for one in _BEST_FIRST if one in metrics)
            found += [(date, number) for number in metrics[best]]
        return found

    def coarse_ids(self, keys: set[DeviceKey]) -> list[tuple[str, int]]:
        """(day, series) of the coarse utilization of these devices."""
        return [
            (date, number)
            for (key, date), metrics in self._per_day.items()
            if key in keys
            for number in metrics.get(Activity.GPU_UTIL, ())
        ]

    def has_coarse(self, key: DeviceKey) -> bool:
        """Whether a device shows the coarse utilization beside a better measure."""
        return any(
            one == key and Activity.GPU_UTIL in metrics and len(metrics) > 1
            for (one, _), metrics in self._per_day.items()
        )


def _samples(ledger: Ledger, days: Sequence[str], wanted: Iterable[tuple[str, int]]) -> dict[str, npt.NDArray[Any]]:
    pairs = sorted(wanted)
    files = ledger.files_of(SAMPLES, days)
    if not pairs or not files:
        return {
            name: np.zeros(0, dtype=np.int64 if name != "value" else np.float64)
            for name in ("series", "ts_ms", "value")
        }
    return ledger.query(
        "with wanted as (select unnest($days) as date, unnest($ids) as series)"
        " select s.series, s.ts_ms, s.value"
        " from read_parquet($files, hive_partitioning = true, hive_types_autocast = false) s"
        " join wanted using (date, series)",
        files=files,
        days=[day for day, _ in pairs],
        ids=[number for _, number in pairs],
    )


def _build(catalogue: _Catalogue, rows: Mapping[str, npt.NDArray[Any]], gap_limit_ms: int) -> list[Device]:
    series, ts_ms, value = rows["series"], rows["ts_ms"], rows["value"]
    if not len(series):
        return []
    numbers, series_index = np.unique(series, return_inverse=True)
    keys = sorted({catalogue.key_of[int(number)] for number in numbers}, key=lambda key: (key.card, key.instance))
    position = {key: at for at, key in enumerate(keys)}
    key_of_series = np.array([position[catalogue.key_of[int(number)]] for number in numbers], dtype=np.int64)
    device_index = key_of_series[series_index]
    order = np.lexsort((ts_ms, device_index))
    device_index, series_index = device_index[order], series_index[order]
    ts_ms, value = ts_ms[order], value[order]
    bounds = np.searchsorted(device_index, np.arange(len(keys) + 1))
    shared = {int(at) for at, number in enumerate(numbers) if catalogue.labels[int(number)]["vgpu"]}
    spacing = np.diff(ts_ms)[np.diff(device_index) == 0]
    lone_ms = int(np.median(spacing[spacing > 0])) if (spacing > 0).any() else MINUTE_MS
    built = []
    for at, key in enumerate(keys):
        cut = slice(int(bounds[at]), int(bounds[at + 1]))
        ids = series_index[cut]
        claims = _claims(catalogue, numbers, ids, ts_ms[cut])
        labels = catalogue.labels[int(numbers[ids[0]])]
        times, ppb, top, several = _merge(ts_ms[cut], value[cut], any(int(one) in shared for one in np.unique(ids)))
        built.append(
            _device(
                key,
                catalogue.node[key],
                labels["profile"],
                labels["model"],
                times,
                ppb,
                top,
                claims,
                several,
                gap_limit_ms,
                lone_ms,
            )
        )
    return built


def _claims(catalogue: _Catalogue, numbers: Ints, ids: npt.NDArray[Any], ts_ms: Ints) -> tuple[Claim, ...]:
    by_pod: dict[tuple[str, str, str], list[Ints]] = {}
    for at in np.unique(ids):
        labels = catalogue.labels[int(numbers[at])]
        if labels["pod"] or labels["uid"]:
            by_pod.setdefault((labels["namespace"], labels["pod"], labels["uid"]), []).append(ts_ms[ids == at])
    return tuple(
        Claim(namespace=pod[0], pod=pod[1], uid=pod[2], at_ms=np.sort(np.concatenate(found)))
        for pod, found in sorted(by_pod.items())
    )


def _merge(ts_ms: Ints, value: npt.NDArray[np.float64], shared: bool) -> tuple[Ints, Ints, Ints, bool]:
    """One value per instant: times, activity, its lower bound (both in billionths), and whether pods showed shares.

    Copies count once. Where the pods of a shared card show different values these are shares: the card's activity
    is their sum and at least the largest of them. Elsewhere two values of one instant are two readings: the larger.
    """
    ppb = np.where(np.isnan(value), UNKNOWN_PPB, np.rint(np.nan_to_num(value) * PPB)).astype(np.int64)
    times, first, counts = np.unique(ts_ms, return_index=True, return_counts=True)
    if len(times) == len(ts_ms):
        return ts_ms, ppb, ppb, False
    largest = np.maximum.reduceat(ppb, first)
    if not shared:
        return times, largest, largest, False
    least = np.minimum.reduceat(ppb, first)
    summed = np.minimum(np.add.reduceat(np.maximum(ppb, 0), first), PPB)
    differ = (largest != least) & (least >= 0) & (counts > 1)
    return times, np.where(differ, summed, largest), largest, bool(differ.any())


def _device(
    key: DeviceKey,
    node: str,
    profile: str,
    model: str,
    ts_ms: Ints,
    ppb: Ints,
    least: Ints,
    claims: tuple[Claim, ...],
    several: bool,
    gap_limit_ms: int,
    lone_ms: int,
) -> Device:
    start, end, held = _holds(ts_ms, gap_limit_ms, lone_ms)
    following = np.append(ppb[1:], UNKNOWN_PPB)
    before = np.insert(ppb[:-1], 0, UNKNOWN_PPB)
    neighbour = np.where(held & (following >= 0), following, before)
    neighbour = np.where(neighbour >= 0, neighbour, ppb)
    return Device(
        key=key,
        node=node,
        profile=profile,
        model=model,
        start_ms=start,
        end_ms=end,
        ppb=ppb,
        lo_ppb=np.minimum(np.minimum(ppb, least), neighbour),
        hi_ppb=np.maximum(ppb, neighbour),
        claims=claims,
        several_values=several,
    )


def _holds(ts_ms: Ints, gap_limit_ms: int, lone_ms: int) -> tuple[Ints, Ints, npt.NDArray[np.bool_]]:
    """Start and end of each sample's span, and whether the next sample ends it.

    `lone_ms` is how long a sample holds that is the only one of its device in a UTC day.
    """
    spacing = np.diff(ts_ms)
    held = np.append(spacing <= gap_limit_ms, False)
    day = ts_ms // DAY_MS
    interval = np.full(len(ts_ms), lone_ms, dtype=np.int64)
    for at in np.flatnonzero(~held):
        interval[at] = _median_spacing(ts_ms[day == day[at]], lone_ms)
    end = np.where(held, np.append(ts_ms[1:], 0), ts_ms + interval)
    end[:-1] = np.minimum(end[:-1], ts_ms[1:])
    return ts_ms, end, held


def _median_spacing(ts_ms: Ints, lone_ms: int) -> int:
    return int(np.median(np.diff(ts_ms))) if len(ts_ms) > 1 else lone_ms


def _longest_zero(device: Device) -> int:
    longest = 0
    for low, high in _stretches(device.ppb == 0, device):
        longest = max(longest, int(device.end_ms[high - 1] - device.start_ms[low]))
    return longest


def _stretches(chosen: npt.NDArray[np.bool_], device: Device) -> list[tuple[int, int]]:
    """Index ranges of chosen samples whose spans touch."""
    joined = np.append(False, (device.end_ms[:-1] == device.start_ms[1:]) & chosen[:-1] & chosen[1:])
    first = np.flatnonzero(chosen & ~joined)
    last = np.flatnonzero(chosen & ~np.append(joined[1:], False)) + 1
    return list(zip(first.tolist(), last.tolist(), strict=True))


def _without_stuck(device: Device, coarse: Device, idle_after_ms: int) -> tuple[Device, Window | None]:
    """The device with stuck stretches replaced by the coarse measure, and the window that they span."""
    at = np.searchsorted(coarse.start_ms, device.start_ms, side="right") - 1
    valid = (at >= 0) & (coarse.end_ms[np.maximum(at, 0)] > device.start_ms)
    told = np.where(valid, coarse.ppb[np.maximum(at, 0)], UNKNOWN_PPB)
    ppb = device.ppb.copy()
    low, high = device.lo_ppb.copy(), device.hi_ppb.copy()
    found: list[Window] = []
    contradicted = (device.ppb == 0) & (told >= PPB // 20)
    for first, last in _stretches(contradicted, device):
        if device.end_ms[last - 1] - device.start_ms[first] >= idle_after_ms:
            found.append(Window(int(device.start_ms[first]), int(device.end_ms[last - 1])))
            ppb[first:last] = told[first:last]
            low[first:last] = 0
            high[first:last] = told[first:last]
    if not found:
        return device, None
    return replace(device, ppb=ppb, lo_ppb=low, hi_ppb=high), Window(found[0].from_ms, found[-1].to_ms)
