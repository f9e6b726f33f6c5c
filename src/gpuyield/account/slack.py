"""Bounds of what only samples tell: edges that truly came earlier, requests that may not count, bridged time.

Rows of no GPU time that widen `lo` and `hi` of a class; the figures themselves stay.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from gpuyield.account.free import Bypass, FreeTime
from gpuyield.account.gathering import CellRows
from gpuyield.account.nodes import Nodes, NodeState
from gpuyield.account.pods import Ending, Holding
from gpuyield.model.waterfall import GpuClass
from gpuyield.units import Window

_RUNNING = (GpuClass.UNDERUSED, GpuClass.UNVERIFIED, GpuClass.UNOBSERVED, GpuClass.IDLE_HELD)
"""What the time of a pod that runs may be."""


class Slack:
    """Widens the bounds of the window's rows."""

    def __init__(self, rows: CellRows, nodes: Nodes, window: Window) -> None:
        self._rows = rows
        self._nodes = nodes
        self._window = window

    def take_pods(self, holdings: Sequence[Holding]) -> None:
        """When pods were bound, ran and ended, and devices that they may hold."""
        for one in holdings:
            if one.from_slack_ms:
                before = Window(one.from_ms - one.from_slack_ms, one.from_ms)
                ran = one.running_ms is not None and one.running_ms - one.running_slack_ms <= one.from_ms
                for gpu_class in (GpuClass.STARTING, *(_RUNNING if ran else ())):
                    self._of_pod(one, before, gpu_class, hi=one.devices)
                self._free_by(one, before, -one.devices)
            if one.running_slack_ms and one.running_ms is not None:
                before = Window(max(one.from_ms, one.running_ms - one.running_slack_ms), one.running_ms)
                self._of_pod(one, before, GpuClass.STARTING, lo=-one.devices)
                for gpu_class in _RUNNING:
                    self._of_pod(one, before, gpu_class, hi=one.devices)
            if one.to_slack_ms:
                after = Window(one.to_ms - one.to_slack_ms, one.to_ms)
                self._free_by(one, after, one.devices)
            if one.ending is Ending.SILENCE:
                until_ms = next((w.to_ms for w in self._nodes.silences() if one.to_ms < w.to_ms), one.to_ms)
                for gpu_class in _RUNNING:
                    self._of_pod(one, Window(one.to_ms, until_ms), gpu_class, hi=one.devices)
                self._free_by(one, Window(one.to_ms, until_ms), -one.devices)
            there = self._nodes.states.get(one.node, ())
            if there and one.from_ms < there[0].from_ms:
                # Times are printed of a pod whose node was not seen yet.
                for gpu_class in (GpuClass.STARTING, *_RUNNING):
                    self._of_pod(one, Window(one.from_ms, there[0].from_ms), gpu_class, hi=one.devices)
            if one.may_hold:
                held = Window(one.from_ms, one.to_ms)
                self._of_pod(one, held, GpuClass.UNOBSERVED, hi=one.may_hold)
                self._free_by(one, held, -one.may_hold)

    def take_nodes(self) -> None:
        """When nodes came, went, closed or lost cards."""
        silences = self._nodes.silences()
        for node, states in self._nodes.states.items():
            for before, after in pairwise([None, *states, None]):
                if before and after and before.to_ms == after.from_ms:
                    self._changed(node, before, after)
                    continue
                if after and after.from_ms > self._nodes.present[0].from_ms:
                    slack_ms = self._nodes.edge_slack_ms(after.from_ms, after.from_slack_ms)
                    came = Window(after.from_ms - slack_ms, after.from_ms)
                    self._add(node, came, _class_of_free(after), hi=after.cards)
                if before and before.to_ms < self._nodes.present[-1].to_ms:
                    went = Window(before.to_ms - before.to_slack_ms, before.to_ms)
                    self._add(node, went, _class_of_free(before), lo=-before.cards)
                    until_ms = max((w.to_ms for w in silences if w.from_ms == before.to_ms), default=before.to_ms)
                    self._add(node, Window(before.to_ms, until_ms), _class_of_free(before), hi=before.cards)

    def take_bridged(self, found: FreeTime) -> None:
        """What was free on both sides of a silence: pods that nobody saw may have held it meanwhile."""
        for at, state in enumerate(found.state):
            if state.bridged:
                piece = Window(int(found.from_ms[at]), int(found.from_ms[at]) + 1)
                for gpu_class in (GpuClass.STARTING, *_RUNNING):
                    self._add(found.node, piece, gpu_class, hi=int(found.gpu_ms[at]))
                self._add(found.node, piece, found.gpu_class[at], lo=-int(found.gpu_ms[at]))

    def take_bypassed(self, bypassed: Mapping[str, Sequence[Bypass]]) -> None:
        """When free cards were active."""
        for node, found in bypassed.items():
            for one in found:
                self._moved(node, one.window.from_ms, one.from_slack_ms, 1, GpuClass.BYPASSED)
                self._moved(node, one.window.to_ms, one.to_slack_ms, -1, GpuClass.BYPASSED)

    def _changed(self, node: str, before: NodeState, after: NodeState) -> None:
        closed = _closed(after) - _closed(before)
        if closed:
            self._moved(node, after.from_ms, after.from_slack_ms, closed, GpuClass.UNAVAILABLE)

    def _moved(self, node: str, at_ms: int, slack_ms: int, cards: int, gpu_class: GpuClass) -> None:
        """Cards went from unallocated into a class (or, negative, out of it) at an instant or up to slack before."""
        span = Window(at_ms - slack_ms, at_ms)
        for one, change in ((gpu_class, cards), (GpuClass.NO_DEMAND, -cards)):
            self._add(node, span, one, lo=min(0, change), hi=max(0, change))

    def _of_pod(self, holding: Holding, span: Window, gpu_class: GpuClass, *, lo: int = 0, hi: int = 0) -> None:
        self._add(holding.node, span, gpu_class, lo=lo, hi=hi, holding=holding)

    def _free_by(self, holding: Holding, span: Window, devices: int) -> None:
        """So many devices more, or less, may have been free on the node of a holding."""
        state = self._nodes.at(holding.node, span.to_ms - 1) or self._nodes.at(holding.node, span.from_ms)
        classes = {_class_of_free(state) if state else GpuClass.NO_DEMAND}
        if state and state.broken:
            classes.add(GpuClass.UNAVAILABLE)
        for gpu_class in sorted(classes):
            self._add(holding.node, span, gpu_class, lo=min(0, devices), hi=max(0, devices))

    def _add(
        self, node: str, span: Window, gpu_class: GpuClass, *, lo: int = 0, hi: int = 0, holding: Holding | None = None
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
        )


def _closed(state: NodeState) -> int:
    return state.broken if state.usable else state.cards


def _class_of_free(state: NodeState) -> GpuClass:
    if not state.usable:
        return GpuClass.UNAVAILABLE
    return GpuClass.UNEXPLAINED if state.bridged else GpuClass.NO_DEMAND
