"""The accounting a second time, slow and obvious: walk every instant at which anything changes, on every node.

It shares no code with `gpuyield.account` and follows the words of the contract (section 4) one after the other. Parts
are exact fractions of a GPU-millisecond. What is free and not bypassed is one class here, "free" ("unexplained" while
the source is silent); how it splits by demand is not judged.
"""

from __future__ import annotations

import itertools
import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import Any  # rows of mixed types

from gpuyield.ledger import Ledger
from gpuyield.ledger.tables import RUNS, SAMPLES, SERIES, Activity, Table
from gpuyield.model.declaration import Rules
from gpuyield.model.outcome import JudgedSpan
from gpuyield.units import DAY_MS, HOUR_MS, Window

Row = dict[str, Any]
Key = tuple[str | None, int, str]
"""Workload (None: nobody), start of the hour, class."""
Times = defaultdict[Key, Fraction]
"""GPU-ms of each."""

FAR = 2**62


@dataclass(frozen=True, slots=True)
class Held:
    """What a run or a sample says, from its first instant until it no longer holds; `seen` is its last sample."""

    from_ms: int
    to_ms: int
    value: Any
    seen: int

    def holds(self, at: int) -> bool:
        return self.from_ms <= at < self.to_ms


@dataclass(slots=True)
class Pod:
    namespace: str
    name: str
    uid: str
    node: str
    devices: int
    resource: str
    from_ms: int
    to_ms: int
    running_ms: int
    workload: str
    end_seen: int | None = None
    """Where only samples tell the end: the last sample at which the pod was surely there."""

    def holds(self, at: int) -> bool:
        return self.from_ms <= at < self.to_ms


@dataclass(slots=True)
class Device:
    """A card or a MIG instance: its samples in order, held; who is named on it when."""

    card: str
    instance: str
    profile: str
    node: str
    holds: list[Held] = field(default_factory=list)
    named: list[tuple[int, str, str]] = field(default_factory=list)

    def at(self, instant: int) -> Held | None:
        return next((one for one in self.holds if one.holds(instant)), None)


@dataclass(frozen=True, slots=True)
class Found:
    """GPU time by workload, hour and class; idle spans of (workload, uid, card), uncut."""

    time: dict[Key, Fraction]
    idle: list[tuple[str, str, str, int, int]]

    def total(self, gpu_class: str) -> Fraction:
        return sum((part for key, part in self.time.items() if key[2] == gpu_class), Fraction(0))


def rows_of(ledger: Ledger, table: Table) -> list[Row]:
    """All rows of a table."""
    columns = ledger.read(table, days=ledger.days(table))
    names = list(table.columns)
    return [
        dict(zip(names, values, strict=True))
        for values in zip(*(columns[name].tolist() for name in names), strict=True)
    ]


def walk(ledger: Ledger, window: Window, rules: Rules, judged: Sequence[JudgedSpan] = ()) -> Found:
    """The accounting of a window."""
    return _Walk(ledger, window, rules, judged).walked()


def _slices(text: str) -> int | None:
    """The 3 of `3g.40gb` or `mig_3g_40gb`."""
    parts = text.replace("_", ".").replace("-", ".").split(".")
    return next((int(part[:-1]) for part in parts if part.endswith("g") and part[:-1].isdigit()), None)


