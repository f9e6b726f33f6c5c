"""The time of one track, cut into pieces of one class each.

Edges are samples, holder changes, node states, judged attempts and the cuts that were asked for. Busy time is the
activity-weighted part of a piece, taken as a difference of cumulative floors from the sample's start, so however a
sample is cut its parts add up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import lcm
from typing import Any  # arrays of mixed types

import numpy as np
import numpy.typing as npt

from gpuyield.account.activity import PPB, UNKNOWN_PPB
from gpuyield.account.nodes import NodeState
from gpuyield.account.pods import Holding
from gpuyield.account.shares import Track
from gpuyield.model.cells import CLASS_INDEX, Ints
from gpuyield.model.outcome import JudgedSegment
from gpuyield.model.waterfall import GpuClass
from gpuyield.units import Window

Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Idle:
    """A span in which a whole device was held and idle; `open_start` where it was so from the first sample on."""

    track: Track
    window: Window
    open_start: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Amounts:
    """GPU time of one track: per piece its start, class, GPU-milliseconds and bounds. All arrays equally long."""

    from_ms: Ints
    gpu_class: Ints
    gpu_ms: Ints
    lo: Ints
    hi: Ints
    idle: tuple[Idle, ...]
    unobserved: tuple[Window, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judging:
    """What outcomes say of a pod's time; `has_outcomes`: its workload has some, so uncovered time is unattributed."""

    segments: tuple[JudgedSegment, ...] = ()
    has_outcomes: bool = False


def amounts(
    track: Track,
    *,
    states: Sequence[NodeState],
    cuts: Ints,
    judging: Judging,
    threshold_ppb: int,
    idle_after_ms: int,
) -> Amounts:
    """All GPU time of a track by class. `cuts` are the instants at which pieces must end (hours, the window)."""
    pieces = _Pieces(track, states, cuts, judging)
    idle = _idle(pieces, track, threshold_ppb, idle_after_ms)
    return _sorted_out(pieces, track, idle, judging)


