"""The time of cards that nobody holds: unavailable, bypassed, and unallocated by why.

Per node and instant, first match: broken cards and nodes that take no work are unavailable; a free card whose
activity reaches the threshold is bypassed, whole; while pods wait, as many free cards as they ask for are fragmented
(no single node has room for any of them) or unexplained (one has, and yet they wait); as many more as Jobs ask for
that their queue holds back are blocked by quota; the rest has no demand. Free cards of a bridged node are unexplained.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gpuyield.account.activity import PPB, Device, Devices
from gpuyield.account.nodes import Nodes, NodeState
from gpuyield.account.pods import Waiting
from gpuyield.account.shares import Track
from gpuyield.account.tracks import Free, Tracks, without
from gpuyield.model.cells import Ints
from gpuyield.model.gpu import DeviceKind, device_kind
from gpuyield.model.waterfall import GpuClass
from gpuyield.units import Window, merge_windows


@dataclass(frozen=True, slots=True, kw_only=True)
class FreeTime:
    """Free GPU time of one node: per piece its start and end, the node's state, class and GPU-milliseconds."""

    node: str
    from_ms: Ints
    to_ms: Ints
    state: tuple[NodeState, ...]
    gpu_class: tuple[GpuClass, ...]
    gpu_ms: Ints
    overheld: tuple[Window, ...]
    """When pods held more than the node has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FreeSteps:
    """Whole free cards that take work on a node: `amount[i]` from `from_ms[i]` on, 0 before the first."""

    from_ms: Ints
    amount: Ints

    def at(self, at_ms: Ints) -> Ints:
        """Free cards at these instants."""
        index = np.searchsorted(self.from_ms, at_ms, side="right") - 1
        return (
            np.where(index >= 0, self.amount[np.maximum(index, 0)], 0)
            if len(self.amount)
            else np.zeros(len(at_ms), dtype=np.int64)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Bypass:
    """When free cards of a node were active: windows of different cards, which may overlap.

    `doubtful` are the parts of `active` in which a card may not have been; in `perhaps` one may have been as well.
    """

    active: tuple[Window, ...]
    doubtful: tuple[Window, ...]
    perhaps: tuple[Window, ...]


def bypassed_windows(free: Sequence[Free], threshold_ppb: int) -> dict[str, Bypass]:
    """When devices without a holder were active, by node."""
    found: dict[str, list[list[Window]]] = defaultdict(lambda: [[], [], []])
    for one in free:
        for kept, windows in zip(found[one.device.node], _activity_of(one, threshold_ppb), strict=True):
            kept += merge_windows(windows)
    return {
        node: Bypass(active=tuple(active), doubtful=tuple(doubtful), perhaps=tuple(perhaps))
        for node, (active, doubtful, perhaps) in found.items()
    }


def _activity_of(one: Free, threshold_ppb: int) -> tuple[list[Window], list[Window], list[Window]]:
    """When one free device was active, may then not have been, and may have been besides.

    Between a hold and the first sample after it the activity is that sample's: a sample taken while somebody still
    held the card says nothing of the time after. Likewise the last sample before a hold tells all until then.
    """
    device, window = one.device, one.window
    low = max(0, int(np.searchsorted(device.start_ms, window.from_ms, side="right")) - 1)
    high = int(np.searchsorted(device.start_ms, window.to_ms))
    start, end = device.start_ms[low:high], device.end_ms[low:high]
    ppb, least, most = device.ppb[low:high], device.lo_ppb[low:high].copy(), device.hi_ppb[low:high].copy()
    if len(ppb) and device.held[high - 1] and end[-1] >= window.to_ms:
        least[-1] = most[-1] = ppb[-1]
    most[ppb < 0] = PPB
    own = start >= window.from_ms if one.after_hold else np.ones(len(start), dtype=np.bool_)
    if len(own) and not own[0]:
        most[0] = ppb[1] if len(ppb) > 1 and ppb[1] >= 0 else PPB
    active = (ppb >= threshold_ppb) & own
    doubtful = active & (least < threshold_ppb)
    perhaps = ~active & (most >= threshold_ppb)
    spans = [
        [
            cut
            for at in np.flatnonzero(chosen).tolist()
            if (cut := Window(int(start[at]), int(end[at])).cut(window)) is not None
        ]
        for chosen in (active, doubtful, perhaps)
    ]
    if len(start) and start[0] <= window.from_ms and end[-1] >= window.to_ms and device.held[low : high - 1].all():
        return spans[0], spans[1], spans[2]
    sampled = merge_windows(
        Window(low_ms, high_ms) for low_ms, high_ms in zip(start.tolist(), end.tolist(), strict=True)
    )
    return spans[0], spans[1], spans[2] + without([window], sampled)


def perhaps_bypassed(tracks: Tracks, nodes: Nodes, devices: Devices, threshold_ppb: int) -> dict[str, list[Window]]:
    """When a card was active of which nobody knows whether it had a holder, by node; a window for each card."""
    known: dict[tuple[str, str], list[Window]] = defaultdict(list)
    for track in tracks.tracks:
        if track.device:
            known[track.device.node, track.device.key.card].append(Window(track.from_ms, track.to_ms))
    for one in tracks.free:
        known[one.device.node, one.device.key.card].append(one.window)
    found: dict[str, list[Window]] = defaultdict(list)
    for node, on_node in devices.by_node().items():
        life = merge_windows(Window(state.from_ms, state.to_ms) for state in nodes.states.get(node, ()))
        for card in sorted({device.key.card for device in on_node}):
            unclear = without(life, merge_windows(known[node, card]))
            mine = [device for device in on_node if device.key.card == card] if unclear else []
            active = merge_windows(window for device in mine for window in _active(device, unclear, threshold_ppb))
            found[node] += [cut for one in active for span in unclear if (cut := one.cut(span))]
    return found


def _active(device: Device, spans: Sequence[Window], threshold_ppb: int) -> Iterator[Window]:
    for span in spans:
        low = max(0, int(np.searchsorted(device.start_ms, span.from_ms, side="right")) - 1)
        high = int(np.searchsorted(device.start_ms, span.to_ms))
        for at in np.flatnonzero(device.hi_ppb[low:high] >= threshold_ppb) + low:
            yield Window(int(device.start_ms[at]), int(device.end_ms[at]))


def free_steps(nodes: Nodes, tracks: Sequence[Track]) -> dict[str, FreeSteps]:
    """Whole free cards that take work, of each node over time; nodes of slices and replicas are left out."""
    by_node: dict[str, list[Track]] = defaultdict(list)
    for track in tracks:
        by_node[track.holding.node].append(track)
    steps = {}
    for node, states in nodes.states.items():
        mine = by_node.get(node, [])
        if any(state.replicas or state.single_slices for state in states) or any(
            device_kind(track.holding.resource) is not DeviceKind.WHOLE for track in mine
        ):
            continue
        edges = np.unique(
            np.array(
                [edge for state in states for edge in (state.from_ms, state.to_ms)]
                + [edge for track in mine for edge in (track.from_ms, track.to_ms)],
                dtype=np.int64,
            )
        )
        held = _whole_held(mine, edges)
        amount = np.zeros(len(edges), dtype=np.int64)
        for state in states:
            if state.usable:
                inside = (edges >= state.from_ms) & (edges < state.to_ms)
                amount[inside] = np.maximum(0, state.cards - state.broken - held[inside])
        steps[node] = FreeSteps(from_ms=edges, amount=amount)
    return steps


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocked:
    """Free cards that waiting work asks for: `cards[node][i]` from `from_ms[i]` on, of class `why[i]`.

    `held_back[node][i]` are those that work asks for which its queue holds back.
    """

    from_ms: Ints
    why: tuple[GpuClass, ...]
    cards: Mapping[str, Ints]
    held_back: Mapping[str, Ints]


def blocked_cards(waiting: Sequence[Waiting], steps: Mapping[str, FreeSteps]) -> Blocked:
    """How many free cards of each node stand against a demand that waits, and why they are not given to it."""
    whole = [one for one in waiting if device_kind(one.resource) is DeviceKind.WHOLE and one.from_ms < one.to_ms]
    if not whole or not steps:
        return Blocked(from_ms=np.zeros(0, dtype=np.int64), why=(), cards={}, held_back={})
    names = sorted(steps)
    times = [np.array([edge for one in whole for edge in (one.from_ms, one.to_ms)], dtype=np.int64)]
    edges = np.unique(np.concatenate([*times, *(steps[name].from_ms for name in names)]))
    free = np.stack([steps[name].at(edges) for name in names])
    pending = [one for one in whole if not one.suspended]
    fits = np.zeros(len(edges), dtype=np.bool_)
    for size in sorted({one.devices for one in pending}):
        fits |= (_demand(edges, [one for one in pending if one.devices == size]) > 0) & (free.max(axis=0) >= size)
    given = _in_order(free, _demand(edges, pending))
    held_back = _in_order(free - given, _demand(edges, [one for one in whole if one.suspended]))
    return Blocked(
        from_ms=edges,
        why=tuple(GpuClass.UNEXPLAINED if fit else GpuClass.FRAGMENTED for fit in fits.tolist()),
        cards={name: given[at] for at, name in enumerate(names)},
        held_back={name: held_back[at] for at, name in enumerate(names)},
    )


def _demand(edges: Ints, waiting: Sequence[Waiting]) -> Ints:
    """Devices that are asked for from each edge on."""
    demand = np.zeros(len(edges), dtype=np.int64)
    for size in {one.devices for one in waiting}:
        demand += size * _count(edges, [(one.from_ms, one.to_ms) for one in waiting if one.devices == size])
    return demand


def _in_order(free: Ints, demand: Ints) -> Ints:
    """How much of each node's free cards a demand takes, nodes in order of name; rows are nodes, columns edges."""
    before = np.cumsum(free, axis=0) - free
    taken: Ints = np.clip(np.minimum(demand, free.sum(axis=0)) - before, 0, free)
    return taken