class _Walk:
    def __init__(self, ledger: Ledger, window: Window, rules: Rules, judged: Sequence[JudgedSpan]) -> None:
        self.rules = rules
        self.judged = judged
        self.window = window
        runs = rows_of(ledger, RUNS)
        self.kinds: dict[str, list[tuple[Row, list[Held]]]] = defaultdict(list)
        identity = ("kind", "node", "namespace", "pod", "uid", "container", "resource", "detail")
        series: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
        for row in runs:
            series[tuple(row[name] for name in identity)].append(row)
        for rows in series.values():
            rows.sort(key=lambda row: (row["from_ms"], row["to_ms"]))
            self.kinds[rows[0]["kind"]].append((rows[0], self._held_runs(rows)))
        self.sampled = [(h.from_ms, h.seen) for of_kind in self.kinds.values() for _, held in of_kind for h in held]
        self.read_to = max((h.to_ms for of_kind in self.kinds.values() for _, held in of_kind for h in held), default=0)
        self.nodes = sorted({row["node"] for row, _ in self.kinds["node_capacity"] + self.kinds["node_allocatable"]})
        self.pods = self._read_pods()
        self.devices = self._read_devices(rows_of(ledger, SAMPLES), rows_of(ledger, SERIES))
        self._give_way()

    # Holds

    def _until(self, seen: int, after: int | None, interval: int) -> int:
        """A sample holds until the next one if that comes within the gap limit (inclusive), else for one interval."""
        if after is not None and after - seen <= self.rules.gap_limit_ms:
            return after
        end = seen + interval
        return end if after is None else min(end, after)

    def _held_runs(self, rows: list[Row]) -> list[Held]:
        held = []
        for index, row in enumerate(rows):
            after = rows[index + 1]["from_ms"] if index + 1 < len(rows) else None
            end = self._until(row["to_ms"], after, row["interval_ms"])
            value = (row["value"], row["text"], row["node"])
            held.append(Held(row["from_ms"], end, value, row["to_ms"]))
        return held

    def _bridged(self, held: list[Held], at: int) -> Held | None:
        """What holds at an instant; while nobody is sampled, what was seen before, if it is seen after it too."""
        now = next((one for one in held if one.holds(at)), None)
        if now:
            return now
        before = next((one for one in reversed(held) if one.to_ms <= at), None)
        after = next((one for one in held if one.from_ms > at), None)
        return before if before and after and self._silent_between(before.seen, after.from_ms) else None

    def _silent_between(self, low: int, high: int) -> bool:
        """Whether nothing at all was sampled after the one instant and before the other."""
        return not any(first < high and last > low for first, last in self.sampled)

    # State of nodes

    def _node(self, kind: str, node: str, at: int, **wanted: str) -> Any:
        """The value of a node's series at an instant (text where it has one), None where there is none."""
        for row, held in self.kinds[kind]:
            if row["node"] == node and all(row[name] == text for name, text in wanted.items()):
                now = self._bridged(held, at)
                if now:
                    return now.value[1] or now.value[0]
        return None

    def _offered(self, kind: str, node: str, at: int) -> dict[str, int]:
        offered = {}
        for row, held in self.kinds[kind]:
            now = self._bridged(held, at) if row["node"] == node else None
            if now:
                offered[row["resource"]] = int(now.value[0])
        return offered

    def _cards(self, node: str, at: int) -> int | None:
        """Physical cards of a node; None where it is not there."""
        capacity, allocatable = self._offered("node_capacity", node, at), self._offered("node_allocatable", node, at)
        if not capacity and not allocatable:
            return None
        parts = [name for name in (*capacity, *allocatable) if "mig" in name or name.endswith("shared")]
        count = self._node("node_label", node, at, detail="gpu.count")
        if parts and count is not None:
            return int(count)
        return (capacity or allocatable).get("nvidia_com_gpu", 0)

    def _part(self, pod: Pod, at: int) -> Fraction:
        """One device of a pod as part of a card."""
        slices = _slices(pod.resource)
        if slices:
            return Fraction(slices, self._card_slices(pod.node, at))
        if pod.resource.endswith("shared"):
            return Fraction(1, int(self._node("node_label", pod.node, at, detail="gpu.replicas")))
        return Fraction(1)

    def _card_slices(self, node: str, at: int) -> int:
        return 4 if "A30" in (self._node("node_label", node, at, detail="gpu.product") or "") else 7

    # Pods

    def _read_pods(self) -> list[Pod]:
        pods = []
        for row, held in self.kinds["pod_request"]:
            bound = [one for one in held if one.value[2]]
            if bound:
                pods.append(self._pod(row, bound))
        return pods

    def _of_pod(self, kind: str, row: Row) -> list[tuple[Row, list[Held]]]:
        who = ("namespace", "pod", "uid")
        return [pair for pair in self.kinds[kind] if all(pair[0][name] == row[name] for name in who)]

    def _printed(self, kind: str, row: Row) -> list[int]:
        return [int(one.value[0]) for _, held in self._of_pod(kind, row) for one in held]

    def _pod(self, row: Row, bound: list[Held]) -> Pod:
        scheduled = self._printed("pod_scheduled", row)
        from_ms = min(scheduled) if scheduled else bound[0].from_ms
        phases = [(phase, one) for phase, held in self._of_pod("pod_phase", row) for one in held if one.value[0] == 1]
        terminal = [one.from_ms for phase, one in phases if phase["detail"] in ("Succeeded", "Failed")]
        ended = self._printed("pod_completed", row) or self._printed("container_terminated", row)
        alive = [(phase, one) for phase, one in phases if phase["detail"] in ("Pending", "Running")]
        end_seen = None if ended else max([one.seen for _, one in alive] or [bound[-1].seen])
        if ended:
            to_ms = max(ended)
        elif terminal:
            # One that ended in a silence is not known to have held on: its last phase holds as any sample does.
            to_ms = min(*terminal, max([one.to_ms for _, one in alive] or [FAR]), FAR)
        else:
            to_ms = self._end_of_listing(bound)
        started = self._printed("container_started", row)
        seen_running = [one.from_ms for phase, one in phases if phase["detail"] == "Running"]
        running_ms = min(started or seen_running or [FAR])
        owner = [one.value[1] for _, held in self._of_pod("pod_owner", row) for one in held]
        return Pod(
            namespace=row["namespace"],
            name=row["pod"],
            uid=row["uid"],
            node=bound[0].value[2],
            devices=int(bound[0].value[0]),
            resource=row["resource"],
            from_ms=from_ms,
            to_ms=to_ms,
            running_ms=max(from_ms, running_ms),
            workload=owner[0] if owner else row["pod"],
            end_seen=end_seen,
        )

    def _give_way(self) -> None:
        """An end that only samples tell is no later than the binding of the next pod that was given the card."""
        for pod in sorted(self.pods, key=lambda one: (one.from_ms, one.to_ms)):
            for other in sorted(self.pods, key=lambda one: one.to_ms):
                if other is pod or other.node != pod.node or other.end_seen is None:
                    continue
                if not max(other.end_seen, other.from_ms) <= pod.from_ms < other.to_ms or other.from_ms == pod.from_ms:
                    continue
                cards = self._cards(pod.node, pod.from_ms) or 0
                held = sum(one.devices * self._part(one, pod.from_ms) for one in self.pods if self._is_on(one, pod))
                shared = pod.resource.endswith("shared")
                both = (self._named(device, pod) and self._named(device, other) for device in self.devices)
                same = not shared and any(both)
                if same or held > cards:
                    other.to_ms = pod.from_ms

    def _is_on(self, one: Pod, pod: Pod) -> bool:
        return one.node == pod.node and one.holds(pod.from_ms)

    def _end_of_listing(self, bound: list[Held]) -> int:
        """Where what was listed, bridged, first fails; where nothing more is sampled at all it did not end."""
        for one, after in zip(bound, [*bound[1:], None], strict=True):
            if after is None:
                return self.read_to if self._silent_between(one.seen, FAR) else one.to_ms
            if one.to_ms < after.from_ms and not self._silent_between(one.seen, after.from_ms):
                return one.to_ms
        return FAR

    # Devices

    def _read_devices(self, samples: list[Row], series: list[Row]) -> list[Device]:
        labels = {row["series"]: row for row in series}
        by_device: dict[tuple[str, str], dict[int, dict[str, list[tuple[float, Row]]]]] = defaultdict(
            lambda: defaultdict(lambda: defaultdict(list))
        )
        for sample in samples:
            row = labels[sample["series"]]
            by_device[row["card"], row["instance"]][sample["ts_ms"]][row["metric"]].append((sample["value"], row))
        cut = {card for card, instance in by_device if instance}
        spacings = self._metric_spacings(by_device)
        devices = []
        for (card, instance), moments in sorted(by_device.items()):
            if instance or card not in cut:
                devices.append(self._device(card, instance, moments, spacings))
        return devices

    def _metric_spacings(self, by_device: Any) -> dict[tuple[str, int], list[int]]:
        spacings: dict[tuple[str, int], list[int]] = defaultdict(list)
        for moments in by_device.values():
            for metric in Activity:
                times = sorted(ts for ts, metrics in moments.items() if metric.value in metrics)
                for low, high in itertools.pairwise(times):
                    if low // DAY_MS == high // DAY_MS:
                        spacings[metric.value, low // DAY_MS].append(high - low)
        return spacings

    def _device(self, card: str, instance: str, moments: Any, spacings: dict[tuple[str, int], list[int]]) -> Device:
        """The best metric of each day; all of it one series, whatever labels it carries."""
        chosen: list[tuple[int, Fraction | None, str]] = []
        rows: list[Row] = []
        device = Device(card, instance, "", "")
        for day in sorted({ts // DAY_MS for ts in moments}):
            of_day = {ts: metrics for ts, metrics in moments.items() if ts // DAY_MS == day}
            metric = self._metric_of_day(of_day)
            for ts in sorted(of_day):
                pairs = of_day[ts].get(metric, [])
                if pairs:
                    chosen.append((ts, self._value([value for value, _ in pairs]), metric))
                    rows.append(pairs[0][1])
                    for _, row in pairs:
                        if row["pod"]:
                            device.named.append((ts, row["namespace"], row["pod"]))
        device.profile, device.node = rows[0]["profile"], rows[0]["node"]
        for index, (ts, value, metric) in enumerate(chosen):
            after = chosen[index + 1][0] if index + 1 < len(chosen) else None
            same_day = [one for one, _, _ in chosen if one // DAY_MS == ts // DAY_MS]
            own = [high - low for low, high in itertools.pairwise(same_day)]
            spacing = own or spacings.get((metric, ts // DAY_MS)) or [60_000]
            interval = int(statistics.median(spacing))
            device.holds.append(Held(ts, self._until(ts, after, interval), value, ts))
        return device

    def _metric_of_day(self, of_day: Any) -> str:
        """The best metric; one that is 0 all day while a coarser one is not cannot be believed."""
        there = [one.value for one in Activity if any(one.value in metrics for metrics in of_day.values())]
        threshold = float(self.rules.activity_threshold)
        for metric in there:
            if any(value != 0 for metrics in of_day.values() for value, _ in metrics.get(metric, [])):
                return metric
            coarse = [value for metrics in of_day.values() for other in there for value, _ in metrics.get(other, [])]
            if not any(value >= threshold for value in coarse):
                return metric
        return there[0]

    def _value(self, values: list[float]) -> Fraction | None:
        """One moment of a card: copies count once, different values are shares and add up."""
        if any(value != value for value in values):
            return None
        exact = {Fraction(Decimal(repr(value))) for value in values}
        return (
            exact.pop()
            if len(exact) == 1
            else min(Fraction(1), sum((Fraction(Decimal(repr(v))) for v in values), Fraction(0)))
        )

    # The walk

    def walked(self) -> Found:
        time: Times = defaultdict(Fraction)
        pieces: dict[tuple[str, str, str], list[tuple[int, int, Held, Pod, Fraction]]] = defaultdict(list)
        for node in self.nodes:
            instants = self._instants(node)
            for low, high in itertools.pairwise(instants):
                self._step(node, low, high, time, pieces)
        idle = self._idle_and_busy(pieces, time)
        found: dict[Key, Fraction] = {key: part for key, part in time.items() if part}
        return Found(found, idle)

    def _instants(self, node: str) -> list[int]:
        edges = {self.window.from_ms, self.window.to_ms}
        for of_kind in self.kinds.values():
            for row, held in of_kind:
                if row["node"] == node:
                    edges |= {edge for one in held for edge in (one.from_ms, one.to_ms)}
        for pod in self.pods:
            edges |= {pod.from_ms, pod.to_ms, pod.running_ms}
        for device in self.devices:
            if device.node == node:
                edges |= {edge for one in device.holds for edge in (one.from_ms, one.to_ms)}
        for one in self.judged:
            edges |= {one.from_ms, one.to_ms}
        first, last = min(edges), max(edge for edge in edges if edge < FAR)
        edges |= set(range(first - first % HOUR_MS + HOUR_MS, last, HOUR_MS))
        return sorted(edge for edge in edges if edge < FAR)

    def _step(self, node: str, low: int, high: int, time: Times, pieces: Any) -> None:
        """A span in which nothing changes."""
        cards = self._cards(node, low)
        if not cards:
            return
        silent = not any(
            one.holds(low)
            for kind in ("node_capacity", "node_allocatable")
            for row, held in self.kinds[kind]
            if row["node"] == node
            for one in held
        )
        ready = self._node("node_ready", node, low) != 0 or self._node("node_ready", node, low) is None
        length = high - low
        holders = [pod for pod in self.pods if pod.node == node and pod.holds(low)]
        held = sum((pod.devices * self._part(pod, low) for pod in holders), Fraction(0))
        cards_held, spare = self._whose(node, low, holders, full=held == cards)
        for pod in holders:
            mine = cards_held.get(pod.uid, [])
            lacks = pod.devices - int(sum(share for _, share in mine))
            for device, share in [*mine, *[(None, Fraction(1))] * lacks]:
                part = self._part(pod, low) * share
                now = device.at(low) if device else None
                if not ready:
                    self._add(time, low, high, pod.workload, "unobserved", part * length)
                elif low < pod.running_ms:
                    self._add(time, low, high, pod.workload, "starting", part * length)
                elif device is None or now is None or now.value is None:
                    self._add(time, low, high, pod.workload, "unobserved", part * length)
                else:
                    name = f"{device.card}/{device.instance}"
                    pieces[pod.workload, pod.uid, name].append((low, high, now, pod, part))
        free = cards - held
        parted = any(self._part(pod, low) != 1 for pod in holders)
        down = not ready or self._node("node_cordoned", node, low) == 1
        offered = self._offered("node_allocatable", node, low).get("nvidia_com_gpu", cards)
        all_cards = self._offered("node_capacity", node, low).get("nvidia_com_gpu", cards)
        unavailable = free if down else min(free, Fraction(max(0, all_cards - offered)))
        active = sum(
            1
            for device in spare
            if (now := device.at(low))
            and now.value is not None
            and now.value >= self.rules.activity_threshold
            and not self._was_held(device, now.seen, low)
        )
        if any(device.instance for device in spare) or (held and held.denominator > 1) or (parted and holders):
            active = 0  # nobody knows which card of a node of parts is without any holder
        bypassed = min(free - unavailable, Fraction(active))
        self._add(time, low, high, None, "unavailable", unavailable * length)
        self._add(time, low, high, None, "bypassed", bypassed * length)
        rest = free - unavailable - bypassed
        self._add(time, low, high, None, "unexplained" if silent else "free", rest * length)

    def _whose(
        self, node: str, at: int, holders: list[Pod], *, full: bool
    ) -> tuple[dict[str, list[tuple[Device, Fraction]]], list[Device]]:
        """Cards by the pod that is named on them during its life; what nobody is named on goes to the only
        candidate if every card of the node is held, and is split by what they lack if there are several."""
        mine: dict[str, list[tuple[Device, Fraction]]] = defaultdict(list)
        spare = []
        here = [device for device in self.devices if device.node == node]
        if any(pod.resource.endswith("shared") for pod in holders):
            for pod in holders:
                whole = Fraction(1)
                named = [(device, whole) for device in here if self._named(device, pod)]
                mine[pod.uid] = [(here[0], Fraction(1))] * pod.devices if len(here) == 1 else named[: pod.devices]
            return mine, []
        for device in here:
            owner = next(
                (pod for pod in holders if self._named(device, pod) and len(mine[pod.uid]) < pod.devices), None
            )
            if owner:
                mine[owner.uid].append((device, Fraction(1)))
            else:
                spare.append(device)
        lacking = {pod.uid: pod.devices - len(mine[pod.uid]) for pod in holders}
        total = sum(lacking.values())
        if full and total:
            given, spare = spare[:total], spare[total:]
            for uid, count in lacking.items():
                if len([one for one in lacking.values() if one]) == 1:
                    mine[uid] += [(device, Fraction(1)) for device in given if count]
                elif count:
                    mine[uid] += [(device, Fraction(count, total)) for device in given]
        elif total:
            spare = []  # any of them may be what a holder lacks, so none is surely without a holder
        return mine, spare

    def _named(self, device: Device, pod: Pod) -> bool:
        return any(
            (namespace, name) == (pod.namespace, pod.name) and pod.holds(ts) for ts, namespace, name in device.named
        )

    def _was_held(self, device: Device, seen: int, at: int) -> bool:
        """A sample taken while somebody held the card, or may have, says nothing of the time after."""
        before = [pod for pod in self.pods if pod.node == device.node and pod.from_ms <= at and seen < pod.to_ms <= at]
        return any(self._named(device, pod) or self._lacks(pod) or self._part(pod, at) != 1 for pod in before)

    def _lacks(self, pod: Pod) -> bool:
        return sum(self._named(device, pod) for device in self.devices) < pod.devices

    def _idle_and_busy(self, pieces: Any, time: Times) -> list[tuple[str, str, str, int, int]]:
        """Idle spans count from the first sample below the threshold; one taken before the pod ran is none of it."""
        spans: list[tuple[str, str, str, int, int]] = []
        for (workload, uid, card), parts in pieces.items():
            parts.sort(key=lambda part: part[0])
            pod = parts[0][3]
            index = 0
            while index < len(parts):
                end = index
                while (
                    end < len(parts)
                    and parts[end][2].value < self.rules.activity_threshold
                    and (parts[end - 1][1] == parts[end][0] if end > index else parts[end][2].seen >= pod.running_ms)
                ):
                    end += 1
                low, high = parts[index][0], parts[end - 1][1] if end > index else parts[index][0]
                whole = parts[index][4] == 1 and _slices(pod.resource) is None
                if end > index and whole and high - low >= self.rules.idle_after_ms:
                    spans.append((workload, uid, card, low, high))
                    for one in parts[index:end]:
                        self._add(time, one[0], one[1], workload, "idle_held", Fraction(one[1] - one[0]))
                    index = end
                    continue
                for one in parts[index : max(end, index + 1)]:
                    self._observed(one, workload, time)
                index = max(end, index + 1)
        return spans

    def _observed(self, piece: tuple[int, int, Held, Pod, Fraction], workload: str, time: Times) -> None:
        low, high, sample, pod, part = piece
        value = sample.value
        total = part * (high - low)
        self._add(time, low, high, workload, "underused", total * (1 - value))
        for gpu_class, share in self._shares(pod, low).items():
            self._add(time, low, high, workload, gpu_class, total * value * share)

    def _shares(self, pod: Pod, at: int) -> dict[str, Fraction]:
        of_workload = [one for one in self.judged if (one.namespace, one.workload) == (pod.namespace, pod.workload)]
        covering = [one for one in of_workload if one.pod_uid in (None, pod.uid) and one.from_ms <= at < one.to_ms]
        if not covering:
            return {"unjudged.unattributed" if of_workload else "unjudged.unverified": Fraction(1)}
        weights = [one.weight for one in covering]
        if not any(weights):
            weights = [1] * len(covering)
        shares: defaultdict[str, Fraction] = defaultdict(Fraction)
        for one, weight in zip(covering, weights, strict=True):
            shares[one.status.gpu_class.value] += Fraction(weight, sum(weights))
        return shares

    def _add(self, time: Times, low: int, high: int, workload: str | None, gpu_class: str, part: Fraction) -> None:
        inside = self.window.from_ms <= low and high <= self.window.to_ms
        if inside and part:
            time[workload, low - low % HOUR_MS, gpu_class] += part
