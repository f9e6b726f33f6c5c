"""Clusters seen from above: what truly happened, and what scrapes of it leave in a ledger.

A world is made from a seed. Its truth is continuous: cards change at instants, whether or not anything is scraped
then. `scraped` writes the rows that a collector would have stored.
"""

from __future__ import annotations

import hashlib
import itertools
import random
import statistics
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any  # rows of mixed types

from doubles.observations import DAY
from gpuyield.ledger import Ledger
from gpuyield.ledger.tables import RUNS, SAMPLES, SCRAPES, SERIES, Activity, RunKind
from gpuyield.units import DAY_MS, HOUR_MS, MINUTE_MS, Window, day_name

START = DAY + 20 * HOUR_MS
LEVELS = (0.0, 0.0, 0.01, 0.04, 0.05, 0.25, 0.5, 0.75, 1.0)
THRESHOLD = 0.05
NAN = float("nan")
PHASES = ("Pending", "Running", "Succeeded", "Failed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """What kind of world is made; times fall on multiples of `grid_ms`."""

    grid_ms: int = 12_000
    every_ms: int = MINUTE_MS
    length_ms: int = 6 * HOUR_MS
    change_ms: int = 6 * MINUTE_MS
    nodes: int = 2
    kinds: tuple[str, ...] = ("whole",)
    jitter_ms: int = 0
    loss: float = 0.0
    state_loss: float = 0.0
    outages: int = 0
    interval_changes: bool = False
    state_interval_changes: bool = False
    impossible: float = 0.0
    lag_ms: int = 0
    times: float = 0.5
    labels: bool = True
    states: bool = True
    metrics: tuple[str, ...] = ("gr",)
    twice: bool = False
    names_reused: bool = False
    strays: float = 0.3


@dataclass(frozen=True, slots=True)
class Slot:
    """A card or a MIG instance, with its true activity as steps."""

    card: str
    instance: str
    profile: str
    steps: tuple[tuple[int, float], ...] = ()

    def value(self, at: int) -> float:
        return next((value for begin, value in reversed(self.steps) if begin <= at), 0.0)


@dataclass(frozen=True, slots=True)
class TruePod:
    namespace: str
    name: str
    uid: str
    node: str
    slots: tuple[int, ...]
    resource: str
    from_ms: int
    running_ms: int
    to_ms: int
    gone_ms: int
    times: bool
    phase_after: str


@dataclass(slots=True)
class TrueNode:
    name: str
    kind: str
    life: Window
    cards: int
    slots: list[Slot]
    replicas: int = 1
    not_ready: Window | None = None
    cordoned: Window | None = None
    unhealthy: Window | None = None
    says_ready: bool = True


@dataclass(slots=True)
class World:
    traits: Traits
    window: Window
    nodes: list[TrueNode]
    pods: list[TruePod]
    state_times: list[int]
    card_times: dict[str, list[int]]
    chance: random.Random = field(default_factory=random.Random)

    def ledger(self, folder: Path) -> Ledger:
        """What scrapes of this world leave behind."""
        made = Ledger.create(folder)
        chance = random.Random(self.window.from_ms + len(self.pods))
        rows = _state_rows(self) | _card_rows(self, chance) | _scrape_rows(self)
        tables = {table.name: table for table in (RUNS, SAMPLES, SERIES, SCRAPES)}
        for (name, day), found in rows.items():
            table = tables[name]
            made.replace_day(table, day, {column: [row[column] for row in found] for column in table.columns})
        return made


def make_world(seed: int, traits: Traits) -> World:
    """A world that follows from its seed and traits."""
    chance = random.Random(seed)
    window = Window(START, START + traits.length_ms)
    nodes = [_node(f"node-{index}", chance, traits, window) for index in range(traits.nodes)]
    pods: list[TruePod] = []
    for node in nodes:
        _fill(node, pods, chance, traits)
    card_times = {}
    for node in nodes:
        card_times[node.name] = _times(chance, traits, window, loss=traits.loss, changes=traits.interval_changes)
    return World(
        traits,
        window,
        nodes,
        pods,
        _times(chance, traits, window, loss=traits.state_loss, changes=traits.state_interval_changes),
        card_times,
    )


def _grid(instant: int, traits: Traits) -> int:
    return instant - instant % traits.grid_ms


def _times(chance: random.Random, traits: Traits, window: Window, *, loss: float, changes: bool) -> list[int]:
    """Instants of scrapes: jitter, loss, outages, one change of interval."""
    change = chance.randrange(window.from_ms, window.to_ms) if changes else window.to_ms
    after = chance.choice([traits.every_ms // 2, traits.every_ms * 2])
    outages = []
    for _ in range(traits.outages):
        low = chance.randrange(window.from_ms + 20 * MINUTE_MS, window.to_ms - 60 * MINUTE_MS)
        outages.append((low, low + chance.choice([2, 4, 6, 10, 40]) * MINUTE_MS))
    instant, times = window.from_ms, []
    while instant < window.to_ms:
        lost = chance.random() < loss or any(low <= instant < high for low, high in outages)
        shift = chance.randrange(-traits.jitter_ms, traits.jitter_ms + 1) if traits.jitter_ms else 0
        if (not lost) or instant == window.from_ms:
            times.append(max(window.from_ms, instant + shift))
        instant += traits.every_ms if instant < change else after
    return sorted(set(times))


def _node(name: str, chance: random.Random, traits: Traits, window: Window) -> TrueNode:
    kind = chance.choice(traits.kinds)
    low, high = window.from_ms, window.to_ms
    if name != "node-0":
        low += _grid(chance.randrange(0, window.length_ms // 3), traits) if chance.random() < 0.5 else 0
        high -= _grid(chance.randrange(0, window.length_ms // 3), traits) if chance.random() < 0.5 else 0
    life = Window(low, high)
    cards = chance.randint(1, 4 if kind == "whole" else 2)
    slots = []
    for number in range(cards):
        card = f"GPU-{name}-{number}"
        if kind == "mig":
            layout = chance.choice([(3, 3), (3, 2, 1, 1), (7,), (1, 1, 1, 1, 1, 1, 1), (4, 2), (2, 2, 2)])
            slots += [Slot(card, str(at), f"{one}g.{one}0gb") for at, one in enumerate(layout)]
        else:
            slots.append(Slot(card, "", ""))
    node = TrueNode(name, kind, life, cards, slots, replicas=4 if kind == "shared" else 1)
    if traits.states:
        node.says_ready = chance.random() < 0.7
        for what in ("not_ready", "cordoned", "unhealthy"):
            if chance.random() < 0.3 and (what != "not_ready" or node.says_ready):
                begin = life.from_ms + _grid(chance.randrange(life.length_ms), traits)
                end = min(life.to_ms, begin + _grid(chance.randrange(12_000, 3 * HOUR_MS), traits))
                if end > begin and (what != "unhealthy" or kind == "whole"):
                    setattr(node, what, Window(begin, end))
    return node


def _fill(node: TrueNode, pods: list[TruePod], chance: random.Random, traits: Traits) -> None:
    """Pods one after the other on the slots of a node, and what its cards did."""
    taken: dict[int, list[Window]] = defaultdict(list)
    steps: dict[int, list[tuple[int, float]]] = defaultdict(list)
    for number in range(chance.randint(0, 3 + 3 * len(node.slots))):
        begin = node.life.from_ms + _grid(chance.randrange(node.life.length_ms), traits)
        if chance.random() < 0.4 and pods and pods[-1].node == node.name:
            begin = pods[-1].to_ms
        end = min(node.life.to_ms, begin + 2 * traits.change_ms + _grid(chance.randrange(3 * HOUR_MS), traits))
        if end - begin < 2 * traits.change_ms:
            continue
        span = Window(begin, end)
        clear = Window(begin - traits.change_ms, end + traits.change_ms)
        free = [
            at
            for at in range(len(node.slots))
            if all(not one.cut(clear) or one.to_ms == begin or one.from_ms == end for one in taken[at])
        ]
        if node.kind == "mig" and free:
            first = chance.choice(free)
            free = [at for at in free if node.slots[at].profile == node.slots[first].profile]
        if not free:
            continue
        slots = tuple(chance.sample(free, chance.randint(1, len(free))))
        starting = chance.choice([0, traits.change_ms, 2 * traits.change_ms])
        running = min(end, begin + starting)
        for at in slots:
            taken[at].append(span)
            steps[at] += [(begin, 0.0), *_levels(chance, traits, running, end)]
        profile = node.slots[slots[0]].profile
        reused = [one for one in pods if one.node == node.name and one.gone_ms <= begin]
        name = f"pod-{node.name}-{number}"
        if traits.names_reused and reused and chance.random() < 0.5 and not traits.lag_ms:
            name = reused[0].name
            if any(one.name == name and one.from_ms < end and begin < one.gone_ms for one in pods):
                name = f"pod-{node.name}-{number}"
        gone = min(node.life.to_ms, end + chance.choice([0, 0, 3, 20]) * MINUTE_MS)
        pods.append(
            TruePod(
                namespace=chance.choice(["a", "b"]) if name.endswith(f"-{number}") else reused[0].namespace,
                name=name,
                uid=f"uid-{node.name}-{number}",
                node=node.name,
                slots=slots,
                resource=f"nvidia_com_mig_{profile.replace('.', '_')}" if profile else _resource(node),
                from_ms=begin,
                running_ms=running,
                to_ms=end,
                gone_ms=gone,
                times=chance.random() < traits.times,
                phase_after=chance.choice(["Succeeded", "Failed"]),
            )
        )
    for at, slot in enumerate(node.slots):
        free_from = node.life.from_ms
        for span in [*sorted(taken[at], key=lambda one: one.from_ms), Window(node.life.to_ms, node.life.to_ms)]:
            if span.from_ms > free_from:
                stray = chance.random() < traits.strays
                steps[at].append((free_from, chance.choice([0.04, 0.05, 0.5]) if stray else 0.0))
            free_from = span.to_ms
        node.slots[at] = replace(slot, steps=tuple(sorted(steps[at], key=lambda one: one[0])))


def _resource(node: TrueNode) -> str:
    return "nvidia_com_gpu_shared" if node.kind == "shared" else "nvidia_com_gpu"


def _levels(chance: random.Random, traits: Traits, begin: int, end: int) -> list[tuple[int, float]]:
    steps = []
    while begin < end:
        steps.append((begin, chance.choice(LEVELS)))
        begin += traits.change_ms + _grid(chance.randrange(HOUR_MS), traits)
        if end - begin < traits.change_ms:
            break
    return steps


# What scrapes leave behind


def _state_rows(world: World) -> dict[tuple[str, str], list[dict[str, Any]]]:
    seen: dict[tuple[tuple[str, str], ...], list[tuple[int, float]]] = defaultdict(list)

    def see(at: int, kind: RunKind, value: float = 1.0, **columns: str) -> None:
        seen[tuple(sorted({"kind": kind.value, **columns}.items()))].append((at, value))

    for at in world.state_times:
        for node in world.nodes:
            if node.life.from_ms <= at < node.life.to_ms:
                _see_node(node, at, see)
        for pod in world.pods:
            if pod.from_ms <= at < pod.gone_ms:
                _see_pod(pod, at, see)
    rows: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    columns = ("node", "namespace", "pod", "uid", "container", "resource", "detail", "text", "name")
    for key, samples in seen.items():
        by_day: dict[int, list[tuple[int, float]]] = defaultdict(list)
        for at, value in samples:
            by_day[at // DAY_MS].append((at, value))
        for of_day in by_day.values():
            spacings = [high[0] - low[0] for low, high in itertools.pairwise(of_day)]
            interval = int(statistics.median(spacings)) if spacings else MINUTE_MS
            first = 0
            for index in range(1, len(of_day) + 1):
                if index == len(of_day) or of_day[index][1] != of_day[first][1] or spacings[index - 1] > 300_000:
                    row: dict[str, Any] = {**dict.fromkeys(columns, ""), **dict(key)}
                    last = of_day[index - 1][0]
                    row |= {"value": of_day[first][1], "from_ms": of_day[first][0], "to_ms": last}
                    rows[RUNS.name, day_name(last)].append(row | {"interval_ms": interval})
                    first = index
    return dict(rows)


def _scrape_rows(world: World) -> dict[tuple[str, str], list[dict[str, Any]]]:
    rows: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for at in world.state_times:
        rows[SCRAPES.name, day_name(at)].append({"target": "kube-state-metrics:8080", "ts_ms": at})
    return dict(rows)


def _within(span: Window | None, at: int) -> bool:
    return span is not None and span.from_ms <= at < span.to_ms


def _see_node(node: TrueNode, at: int, see: Any) -> None:
    offered = {"nvidia_com_gpu": node.cards}
    if node.kind == "mig":
        offered = {"nvidia_com_gpu": 0}
        for profile, count in Counter(slot.profile for slot in node.slots).items():
            offered[f"nvidia_com_mig_{profile.replace('.', '_')}"] = count
    if node.kind == "shared":
        offered = {"nvidia_com_gpu_shared": node.cards * node.replicas}
    for resource, amount in offered.items():
        usable = amount - 1 if _within(node.unhealthy, at) else amount
        see(at, RunKind.NODE_CAPACITY, amount, node=node.name, resource=resource)
        see(at, RunKind.NODE_ALLOCATABLE, usable, node=node.name, resource=resource)
    if node.says_ready:
        see(at, RunKind.NODE_READY, 0 if _within(node.not_ready, at) else 1, node=node.name)
    see(at, RunKind.NODE_CORDONED, 1 if _within(node.cordoned, at) else 0, node=node.name)
    if node.kind != "whole":
        labels = {"gpu.count": str(node.cards), "gpu.product": "NVIDIA-H100", "gpu.replicas": str(node.replicas)}
        for key, text in labels.items():
            see(at, RunKind.NODE_LABEL, node=node.name, detail=key, text=text)


def _see_pod(pod: TruePod, at: int, see: Any) -> None:
    who = {"namespace": pod.namespace, "pod": pod.name, "uid": pod.uid}
    asked = {"node": pod.node, "container": "main", "resource": pod.resource}
    see(at, RunKind.POD_REQUEST, len(pod.slots), **asked, **who)
    phase = "Pending" if at < pod.running_ms else "Running" if at < pod.to_ms else pod.phase_after
    for one in PHASES:
        see(at, RunKind.POD_PHASE, 1 if one == phase else 0, detail=one, **who)
    see(at, RunKind.POD_OWNER, detail="Job", text=workload_of(pod), **who)
    if pod.times:
        see(at, RunKind.POD_SCHEDULED, pod.from_ms, **who)
        if pod.running_ms < pod.to_ms and at >= pod.running_ms:
            see(at, RunKind.CONTAINER_STARTED, pod.running_ms, container="main", **who)
        if at >= pod.to_ms:
            see(at, RunKind.POD_COMPLETED, pod.to_ms, **who)


def workload_of(pod: TruePod) -> str:
    """The Job that a pod belongs to."""
    return f"job-{pod.uid}"


def _card_rows(world: World, chance: random.Random) -> dict[tuple[str, str], list[dict[str, Any]]]:
    traits = world.traits
    rows: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    series: dict[tuple[str, int], dict[str, Any]] = {}
    first_day = world.window.from_ms // DAY_MS
    for node in world.nodes:
        for index, slot in enumerate(node.slots):
            metrics = chance.choice(traits.metrics)
            twice = traits.twice and chance.random() < 0.5
            for at in world.card_times[node.name]:
                if not node.life.from_ms <= at < node.life.to_ms:
                    continue
                value = NAN if chance.random() < traits.impossible else slot.value(at)
                on_second_day = at // DAY_MS > first_day
                printed = {
                    "gr": [Activity.GR_ENGINE_ACTIVE],
                    "util": [Activity.GPU_UTIL],
                    "both": [Activity.GR_ENGINE_ACTIVE, Activity.GPU_UTIL],
                    "later": [Activity.SM_ACTIVE] if on_second_day else [Activity.GR_ENGINE_ACTIVE],
                    "better": [Activity.SM_ACTIVE, Activity.GR_ENGINE_ACTIVE]
                    if on_second_day
                    else [Activity.GR_ENGINE_ACTIVE],
                }[metrics]
                pod = _named_on(world, node, index, at - traits.lag_ms) if traits.labels else None
                for metric in printed:
                    for source in ("one", "two") if twice and metric is printed[0] else ("one",):
                        label = _label(slot, node, pod, metric, source)
                        number = int.from_bytes(
                            hashlib.sha256(repr(sorted(label.items())).encode()).digest()[:7], "big"
                        )
                        told = value if metric is printed[0] or value != value else min(1.0, 2 * value)
                        rows[SAMPLES.name, day_name(at)].append({"series": number, "ts_ms": at, "value": told})
                        series[day_name(at), number] = label
    for (day, number), label in series.items():
        rows[SERIES.name, day].append({"series": number, **label})
    return dict(rows)


def _named_on(world: World, node: TrueNode, index: int, at: int) -> TruePod | None:
    on_it = [pod for pod in world.pods if pod.node == node.name and index in pod.slots]
    return next((pod for pod in on_it if pod.from_ms <= at < pod.to_ms), None)


def _label(slot: Slot, node: TrueNode, pod: TruePod | None, metric: Activity, source: str) -> dict[str, str]:
    return {
        "metric": metric.value,
        "name": f"TEST_{metric.value}",
        "card": slot.card,
        "instance": slot.instance,
        "profile": slot.profile,
        "slot": "",
        "node": node.name,
        "namespace": pod.namespace if pod else "",
        "pod": pod.name if pod else "",
        "uid": "",
        "container": "",
        "vgpu": "",
        "model": "",
        "source": source,
    }


# The truth


def truth(world: World, idle_after_ms: int, window: Window) -> Counter[tuple[str | None, int, str]]:
    """GPU time by team (the namespace), hour and class within a window; for whole cards only. Busy is one class."""
    found: Counter[tuple[str | None, int, str]] = Counter()
    for node in world.nodes:
        life = node.life.cut(window)
        if life is None:
            continue
        edges = {life.from_ms, life.to_ms}
        edges |= set(range(node.life.from_ms - node.life.from_ms % HOUR_MS, node.life.to_ms, HOUR_MS))
        for span in (node.not_ready, node.cordoned, node.unhealthy):
            edges |= {span.from_ms, span.to_ms} if span else set()
        pods = [pod for pod in world.pods if pod.node == node.name]
        edges |= {edge for pod in pods for edge in (pod.from_ms, pod.running_ms, pod.to_ms)}
        edges |= {begin for slot in node.slots for begin, _ in slot.steps}
        order = sorted(edge for edge in edges if life.from_ms <= edge <= life.to_ms)
        idle = {(pod.uid, at): _idle(pod, node, node.slots[at], idle_after_ms) for pod in pods for at in pod.slots}
        for low, high in itertools.pairwise(order):
            _true_step(node, pods, low, high, idle, found)
    return found


def _idle(pod: TruePod, node: TrueNode, slot: Slot, idle_after_ms: int) -> list[Window]:
    edges = sorted({pod.running_ms, pod.to_ms, *(b for b, _ in slot.steps if pod.running_ms < b < pod.to_ms)})
    if node.not_ready:
        edges = sorted(
            {*edges, *(e for e in (node.not_ready.from_ms, node.not_ready.to_ms) if edges[0] < e < edges[-1])}
        )
    spans: list[Window] = []
    for low, high in itertools.pairwise(edges):
        if slot.value(low) < THRESHOLD and not _within(node.not_ready, low):
            if spans and spans[-1].to_ms == low:
                spans[-1] = Window(spans[-1].from_ms, high)
            else:
                spans.append(Window(low, high))
    return [one for one in spans if one.length_ms >= idle_after_ms]


def _true_step(node: TrueNode, pods: Sequence[TruePod], low: int, high: int, idle: Any, found: Counter[Any]) -> None:
    hour, length = low - low % HOUR_MS, high - low
    taken = 0
    holders = [pod for pod in pods if pod.from_ms <= low < pod.to_ms]
    for pod in holders:
        for at in pod.slots:
            taken += 1
            value = node.slots[at].value(low)
            if _within(node.not_ready, low):
                found[pod.namespace, hour, "unobserved"] += length
            elif low < pod.running_ms:
                found[pod.namespace, hour, "starting"] += length
            elif any(_within(one, low) for one in idle[pod.uid, at]):
                found[pod.namespace, hour, "idle_held"] += length
            else:
                busy = round(length * value)
                found[pod.namespace, hour, "busy"] += busy
                found[pod.namespace, hour, "underused"] += length - busy
    free = node.cards - taken
    down = _within(node.not_ready, low) or _within(node.cordoned, low)
    unavailable = free if down else min(free, 1 if _within(node.unhealthy, low) else 0)
    found[None, hour, "unavailable"] += unavailable * length
    idle_slots = [slot for at, slot in enumerate(node.slots) if not any(at in pod.slots for pod in holders)]
    active = sum(slot.value(low) >= THRESHOLD for slot in idle_slots)
    bypassed = min(free - unavailable, active)
    found[None, hour, "bypassed"] += bypassed * length
    found[None, hour, "unallocated"] += (free - unavailable - bypassed) * length