class _Pieces:
    """Edges and what holds between them."""

    def __init__(self, track: Track, states: Sequence[NodeState], cuts: Ints, judging: Judging) -> None:
        device = track.device
        running_ms = track.holding.running_ms
        self.running_ms = track.to_ms if running_ms is None else running_ms
        unready = [state for state in states if not state.ready]
        unsure = _unsure_edges(track.holding)
        perhaps_unready = [Window(state.from_ms - state.from_slack_ms, state.from_ms) for state in unready]
        # Nobody tells what a node was while kube-state-metrics was silent.
        perhaps_unready += [
            Window(after.from_ms - before.to_slack_ms, after.to_ms)
            for before, after in pairwise(states)
            if after.bridged
        ]
        perhaps_ready = [
            Window(after.from_ms - after.from_slack_ms, after.from_ms)
            for before, after in pairwise(states)
            if not before.ready and after.ready and before.to_ms == after.from_ms
        ]
        extra = [track.from_ms, track.to_ms, self.running_ms]
        extra += [edge for state in unready for edge in (state.from_ms, state.to_ms)]
        extra += [edge for one in (*unsure, *perhaps_unready, *perhaps_ready) for edge in (one.from_ms, one.to_ms)]
        extra += [edge for one in judging.segments for edge in (one.window.from_ms, one.window.to_ms)]
        self.start = self.end = self.ppb = self.lo_ppb = self.hi_ppb = np.zeros(0, dtype=np.int64)
        self.held = np.zeros(0, dtype=np.bool_)
        self.first_sample_ever = False
        parts: list[Any] = [np.array(extra, dtype=np.int64), _within(cuts, track)]
        if device is not None:
            first = max(0, int(np.searchsorted(device.start_ms, track.from_ms, side="right")) - 1)
            last = int(np.searchsorted(device.start_ms, track.to_ms))
            self.start, self.end = device.start_ms[first:last], device.end_ms[first:last]
            self.ppb = device.ppb[first:last]
            self.lo_ppb, self.hi_ppb = device.lo_ppb[first:last], device.hi_ppb[first:last]
            self.held = device.held[first:last]
            if not self._has_own_sample(track.holding):
                # Neither neighbour tells of a run that lies wholly between two samples.
                self.lo_ppb, self.hi_ppb = np.zeros_like(self.ppb), np.full_like(self.ppb, PPB)
            self.first_sample_ever = first == 0
            parts += [self.start, self.end]
        edges = _distinct(np.concatenate(parts))
        edges = edges[(edges >= track.from_ms) & (edges <= track.to_ms)]
        self.t0, self.t1 = edges[:-1], edges[1:]
        self._so_far = _shares_up_to(track, edges)
        self.share = np.diff(self._so_far)
        self.ready = np.ones(len(self.t0), dtype=np.bool_)
        for state in unready:
            self.ready &= ~((self.t0 >= state.from_ms) & (self.t0 < state.to_ms))
        self.perhaps_ready = self.ready | _inside(self.t0, perhaps_ready)
        self.surely_ready = ~_inside(self.t0, perhaps_unready)
        self.sure = self.surely_ready & ~_inside(self.t0, unsure)
        self.running = self.t0 >= self.running_ms
        self._sample(track)

    def _sample(self, track: Track) -> None:
        count = len(self.t0)
        if track.device is None or not len(self.start):
            self.sample = np.zeros(count, dtype=np.int64)
            self.observed = np.zeros(count, dtype=np.bool_)
            self.activity = np.full(count, UNKNOWN_PPB, dtype=np.int64)
            self.base = np.zeros(count, dtype=np.int64)
            return
        self.sample = np.searchsorted(self.start, self.t0, side="right") - 1
        at = np.maximum(self.sample, 0)
        self.activity = self.ppb[at]
        self.observed = (self.sample >= 0) & (self.t0 < self.end[at]) & (self.activity >= 0)
        start = self.start[at]
        self.base = _shares_up_to(track, start if track.whole else np.maximum(start, track.base_ms))

    def _has_own_sample(self, holding: Holding) -> bool:
        """Whether any sample was surely taken while the pod ran."""
        low = np.searchsorted(self.start, self.running_ms + holding.running_lag_ms)
        return bool(low < np.searchsorted(self.start, holding.to_ms - holding.to_slack_ms))

    def last_before_gap(self) -> Bools:
        """Whether a piece belongs to a sample that no other follows in time."""
        if not len(self.start):
            return np.zeros(len(self.t0), dtype=np.bool_)
        return self.observed & ~self.held[np.maximum(self.sample, 0)]

    def busy_up_to(self, ends: bool) -> Ints:
        """Busy GPU time from the sample's start to each piece's start (or end)."""
        share = self._so_far[1:] if ends else self._so_far[:-1]
        return np.where(self.observed, self.activity * (share - self.base) // PPB, 0)


def _unsure_edges(holding: Holding) -> list[Window]:
    """Where around its edges a pod may not hold its devices, or may not do what it is taken to do."""
    running_ms = holding.to_ms if holding.running_ms is None else holding.running_ms
    return [
        Window(low, high)
        for low, high in (
            (holding.from_ms, holding.from_ms + holding.from_lag_ms),
            (running_ms - holding.running_slack_ms, running_ms + holding.running_lag_ms),
            (holding.to_ms - holding.to_slack_ms, holding.to_ms),
        )
        if low < high
    ]


def _inside(at_ms: Ints, windows: Sequence[Window]) -> Bools:
    inside = np.zeros(len(at_ms), dtype=np.bool_)
    for one in windows:
        inside |= (at_ms >= one.from_ms) & (at_ms < one.to_ms)
    return inside


def _distinct(edges: Ints) -> Ints:
    ordered: Ints = np.sort(edges)
    distinct: Ints = ordered[np.append(True, ordered[1:] != ordered[:-1])]
    return distinct


def _within(cuts: Ints, track: Track) -> Ints:
    low, high = np.searchsorted(cuts, (track.from_ms, track.to_ms))
    return cuts[low:high]


def _shares_up_to(track: Track, at_ms: Ints) -> Ints:
    if track.low == 0 and track.high == track.length_ms:
        return at_ms - track.base_ms
    # Products of two long times do not fit 64 bits, so these few go through Python's integers.
    return np.array(
        [
            track.high * (at - track.base_ms) // track.length_ms - track.low * (at - track.base_ms) // track.length_ms
            for at in at_ms.tolist()
        ],
        dtype=np.int64,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _IdleMarks:
    idle: Bools
    last: Bools
    """The last sample of an idle span: where in it the span ends is not known."""
    may: Bools
    """Time that may belong to an idle span."""
    doubtful: Bools
    """Idle, but a span that would be too short without what is not sure of it."""
    spans: tuple[Idle, ...]


def _idle(pieces: _Pieces, track: Track, threshold_ppb: int, idle_after_ms: int) -> _IdleMarks:
    count = len(pieces.t0)
    none = np.zeros(count, dtype=np.bool_)
    if track.device is None or not (track.whole or track.pooled) or not count or not len(pieces.start):
        return _IdleMarks(idle=none, last=none, may=none, doubtful=none, spans=())
    at = np.maximum(pieces.sample, 0)
    live = pieces.observed & pieces.running & pieces.ready
    if track.pooled:
        return _IdleMarks(idle=none, last=none, may=live & (pieces.lo_ppb[at] < threshold_ppb), doubtful=none, spans=())
    below = live & (pieces.activity < threshold_ppb) & (pieces.start[at] >= pieces.running_ms)
    idle, last, doubtful = none.copy(), none.copy(), none.copy()
    length = np.where(pieces.sure, pieces.t1 - pieces.t0, 0)
    spans = []
    for low, high in _stretches(below):
        from_ms, to_ms = int(pieces.t0[low]), int(pieces.t1[high - 1])
        tail = below & (pieces.sample == pieces.sample[high - 1])
        if to_ms - from_ms >= idle_after_ms:
            idle[low:high] = True
            last |= tail
            if int(length[low:high][~tail[low:high]].sum()) < idle_after_ms:
                doubtful[low:high] = True
            # Before the first sample of a device nothing tells how busy it was.
            opened = pieces.first_sample_ever and not pieces.observed[:low].any() and pieces.sample[low] == 0
            spans.append(Idle(track=track, window=Window(from_ms, to_ms), open_start=opened))
    may = _may_be_idle(pieces, live, track, threshold_ppb, idle_after_ms)
    return _IdleMarks(idle=idle, last=last, may=may & ~idle, doubtful=doubtful, spans=tuple(spans))


def _may_be_idle(pieces: _Pieces, live: Bools, track: Track, threshold_ppb: int, idle_after_ms: int) -> Bools:
    """Time that may belong to an idle span: long enough with what is not known, and with what a sample leaves open."""
    at = np.maximum(pieces.sample, 0)
    blind = pieces.running & ~live
    possible = blind | (live & (pieces.lo_ppb[at] < threshold_ppb))
    # How much longer than it is known to be a span may be at its pod's edges.
    held = track.holding
    more_ms = held.from_slack_ms + held.running_slack_ms + held.to_lag_ms
    may = np.zeros(len(possible), dtype=np.bool_)
    for low, high in _stretches(possible):
        if int(pieces.t1[high - 1] - pieces.t0[low]) + more_ms >= idle_after_ms:
            may[low:high] = True
    return may


def _stretches(chosen: Bools) -> list[tuple[int, int]]:
    padded = np.concatenate(([False], chosen, [False]))
    changes = np.flatnonzero(padded[1:] != padded[:-1])
    return list(zip(changes[::2].tolist(), changes[1::2].tolist(), strict=True))


def _sorted_out(pieces: _Pieces, track: Track, idle: _IdleMarks, judging: Judging) -> Amounts:
    share = pieces.share
    seen = pieces.observed & pieces.running & pieces.ready
    active = seen & ~idle.idle
    busy_before, busy_after = pieces.busy_up_to(ends=False), pieces.busy_up_to(ends=True)
    busy = np.where(active, busy_after - busy_before, 0)
    lo_busy, hi_busy = _busy_bounds(pieces, track, busy)
    rows: list[tuple[Ints, int, Ints, Ints, Ints]] = []

    def add(chosen: Bools, gpu_class: GpuClass, gpu_ms: Ints, lo: Ints, hi: Ints) -> None:
        at = np.flatnonzero(chosen)
        if len(at):
            # Near an edge the pod may not have been there, or not running, or its node not ready.
            rows.append(
                (pieces.t0[at], CLASS_INDEX[gpu_class], gpu_ms[at], np.where(pieces.sure[at], lo[at], 0), hi[at])
            )

    zero = np.zeros(len(share), dtype=np.int64)
    starting = ~pieces.running & pieces.ready
    # Parts of a pool are cut to whole milliseconds.
    cut = 1 if track.pooled else 0
    add(starting, GpuClass.STARTING, share, np.maximum(0, share - cut), share + cut)
    add(~pieces.running & ~pieces.ready & pieces.perhaps_ready, GpuClass.STARTING, zero, zero, share)
    blind = ~seen & ~starting
    add(blind, GpuClass.UNOBSERVED, share, zero, share + cut)
    # After the last sample before a gap the exporter may have been silent at once.
    add(seen & pieces.last_before_gap() | ~blind & ~pieces.surely_ready, GpuClass.UNOBSERVED, zero, zero, share)
    unsure = idle.last | idle.doubtful
    add(idle.idle, GpuClass.IDLE_HELD, share, np.where(unsure, 0, share), share)
    may_idle = idle.may & active
    # Of a pool of cards the holding may truly have this one, all the time.
    at_most = pieces.t1 - pieces.t0 if track.pooled else share
    whole = track.whole or track.pooled
    add(may_idle | (blind & pieces.running & whole), GpuClass.IDLE_HELD, zero, zero, at_most)
    underused = share - busy
    add(
        active,
        GpuClass.UNDERUSED,
        underused,
        np.where(may_idle | track.pooled, 0, np.maximum(0, share - hi_busy)),
        share + cut - np.where(may_idle, 0, lo_busy),
    )
    add(blind & pieces.running, GpuClass.UNDERUSED, zero, zero, share)
    add(unsure & idle.idle, GpuClass.UNDERUSED, zero, zero, share)
    lo_busy = np.where(may_idle, 0, lo_busy)
    for gpu_class, chosen, part, part_before_lo, part_hi in _judged(
        pieces, judging, active, busy, busy_before, busy_after, lo_busy, hi_busy
    ):
        add(chosen, gpu_class, part, part_before_lo, part_hi)
    rest = GpuClass.UNATTRIBUTED if judging.has_outcomes else GpuClass.UNVERIFIED
    add(blind & pieces.running, rest, zero, zero, share)
    add(unsure & idle.idle, rest, zero, zero, hi_busy)
    columns = [
        np.concatenate(column) for column in zip(*((r[0], np.full(len(r[0]), r[1]), *r[2:]) for r in rows), strict=True)
    ]
    if not columns:
        columns = [np.zeros(0, dtype=np.int64)] * 5
    return Amounts(
        from_ms=columns[0],
        gpu_class=columns[1],
        gpu_ms=columns[2],
        lo=columns[3],
        hi=columns[4],
        idle=idle.spans,
        unobserved=tuple(Window(int(pieces.t0[low]), int(pieces.t1[high - 1])) for low, high in _stretches(blind)),
    )


def _busy_bounds(pieces: _Pieces, track: Track, busy: Ints) -> tuple[Ints, Ints]:
    """Bounds of the busy part: by the neighbouring sample, and for a split card by what the others may have.

    Of a pool of cards a holding may have the idlest or the busiest.
    """
    if track.device is None or not len(pieces.start):
        return busy, busy
    at = np.maximum(pieces.sample, 0)
    length = pieces.t1 - pieces.t0
    low_ppb, high_ppb = pieces.lo_ppb[at], pieces.hi_ppb[at]
    if track.pooled:
        low, high = np.zeros(len(length), dtype=np.int64), -(-high_ppb * length // PPB)
    elif track.bounded:
        others = length - pieces.share
        low = np.maximum(0, low_ppb * length // PPB - others)
        high = np.minimum(pieces.share, -(-high_ppb * length // PPB))
    else:
        low = low_ppb * pieces.share // PPB
        high = -(-high_ppb * pieces.share // PPB)
    return np.minimum(low, busy), np.maximum(high, busy)


def _judged(
    pieces: _Pieces,
    judging: Judging,
    active: Bools,
    busy: Ints,
    before: Ints,
    after: Ints,
    lo: Ints,
    hi: Ints,
) -> list[tuple[GpuClass, Bools, Ints, Ints, Ints]]:
    """Busy time by what outcomes say of it: class, pieces, GPU time and bounds."""
    rest = GpuClass.UNATTRIBUTED if judging.has_outcomes else GpuClass.UNVERIFIED
    if not judging.segments:
        return [(rest, active, busy, lo, hi)]
    starts = np.array([one.window.from_ms for one in judging.segments], dtype=np.int64)
    ends = np.array([one.window.to_ms for one in judging.segments], dtype=np.int64)
    segment = np.searchsorted(starts, pieces.t0, side="right") - 1
    covered = active & (segment >= 0) & (pieces.t0 < ends[np.maximum(segment, 0)])
    found = [(rest, active & ~covered, busy, lo, hi)]
    # Busy time counts from the later of the sample's and the segment's start, so its parts add up over cuts.
    at = np.maximum(segment, 0)
    first = np.searchsorted(
        pieces.t0, np.maximum(starts[at], pieces.start[np.maximum(pieces.sample, 0)] if len(pieces.start) else 0)
    )
    origin = before[np.minimum(first, max(0, len(before) - 1))]
    same = pieces.sample[np.minimum(first, max(0, len(before) - 1))] == pieces.sample
    origin = np.where(same, origin, 0)
    low, high = before - origin, after - origin
    zero = np.zeros(len(low), dtype=np.int64)
    statuses = sorted({status for one in judging.segments for status in one.shares})
    done_num = np.zeros(len(starts), dtype=np.int64)
    denominators = np.array([_common(one) for one in judging.segments], dtype=np.int64)
    for status in statuses:
        width = np.array(
            [int(one.shares.get(status, 0) * int(denominators[index])) for index, one in enumerate(judging.segments)],
            dtype=np.int64,
        )
        upper = done_num + width
        d, a, b = denominators[at], done_num[at], upper[at]
        part: Ints = _share(high, a, b, d) - _share(low, a, b, d)
        chosen = covered & (width[at] > 0)
        least, most = _share(lo, zero, width[at], d), -_share(-hi, zero, width[at], d)
        found.append((status.gpu_class, chosen, part, least, most))
        done_num = upper
    return found


def _share(amount: Ints, from_part: Ints, to_part: Ints, parts: Ints) -> Ints:
    """The parts `[from_part, to_part)` of `parts` of an amount; neighbouring parts sum exactly."""
    upper: Ints = to_part * amount // parts
    lower: Ints = from_part * amount // parts
    return upper - lower


def _common(segment: JudgedSegment) -> int:
    return lcm(*(share.denominator for share in segment.shares.values()))
