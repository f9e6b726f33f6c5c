"""Which device each holding has, and when: tracks.

A track is a device's share that one pod holds over a span. An exporter's pod label on any sample within the hold
names the device for the whole hold, since a pod keeps its devices for life and labels lag behind. Without labels a
device is given to a pod only where every card of the node is held: to the one holder there is, or else split among
the candidates, as bounded. Everything else is a track without a device: its time is unobserved.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from gpuyield.account.activity import Device, Devices
from gpuyield.account.nodes import Nodes, NodeState
from gpuyield.account.parts import part_tracks
from gpuyield.account.pods import Holding
from gpuyield.account.shares import Track, Votes, is_part
from gpuyield.model.evidence import Gap
from gpuyield.units import Window, largest_remainder, merge_windows


@dataclass(frozen=True, slots=True, kw_only=True)
class Free:
    """When a device surely had no holder; `after_hold`: until then it had, or may have had, one."""

    device: Device
    window: Window
    after_hold: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Tracks:
    """All tracks, and when whole devices were free."""

    tracks: tuple[Track, ...]
    free: tuple[Free, ...]
    gaps: tuple[Gap, ...]


def build_tracks(holdings: Iterable[Holding], nodes: Nodes, devices: Devices) -> Tracks:
    """The tracks of all holdings; a holding of k devices has k tracks at any time."""
    by_node: dict[str, list[Holding]] = defaultdict(list)
    for holding in holdings:
        by_node[holding.node].append(holding)
    tracks: list[Track] = []
    free: list[Free] = []
    gaps: list[Gap] = []
    on_node = devices.by_node()
    for node in sorted({*by_node, *on_node}):
        states = nodes.states.get(node, ())
        fractions = [one for one in by_node.get(node, []) if is_part(one, states)]
        whole = [one for one in by_node.get(node, []) if not is_part(one, states)]
        found = _Whole(node, whole, states, on_node.get(node, []), labelled=node in devices.labelled)
        tracks += found.tracks
        gaps += found.gaps
        if fractions:
            tracks += part_tracks(fractions, states, on_node.get(node, []))
        # Nobody knows which cards parts of cards are on, so while any is held no card is surely free.
        free += found.free_but([Window(one.from_ms, one.to_ms) for one in fractions])
    return Tracks(tracks=tuple(tracks), free=tuple(free), gaps=tuple(gaps))


class _Whole:
    """Whole cards of one node."""

    def __init__(
        self,
        node: str,
        holdings: Sequence[Holding],
        states: Sequence[NodeState],
        devices: Sequence[Device],
        *,
        labelled: bool,
    ) -> None:
        self._node = node
        self._states = states
        self._devices = [one for one in devices if not one.key.instance]
        self._votes = Votes(self._devices)
        self._labelled = labelled
        self.tracks: list[Track] = []
        self.gaps: list[Gap] = []
        self._taken: dict[int, list[Window]] = defaultdict(list)
        self._doubtful: list[Window] = []
        missing = [(holding, self._claimed(holding)) for holding in holdings]
        self._pool(missing)

    def _claimed(self, holding: Holding) -> list[tuple[Window, int]]:
        """Tracks for the devices that a label names; returns how many devices are left, by time."""
        chosen = self._votes.of(holding)[: holding.devices]
        edges = {holding.from_ms, holding.to_ms}
        got: list[Window] = []
        for at in chosen:
            window = self._take(at, holding)
            if window:
                got.append(window)
                edges |= {window.from_ms, window.to_ms}
        left = []
        for low, high in pairwise(sorted(edges)):
            count = holding.devices - sum(window.from_ms <= low < window.to_ms for window in got)
            if count:
                left.append((Window(low, high), count))
        return left

    def _take(self, at: int, holding: Holding) -> Window | None:
        """Give a device to a holding for as much of its hold as nobody else has it."""
        from_ms = max(
            (
                window.to_ms
                for window in self._taken[at]
                if window.from_ms < holding.to_ms and window.to_ms > holding.from_ms
            ),
            default=holding.from_ms,
        )
        if from_ms >= holding.to_ms:
            return None
        window = Window(from_ms, holding.to_ms)
        self._taken[at].append(window)
        self.tracks.append(_whole_track(holding, self._devices[at], window))
        return window

    def _pool(self, missing: Sequence[tuple[Holding, list[tuple[Window, int]]]]) -> None:
        """Tracks for the devices that no label names."""
        wanted = [(holding, window, count) for holding, left in missing for window, count in left]
        if not wanted:
            return
        edges = {edge for _, window, _ in wanted for edge in (window.from_ms, window.to_ms)}
        edges |= {edge for windows in self._taken.values() for one in windows for edge in (one.from_ms, one.to_ms)}
        edges |= {edge for state in self._states for edge in (state.from_ms, state.to_ms)}
        found: dict[tuple[int, int], list[Track]] = defaultdict(list)
        ordered = sorted(edges)
        for low, high in pairwise(ordered):
            here = [(holding, count) for holding, window, count in wanted if window.from_ms <= low < window.to_ms]
            if not here:
                continue
            state = next((one for one in self._states if one.from_ms <= low < one.to_ms), None)
            idle = [
                at
                for at in range(len(self._devices))
                if not any(one.from_ms <= low < one.to_ms for one in self._taken[at])
            ]
            occupied = len(self._devices) - len(idle)
            cards = max(state.cards if state else 0, len(self._devices)) - occupied
            needed = sum(count for _, count in here)
            self._doubtful.append(Window(low, high))
            for slot, track in enumerate(self._fill(here, idle, cards, needed, Window(low, high))):
                number = -1 if track.device is None else self._devices.index(track.device)
                found[id(track.holding), number if number >= 0 else -1 - slot].append(track)
        for pieces in found.values():
            self.tracks += _joined(pieces)

    def _fill(
        self, here: Sequence[tuple[Holding, int]], idle: Sequence[int], cards: int, needed: int, window: Window
    ) -> list[Track]:
        if cards != needed or not idle:
            return [_whole_track(holding, None, window) for holding, count in here for _ in range(count)]
        if len(here) == 1:
            holding, count = here[0]
            devices: list[Device | None] = [self._devices[at] for at in idle[:count]]
            devices += [None] * (count - len(devices))
            return [_whole_track(holding, device, window) for device in devices]
        # Every card is held, but nobody knows which one by whom: each card is split by what they hold.
        if not self._labelled:
            reason = "samples carry no pod label: activity split among the pods that hold the node's cards"
        else:
            reason = "no sample names the pod: activity split among the candidates"
        if not any(gap.reason == reason for gap in self.gaps):
            self.gaps.append(Gap(reason=reason, where=self._node))
        parts = largest_remainder([count for _, count in here], window.length_ms)
        made = []
        for slot in range(needed):
            device = self._devices[idle[slot]] if slot < len(idle) else None
            low = 0
            for (holding, _), part in zip(here, parts, strict=True):
                made.append(
                    Track(
                        holding=holding,
                        device=device,
                        from_ms=window.from_ms,
                        to_ms=window.to_ms,
                        base_ms=window.from_ms,
                        length_ms=window.length_ms,
                        low=low,
                        high=low + part,
                        whole=False,
                        bounded=True,
                        pooled=True,
                    )
                )
                low += part
        return made

    def free_but(self, excluded: Sequence[Window]) -> list[Free]:
        """When each device surely had no holder, without the excluded windows."""
        lifetime = merge_windows(Window(state.from_ms, state.to_ms) for state in self._states)
        found = []
        for at, device in enumerate(self._devices):
            busy = merge_windows([*self._taken[at], *self._doubtful, *excluded])
            ends = {one.to_ms for one in busy}
            found += [
                Free(device=device, window=window, after_hold=window.from_ms in ends)
                for window in without(lifetime, busy)
            ]
        return found


def _whole_track(holding: Holding, device: Device | None, window: Window) -> Track:
    return Track(
        holding=holding,
        device=device,
        from_ms=window.from_ms,
        to_ms=window.to_ms,
        base_ms=window.from_ms,
        length_ms=window.length_ms,
        low=0,
        high=window.length_ms,
        whole=True,
    )


def _joined(pieces: Sequence[Track]) -> list[Track]:
    """Whole tracks of one holding on one device that touch, as one."""
    joined: list[Track] = []
    for piece in sorted(pieces, key=lambda one: one.from_ms):
        last = joined[-1] if joined else None
        if last and last.whole and piece.whole and last.to_ms == piece.from_ms and last.device is piece.device:
            joined[-1] = _whole_track(piece.holding, piece.device, Window(last.from_ms, piece.to_ms))
        else:
            joined.append(piece)
    return joined


def without(windows: Sequence[Window], taken: Sequence[Window]) -> list[Window]:
    """What is left of windows outside of those that are taken; these are in order."""
    left = []
    for window in windows:
        at = window.from_ms
        for one in taken:
            if one.to_ms <= at or one.from_ms >= window.to_ms:
                continue
            if one.from_ms > at:
                left.append(Window(at, one.from_ms))
            at = max(at, one.to_ms)
        if at < window.to_ms:
            left.append(Window(at, window.to_ms))
    return left