def free_time(
    node: str,
    states: Sequence[NodeState],
    tracks: Sequence[Track],
    *,
    bypassed: Sequence[Window],
    blocked: Blocked,
    cuts: Ints,
    window: Window,
) -> FreeTime:
    """Free GPU time of one node within the window, cut at `cuts`."""
    edges = _edges(states, tracks, bypassed, blocked, node, cuts, window)
    starts, length = edges[:-1], np.diff(edges)
    whole = [track for track in tracks if track.whole]
    held_ms = _whole_held(whole, starts) * length
    for track in tracks:
        if not track.whole:
            held_ms += _part_between(track, edges)
    active = _count(starts, [(one.from_ms, one.to_ms) for one in bypassed])
    asked = _asked(blocked, node, starts)
    rows: list[tuple[int, int, NodeState, GpuClass, int]] = []
    overheld = []
    for state in states:
        low, high = np.searchsorted(starts, (state.from_ms, state.to_ms))
        for at in range(int(low), int(high)):
            size = int(length[at])
            left = state.cards * size - int(held_ms[at])
            if left < 0:
                overheld.append(Window(int(starts[at]), int(starts[at]) + size))
            for gpu_class, gpu_ms in _split(state, left, size, int(active[at]), asked[at]):
                rows.append((int(starts[at]), int(starts[at]) + size, state, gpu_class, gpu_ms))
    return FreeTime(
        node=node,
        from_ms=np.array([row[0] for row in rows], dtype=np.int64),
        to_ms=np.array([row[1] for row in rows], dtype=np.int64),
        state=tuple(row[2] for row in rows),
        gpu_class=tuple(row[3] for row in rows),
        gpu_ms=np.array([row[4] for row in rows], dtype=np.int64),
        overheld=tuple(merge_windows(overheld)),
    )


