"""Bounds of what only samples tell: edges that truly came earlier, requests that may not count, bridged time.

Rows of no GPU time that widen `lo` and `hi` of a class; the figures themselves stay.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from gpuyield.account.free import Bypass, FreeTime
from gpuyield.account.gathering import CellRows
from gpuyield.account.lives import SECOND_MS, Ending
from gpuyield.account.nodes import Nodes, NodeState
from gpuyield.account.pods import Holding, Pods, Waiting
from gpuyield.model.waterfall import GpuClass
from gpuyield.units import Window, merge_windows

_RUNNING = (GpuClass.UNDERUSED, GpuClass.UNVERIFIED, GpuClass.UNOBSERVED, GpuClass.IDLE_HELD)
"""What the time of a pod that runs may be."""


class Slack:
    """Widens the bounds of the window's rows."""

    def __init__(self, rows: CellRows, nodes: Nodes, window: Window) -> None:
        self._rows = rows
        self._nodes = nodes
        self._window = window
        self._free: dict[str, FreeTime] = {}
        self._bypassed: Mapping[str, Bypass] = {}
        self._asked: Mapping[GpuClass, Sequence[Window]] = {}

    def take_free(self, found: FreeTime) -> None:
        """What nobody held.

        What was free on both sides of a silence may meanwhile have been closed, or held by pods that nobody saw.
        """
        self._free[found.node] = found
        for at, state in enumerate(found.state):
            if state.bridged:
                piece = Window(int(found.from_ms[at]), int(found.from_ms[at]) + 1)
                for gpu_class in (GpuClass.STARTING, *_RUNNING, GpuClass.UNAVAILABLE):
                    self._add(found.node, piece, gpu_class, hi=int(found.gpu_ms[at]))
                self._add(found.node, piece, found.gpu_class[at], lo=-int(found.gpu_ms[at]))

    def take_bypassed(self, bypassed: Mapping[str, Bypass]) -> None:
        """When free cards were active."""
        self._bypassed = bypassed
        for node, found in bypassed.items():
            for window in found.doubtful:
                self._add(node, window, GpuClass.BYPASSED, lo=-1)
                self._add(node, window, GpuClass.NO_DEMAND, hi=1)
        self.take_perhaps_bypassed({node: found.perhaps for node, found in bypassed.items()})

    def take_perhaps_bypassed(self, windows: Mapping[str, Sequence[Window]]) -> None:
        """When cards were active that may have had no holder."""
        for node, found in windows.items():
            for window in found:
                self._less_free(node, window, 1, but=GpuClass.BYPASSED)
                found_free = self._free.get(node)
                pieces = self._free_pieces(found_free, window) if found_free else ()
                for piece in merge_windows(piece for _, piece in pieces):
                    self._add(node, piece, GpuClass.BYPASSED, hi=1)

    def take_pods(self, pods: Pods) -> None:
        """When pods were bound, ran and ended, and devices that they may hold."""
        self._asked = _asked(pods.waiting)
        for one in pods.holdings:
            if (
                one.from_ms - one.from_slack_ms < self._window.to_ms
                and one.to_ms + one.to_lag_ms > self._window.from_ms
            ):
                self._bound(one)
                self._ran(one)
                self._ended(one)
            if one.may_hold:
                held = Window(one.from_ms, one.to_ms)
                self._of_pod(one, held, GpuClass.UNOBSERVED, one.may_hold)
                self._less_free(one.node, held, one.may_hold)

    def _bound(self, one: Holding) -> None:
        running_ms = one.to_ms if one.running_ms is None else one.running_ms
        if one.from_slack_ms:
            before = Window(one.from_ms - one.from_slack_ms, one.from_ms)
            ran = running_ms - one.running_slack_ms <= one.from_ms
            # On a node that is not ready what is held is unobserved.
            for gpu_class in (GpuClass.STARTING, *(_RUNNING if ran else (GpuClass.UNOBSERVED,))):
                self._of_pod(one, before, gpu_class, one.devices)
            self._less_free(one.node, before, one.devices)
        if one.from_lag_ms:
            self._held_less(one, Window(one.from_ms, min(one.from_ms + one.from_lag_ms, one.to_ms)))
        there = self._nodes.states.get(one.node, ())
        if there and one.from_ms < there[0].from_ms:
            # Times are printed of a pod whose node was not seen yet.
            for gpu_class in (GpuClass.STARTING, *_RUNNING):
                self._of_pod(one, Window(one.from_ms, there[0].from_ms), gpu_class, one.devices)

    def _ran(self, one: Holding) -> None:
        running_ms = one.to_ms if one.running_ms is None else one.running_ms
        if one.running_slack_ms:
            before = Window(max(one.from_ms, running_ms - one.running_slack_ms), running_ms)
            for gpu_class in _RUNNING:
                self._of_pod(one, before, gpu_class, one.devices)
        if one.running_lag_ms:
            self._of_pod(one, Window(running_ms, running_ms + one.running_lag_ms), GpuClass.STARTING, one.devices)

    def _ended(self, one: Holding) -> None:
        if one.to_slack_ms:
            self._held_less(one, Window(one.to_ms - one.to_slack_ms, one.to_ms))
        if one.to_lag_ms:
            after = Window(one.to_ms, one.to_ms + one.to_lag_ms)
            started = one.running_ms is not None
            for gpu_class in (*_RUNNING, *(() if started else (GpuClass.STARTING,))):
                self._of_pod(one, after, gpu_class, one.devices)
            self._less_free(one.node, after, one.devices)

    def take_nodes(self) -> None:
        """When nodes came, went, closed or lost cards."""
        scrapes = self._nodes.scrapes
        for node, states in self._nodes.states.items():
            for before, after in pairwise([None, *states, None]):
                if before and after and before.to_ms == after.from_ms:
                    self._changed(node, before, after)
                    continue
                if after and after.from_ms > self._nodes.present[0].from_ms:
                    came_ms = scrapes.before(after.from_ms, after.from_slack_ms)
                    self._perhaps_there(node, Window(came_ms, after.from_ms), after)
                if before and before.to_ms < self._nodes.present[-1].to_ms:
                    seen_ms = before.to_ms - before.to_slack_ms
                    self._less_free(node, Window(seen_ms, before.to_ms), before.cards)
                    asked_ms = scrapes.after(seen_ms, before.to_slack_ms) or before.to_ms
                    self._perhaps_there(node, Window(seen_ms, max(before.to_ms, asked_ms)), before)

    def _perhaps_there(self, node: str, span: Window, state: NodeState) -> None:
        """A node may have been there in a span, and as it comes or goes it may have taken no work."""
        classes = {_class_of_free(state), GpuClass.NO_DEMAND, GpuClass.BYPASSED, GpuClass.UNAVAILABLE}
        for gpu_class in sorted(classes):
            self._add(node, span, gpu_class, hi=state.cards)

    def _changed(self, node: str, before: NodeState, after: NodeState) -> None:
        """Cards closed or opened up to the slack before it was seen; of several changes any may have come first."""
        span = Window(after.from_ms - after.from_slack_ms, after.from_ms)
        closed = [
            _closed(replace(before, ready=ready, cordoned=cordoned, broken=broken))
            for ready in {before.ready, after.ready}
            for cordoned in {before.cordoned, after.cordoned}
            for broken in {before.broken, after.broken}
        ]
        least, most = min(closed) - _closed(before), max(closed) - _closed(before)
        if least or most:
            self._add(node, span, GpuClass.UNAVAILABLE, lo=least, hi=most)
            self._add(node, span, GpuClass.NO_DEMAND, hi=-least)
            if self._is_bypassed_near(node, span):
                self._add(node, span, GpuClass.BYPASSED, hi=-least)
            self._less_free(node, span, most, but=GpuClass.UNAVAILABLE)

    def _is_bypassed_near(self, node: str, span: Window) -> bool:
        """Whether a free card of a node was active, or may have been, in a span or right beside it."""
        found = self._bypassed.get(node)
        near = Window(span.from_ms - 1, span.to_ms + 1)
        return found is not None and any(near.cut(one) for one in (*found.active, *found.perhaps))

    def _of_pod(self, holding: Holding, span: Window, gpu_class: GpuClass, devices: int) -> None:
        """So many devices of a class may have been a pod's in a span."""
        self._add(holding.node, span, gpu_class, hi=devices, holding=holding, bounded=_is_doubtful(span))

    def _less_free(self, node: str, span: Window, cards: int, *, but: GpuClass | None = None) -> None:
        """So many cards that are taken to be free may not have been, whatever class they are in."""
        found = self._free.get(node)
        if found is None or not cards:
            return
        for at, piece in self._free_pieces(found, span):
            if found.gpu_class[at] is not but:
                self._add(node, piece, found.gpu_class[at], lo=-cards, bounded=_is_doubtful(span))

    def _free_pieces(self, found: FreeTime, span: Window) -> Iterator[tuple[int, Window]]:
        """The rows of free time that meet a span, and the part of the span that each is about."""
        inside = span.cut(self._window)
        if inside is None:
            return
        low = int(np.searchsorted(found.to_ms, inside.from_ms, side="right"))
        high = int(np.searchsorted(found.from_ms, inside.to_ms))
        for at in range(low, high):
            piece = Window(int(found.from_ms[at]), int(found.to_ms[at])).cut(inside)
            if piece:
                yield at, piece

    def _held_less(self, holding: Holding, span: Window) -> None:
        """The devices of a pod may have been free."""
        state = self._nodes.at(holding.node, span.to_ms - 1) or self._nodes.at(holding.node, span.from_ms)
        classes = {_class_of_free(state) if state else GpuClass.NO_DEMAND}
        if state and state.broken:
            classes.add(GpuClass.UNAVAILABLE)
        classes.update(gpu_class for gpu_class, asked in self._asked.items() if _meets(asked, span))
        if self._is_bypassed_near(holding.node, span):
            classes.add(GpuClass.BYPASSED)
        # What is held when reading ends is no doubt, until it is read on.
        doubtful = _is_doubtful(span) and holding.ending is not Ending.OPEN
        for gpu_class in sorted(classes):
            self._add(holding.node, span, gpu_class, hi=holding.devices, bounded=doubtful)

    def _add(
        self,
        node: str,
        span: Window,
        gpu_class: GpuClass,
        *,
        lo: int = 0,
        hi: int = 0,
        holding: Holding | None = None,
        bounded: bool = True,
    ) -> None:
        inside = span.cut(self._window)
        if inside is None:
            return
        state = self._nodes.at(node, inside.to_ms) or self._nodes.at(node, inside.from_ms)
        self._rows.add_bounds(
            inside,
            gpu_class,
            lo=lo,
            hi=hi,
            owner=holding.owner if holding else None,
            flavor=state.flavor if state else None,
            node=node,
            bounded=bounded,
        )


def _meets(windows: Sequence[Window], span: Window) -> bool:
    """Whether a span meets any of these windows, which are in order and apart."""
    at = bisect_left(windows, span.to_ms, key=lambda one: one.from_ms) - 1
    return at >= 0 and windows[at].to_ms > span.from_ms


def _asked(waiting: Sequence[Waiting]) -> dict[GpuClass, list[Window]]:
    """When anything waited for devices, by what a free device is then."""
    pending = merge_windows(Window(one.from_ms, one.to_ms) for one in waiting if not one.suspended)
    held_back = merge_windows(Window(one.from_ms, one.to_ms) for one in waiting if one.suspended)
    return {GpuClass.FRAGMENTED: pending, GpuClass.UNEXPLAINED: pending, GpuClass.QUOTA_BLOCKED: held_back}


def _is_doubtful(span: Window) -> bool:
    """Whether an edge is less sure than the times that are printed."""
    return span.length_ms > SECOND_MS


def _closed(state: NodeState) -> int:
    return state.broken if state.usable else state.cards


def _class_of_free(state: NodeState) -> GpuClass:
    if not state.usable:
        return GpuClass.UNAVAILABLE
    return GpuClass.UNEXPLAINED if state.bridged else GpuClass.NO_DEMAND
