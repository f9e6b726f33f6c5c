"""Nodes over time: how many cards they have, how many of these are broken, and whether work may be placed.

Cards are physical. They come from the `gpu.count` label where devices are MIG slices or shared replicas, else from
the node's capacity, else (bounded) from what is allocatable. A node that is absent while kube-state-metrics answers
for others is gone; while kube-state-metrics itself is silent, a node seen on both sides is bridged.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from gpuyield.account.facts import Fact, Run, RunsByKind, Timeline, timelines
from gpuyield.account.scrapes import Scrapes
from gpuyield.ledger.tables import RunKind
from gpuyield.model.cells import Ints
from gpuyield.model.evidence import Gap
from gpuyield.model.gpu import DeviceKind, device_kind, flavor_of, mig_slices, slices_per_card
from gpuyield.units import Window, merge_windows


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeState:
    """What a node was during `[from_ms, to_ms)`.

    `cards` are physical; `broken` of them are known but not allocatable. `slices` is how many MIG slices a card
    has where devices are slices, `replicas` how many pods share one where they are shared; `single_slices` the
    slices of one whole-looking device where MIG instances are advertised as whole devices. `bridged` says that
    kube-state-metrics was silent and the node was seen on both sides. The change at `from_ms` is known from samples:
    it truly came within `from_slack_ms` before it. `to_slack_ms` is how much earlier a node may have gone that is not
    there any more at `to_ms`.
    """

    from_ms: int
    to_ms: int
    cards: int
    broken: int = 0
    ready: bool = True
    cordoned: bool = False
    flavor: str | None = None
    slices: int = 7
    replicas: int | None = None
    single_slices: int | None = None
    bounded: bool = False
    bridged: bool = False
    from_slack_ms: int = 0
    to_slack_ms: int = 0

    @property
    def usable(self) -> bool:
        """Whether work may be placed on it."""
        return self.ready and not self.cordoned


@dataclass(frozen=True, slots=True, kw_only=True)
class Nodes:
    """All nodes over time.

    `present` is when what kube-state-metrics told of any node holds; `sampled` are the spans from a first sample to
    a last one (inclusive), between which it fell silent; `scrapes` are the moments at which it answered.
    """

    states: dict[str, tuple[NodeState, ...]]
    present: tuple[Window, ...]
    sampled: tuple[Window, ...] = ()
    scrapes: Scrapes = field(default_factory=Scrapes)
    gaps: tuple[Gap, ...] = field(default=())

    def at(self, node: str, at_ms: int) -> NodeState | None:
        """The state of a node at an instant."""
        return next((one for one in self.states.get(node, ()) if one.from_ms <= at_ms < one.to_ms), None)

    def silences(self) -> list[Window]:
        """When kube-state-metrics was silent between two times at which it answered."""
        return [Window(left.to_ms, right.from_ms) for left, right in pairwise(self.present)]


def node_states(runs: RunsByKind, *, gap_limit_ms: int, moments: Sequence[Ints] = ()) -> Nodes:
    """Every node's states in order, disjoint and without a state where the node is gone or nothing is known.

    `moments` are those at which each target that tells the cluster's state answered.
    """
    by_node: dict[str, dict[str, Timeline]] = defaultdict(dict)
    for kind in _NODE_KINDS:
        groups: dict[tuple[str, str], list[Run]] = defaultdict(list)
        for run in runs.get(kind, ()):
            groups[run.node, run.resource or run.detail].append(run)
        for (node, what), line in timelines(groups, gap_limit_ms).items():
            by_node[node][f"{kind}:{what}" if what else kind] = line
    counted = [
        fact
        for lines in by_node.values()
        for name, line in lines.items()
        if name.startswith((RunKind.NODE_CAPACITY, RunKind.NODE_ALLOCATABLE))
        for fact in line.facts
    ]
    present = merge_windows(fact.window for fact in counted)
    sampled = merge_windows(fact.sampled for fact in counted)
    states: dict[str, tuple[NodeState, ...]] = {}
    gaps: list[Gap] = []
    for node in sorted(by_node):
        made, problems = _states_of(node, by_node[node], sampled)
        if made:
            states[node] = made
        gaps += problems
    return Nodes(
        states=states,
        present=tuple(present),
        scrapes=Scrapes(moments, sampled, gap_limit_ms),
        sampled=tuple(sampled),
        gaps=tuple(gaps),
    )


_NODE_KINDS = (
    RunKind.NODE_CAPACITY,
    RunKind.NODE_ALLOCATABLE,
    RunKind.NODE_CORDONED,
    RunKind.NODE_READY,
    RunKind.NODE_LABEL,
)


def _states_of(
    node: str, lines: dict[str, Timeline], sampled: Sequence[Window]
) -> tuple[tuple[NodeState, ...], list[Gap]]:
    counted = [
        fact
        for name, line in lines.items()
        if name.startswith((f"{RunKind.NODE_CAPACITY}:", f"{RunKind.NODE_ALLOCATABLE}:"))
        for fact in line.facts
    ]
    known = merge_windows(fact.window for fact in counted)
    bridges = [
        Window(left.to_ms, right.from_ms)
        for left, right in pairwise(known)
        if not _others_answered(
            max((fact for fact in counted if fact.to_ms == left.to_ms), key=lambda fact: fact.last_ms),
            next(fact for fact in counted if fact.from_ms == right.from_ms),
            sampled,
        )
    ]
    spans = [(window, False) for window in known] + [(window, True) for window in bridges]
    edges = sorted({edge for line in lines.values() for edge in line.edges()})
    made: list[NodeState] = []
    gaps: dict[str, Gap] = {}
    for span, bridged in sorted(spans, key=lambda one: one[0]):
        cuts = [span.from_ms, *(edge for edge in edges if span.from_ms < edge < span.to_ms), span.to_ms]
        for low, high in pairwise(cuts):
            state, gap = _state_at(node, lines, low, high, bridged=bridged)
            if gap and gap.reason not in gaps:
                gaps[gap.reason] = gap
            if state and state.cards:
                since_ms = made[-1].from_ms if made and made[-1].bridged and made[-1].to_ms == low else low
                to_slack = max((fact.to_ms - fact.last_ms for fact in counted if fact.to_ms == high), default=0)
                from_slack = max(line.slack_ms(low) for line in lines.values()) + low - since_ms
                _append(made, replace(state, from_slack_ms=from_slack, to_slack_ms=to_slack))
    return tuple(made), list(gaps.values())


def _others_answered(before: Fact, after: Fact, sampled: Iterable[Window]) -> bool:
    """Whether any node was sampled between two facts of one; scrapes half an interval apart count as the same."""
    low, high = before.last_ms + before.interval_ms // 2, after.from_ms - after.interval_ms // 2
    return low < high and any(Window(low, high).cut(one) for one in sampled)


def _append(states: list[NodeState], state: NodeState) -> None:
    last = states[-1] if states else None
    if last and last.to_ms == state.from_ms and _same(last, state):
        states[-1] = replace(last, to_ms=state.to_ms, to_slack_ms=state.to_slack_ms)
    else:
        states.append(state)


def _same(one: NodeState, other: NodeState) -> bool:
    return _timeless(one) == _timeless(other)


def _timeless(state: NodeState) -> NodeState:
    return replace(state, from_ms=0, to_ms=0, from_slack_ms=0, to_slack_ms=0)


def _state_at(
    node: str, lines: dict[str, Timeline], low: int, high: int, *, bridged: bool
) -> tuple[NodeState | None, Gap | None]:
    def fact(name: str) -> Fact | None:
        line = lines.get(name)
        if line is None:
            return None
        return line.at(low) or (line.before(low) if bridged else None)

    def amounts(kind: RunKind) -> dict[str, int]:
        found = {}
        for name in lines:
            if name.startswith(f"{kind}:"):
                held = fact(name)
                if held and math.isfinite(held.value):
                    found[name.partition(":")[2]] = int(held.value)
        return found

    def label(key: str) -> str:
        name = f"{RunKind.NODE_LABEL}:{key}"
        line = lines.get(name)
        # Labels rarely change and are printed less reliably than counts: the nearest one known will do.
        held = fact(name) or (line and (line.before(low) or line.after(low)))
        return held.text if held else ""

    capacity, allocatable = amounts(RunKind.NODE_CAPACITY), amounts(RunKind.NODE_ALLOCATABLE)
    offered = capacity or allocatable
    whole = _of_kind(offered, DeviceKind.WHOLE)
    product = label("gpu.product")
    slices = slices_per_card(product)
    single = mig_slices(product) if label("mig.strategy") == "single" and "mig" in product.lower() else None
    replicas = _positive(label("gpu.replicas"))
    shared = _of_kind(offered, DeviceKind.SHARED)
    mig = sum((mig_slices(name) or 0) * n for name, n in offered.items() if device_kind(name) is DeviceKind.MIG)
    fractional = bool(shared or mig or single or (replicas or 1) > 1)
    counted = _positive(label("gpu.count"))
    gap: Gap | None = None
    bounded = not capacity
    if fractional and counted:
        cards = counted
    elif fractional:
        per_card = replicas or 1
        cut = single or 0
        cards = (
            math.ceil(mig / slices)
            + math.ceil(shared / per_card)
            + (math.ceil(whole * cut / slices) if cut else math.ceil(whole / (per_card if not shared else 1)))
        )
        bounded = True
        gap = Gap(reason="cards of a MIG or shared node estimated: no label tells how many it has", where=node)
    else:
        cards = whole
        if bounded and cards:
            gap = Gap(reason="cards taken from what is allocatable: the node's capacity is not reported", where=node)
    if not cards:
        return None, gap
    broken = (
        max(0, whole - _of_kind(allocatable, DeviceKind.WHOLE)) if capacity and allocatable and not fractional else 0
    )
    ready, cordoned = fact(RunKind.NODE_READY), fact(RunKind.NODE_CORDONED)
    return (
        NodeState(
            from_ms=low,
            to_ms=high,
            cards=cards,
            broken=min(broken, cards),
            ready=ready is None or ready.value >= 1,
            cordoned=cordoned is not None and cordoned.value >= 1,
            flavor=label("flavor") or flavor_of(product.partition("-MIG")[0]),
            slices=slices,
            replicas=_replicas(replicas, shared, cards),
            single_slices=single,
            bounded=bounded,
            bridged=bridged,
        ),
        gap,
    )


def _replicas(labelled: int | None, shared: int, cards: int) -> int | None:
    if labelled and (labelled > 1 or shared):
        return labelled
    return max(1, shared // cards) if shared else None


def _of_kind(amounts: dict[str, int], kind: DeviceKind) -> int:
    return sum(amount for resource, amount in amounts.items() if device_kind(resource) is kind)


def _positive(text: str) -> int | None:
    try:
        number = int(float(text))
    except (ValueError, OverflowError):
        return None
    return number if number > 0 else None