def _edges(
    states: Sequence[NodeState],
    tracks: Sequence[Track],
    bypassed: Sequence[Window],
    blocked: Blocked,
    node: str,
    cuts: Ints,
    window: Window,
) -> Ints:
    parts = [edge for state in states for edge in (state.from_ms, state.to_ms)]
    parts += [edge for track in tracks for edge in (track.from_ms, track.to_ms)]
    parts += [edge for one in bypassed for edge in (one.from_ms, one.to_ms)]
    changes = blocked.from_ms if node in blocked.cards else blocked.from_ms[:0]
    edges = np.unique(np.concatenate([np.array([*parts, window.from_ms, window.to_ms], dtype=np.int64), cuts, changes]))
    return edges[(edges >= window.from_ms) & (edges <= window.to_ms)]


_Asked = tuple[tuple[GpuClass, int], ...]
"""Free cards by why they stand against a demand."""


def _split(state: NodeState, left: int, length_ms: int, active: int, asked: _Asked) -> list[tuple[GpuClass, int]]:
    """Free GPU time of one piece by class; parts sum to `left`."""
    if left <= 0:
        return []
    if not state.usable:
        return [(GpuClass.UNAVAILABLE, left)]
    wanted = [(GpuClass.UNAVAILABLE, state.broken), (GpuClass.BYPASSED, active)]
    if not state.bridged:
        wanted += asked
    parts = []
    for gpu_class, cards in wanted:
        gpu_ms = min(left, cards * length_ms)
        left -= gpu_ms
        parts.append((gpu_class, gpu_ms))
    parts.append((GpuClass.UNEXPLAINED if state.bridged else GpuClass.NO_DEMAND, left))
    return [(gpu_class, gpu_ms) for gpu_class, gpu_ms in parts if gpu_ms]


def _asked(blocked: Blocked, node: str, at_ms: Ints) -> list[_Asked]:
    if node not in blocked.cards:
        return [()] * len(at_ms)
    index = np.searchsorted(blocked.from_ms, at_ms, side="right") - 1
    pending, held_back = blocked.cards[node], blocked.held_back[node]
    return [
        ((blocked.why[at], int(pending[at])), (GpuClass.QUOTA_BLOCKED, int(held_back[at]))) if at >= 0 else ()
        for at in index.tolist()
    ]


def _whole_held(tracks: Sequence[Track], at_ms: Ints) -> Ints:
    return _count(at_ms, [(track.from_ms, track.to_ms) for track in tracks])


def _count(at_ms: Ints, spans: Sequence[tuple[int, int]]) -> Ints:
    """How many half-open spans cover each instant."""
    starts = np.sort(np.array([low for low, _ in spans], dtype=np.int64))
    ends = np.sort(np.array([high for _, high in spans], dtype=np.int64))
    opened: npt.NDArray[np.int64] = np.searchsorted(starts, at_ms, side="right")
    return opened - np.searchsorted(ends, at_ms, side="right")


def _part_between(track: Track, edges: Ints) -> Ints:
    def up_to(at_ms: int) -> int:
        passed = min(max(at_ms, track.from_ms), track.to_ms) - track.base_ms
        return track.high * passed // track.length_ms - track.low * passed // track.length_ms

    so_far = np.array([up_to(at) for at in edges.tolist()], dtype=np.int64)
    return so_far[1:] - so_far[:-1]
