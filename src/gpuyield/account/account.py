"""The accounting of a window: sort what was observed into classes, judge the whole of it, cut to the window, sum.

Idle spans and outcomes are judged on what lies around the window too, so splitting a window changes no figure.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gpuyield.account.activity import PPB, Devices
from gpuyield.account.free import FreeSteps, blocked_cards, bypassed_windows, free_steps, free_time, perhaps_bypassed
from gpuyield.account.gathering import CellRows
from gpuyield.account.lookback import began_earlier
from gpuyield.account.nodes import Nodes, NodeState
from gpuyield.account.observed import Observed, observe
from gpuyield.account.pieces import Idle, Judging, amounts
from gpuyield.account.pods import Holding, Pods
from gpuyield.account.shares import Track
from gpuyield.account.slack import Slack
from gpuyield.account.tracks import Tracks
from gpuyield.ledger import Ledger
from gpuyield.model.cells import Cells, Ints
from gpuyield.model.declaration import Rules, Teams
from gpuyield.model.evidence import Gap
from gpuyield.model.outcome import JudgedSpan, shares_over_time
from gpuyield.units import HOUR_MS, Window, merge_windows


@dataclass(frozen=True, slots=True, kw_only=True)
class Accounting:
    """All that the accounting of a window found, before it is summed by key.

    `idle` are the idle spans of whole devices that meet the window, uncut; `free` the whole free cards of each node
    over time; `observed` is when kube-state-metrics answered.
    """

    window: Window
    cells: Cells
    idle: tuple[Idle, ...]
    pods: Pods
    nodes: Nodes
    free: Mapping[str, FreeSteps]
    observed: tuple[Window, ...]
    gaps: tuple[Gap, ...]


def account(
    ledger: Ledger,
    *,
    window: Window,
    rules: Rules | None = None,
    teams: Teams | None = None,
    judged: Sequence[JudgedSpan] = (),
    cuts: Iterable[int] = (),
) -> Accounting:
    """Where every GPU-millisecond of a window went: `observe`, then `sort_out`."""
    return sort_out(observe(ledger, window=window, rules=rules, teams=teams), judged=judged, cuts=cuts)


def sort_out(seen: Observed, *, judged: Sequence[JudgedSpan] = (), cuts: Iterable[int] = ()) -> Accounting:
    """Every GPU-millisecond of what was observed in its class.

    `judged` are the spans of all attempts that the ledger knows. `cuts` are instants besides the full hours at which
    cells must end (a change of price, say).
    """
    window, rules, nodes, tracks = seen.window, seen.rules, seen.nodes, seen.tracks
    found = _Gathered(window, rules, nodes, judged, cuts)
    found.take_tracks(tracks)
    found.idle = began_earlier(seen.ledger, found.idle, seen.days, rules)
    steps = free_steps(nodes, tracks.tracks)
    found.take_free(tracks, seen.pods, steps)
    found.slack.take_perhaps_bypassed(
        perhaps_bypassed(tracks, nodes, seen.devices, int(rules.activity_threshold * PPB))
    )
    found.slack.take_nodes()
    found.slack.take_pods(seen.pods)
    return Accounting(
        window=window,
        cells=found.rows.cells(),
        idle=tuple(found.idle),
        pods=seen.pods,
        nodes=nodes,
        free=steps,
        observed=nodes.present,
        gaps=(
            *_source_gaps(window, nodes, seen.devices),
            *nodes.gaps,
            *seen.pods.gaps,
            *seen.devices.gaps,
            *tracks.gaps,
            *found.gaps(),
        ),
    )


class _Gathered:
    """Rows of the window's cells, as they are found."""

    def __init__(
        self, window: Window, rules: Rules, nodes: Nodes, judged: Sequence[JudgedSpan], cuts: Iterable[int]
    ) -> None:
        hours = range(window.from_ms - window.from_ms % HOUR_MS, window.to_ms + HOUR_MS, HOUR_MS)
        self._cuts = np.unique(np.array([*hours, *cuts, window.from_ms, window.to_ms], dtype=np.int64))
        self._cuts = self._cuts[(self._cuts >= window.from_ms) & (self._cuts <= window.to_ms)]
        self._window = window
        self._rules = rules
        self._nodes = nodes
        self._threshold_ppb = int(rules.activity_threshold * PPB)
        self._judgings = _Judgings(judged)
        self._unobserved: dict[str, list[Window]] = defaultdict(list)
        self._overheld: list[Gap] = []
        self.rows = CellRows(self._cuts)
        self.slack = Slack(self.rows, nodes, window)
        self.idle: list[Idle] = []

    def take_tracks(self, tracks: Tracks) -> None:
        """What pods held."""
        for track in tracks.tracks:
            states = self._nodes.states.get(track.holding.node, ())
            found = amounts(
                track,
                states=[
                    one for one in states if one.from_ms - one.from_slack_ms < track.to_ms and one.to_ms > track.from_ms
                ],
                cuts=self._cuts,
                judging=self._judgings.of(track.holding),
                threshold_ppb=self._threshold_ppb,
                idle_after_ms=self._rules.idle_after_ms,
            )
            inside = (found.from_ms >= self._window.from_ms) & (found.from_ms < self._window.to_ms)
            bridged = np.zeros(len(found.from_ms), dtype=np.bool_)
            for state in states:
                if state.bridged or state.bounded:
                    bridged |= (found.from_ms >= state.from_ms) & (found.from_ms < state.to_ms)
            for flavor, mine in _by_flavor(found.from_ms, states):
                chosen = inside & mine
                self.rows.add(
                    from_ms=found.from_ms[chosen],
                    gpu_class=found.gpu_class[chosen],
                    gpu_ms=found.gpu_ms[chosen],
                    lo=found.lo[chosen],
                    hi=found.hi[chosen],
                    bounded=bridged[chosen] | track.bounded,
                    owner=track.holding.owner,
                    flavor=flavor,
                    node=track.holding.node,
                )
            self.idle += [one for one in found.idle if one.window.cut(self._window)]
            self._unobserved[track.holding.node] += [
                cut for one in found.unobserved if (cut := one.cut(self._window)) is not None
            ]

    def take_free(self, tracks: Tracks, pods: Pods, steps: Mapping[str, FreeSteps]) -> None:
        """What nobody held."""
        bypassed = bypassed_windows(tracks.free, self._threshold_ppb)
        blocked = blocked_cards(pods.waiting, steps)
        by_node: dict[str, list[Track]] = defaultdict(list)
        for track in tracks.tracks:
            by_node[track.holding.node].append(track)
        for node, states in self._nodes.states.items():
            found = free_time(
                node,
                states,
                by_node.get(node, []),
                bypassed=bypassed[node].active if node in bypassed else (),
                blocked=blocked,
                cuts=self._cuts,
                window=self._window,
            )
            self.rows.add_free(found)
            self.slack.take_free(found)
            self._overheld += [
                Gap(
                    reason="pods held more devices than the node has; capacity counts what was held",
                    where=node,
                    window=one,
                )
                for one in found.overheld
            ]
        self.slack.take_bypassed(bypassed)

    def gaps(self) -> list[Gap]:
        """What was not observed, by node and span, and where more was held than there is."""
        found = list(self._overheld)
        for node, windows in sorted(self._unobserved.items()):
            for window in merge_windows(windows):
                gpu_ms = sum(part.length_ms for one in windows if (part := one.cut(window)) is not None)
                found.append(
                    Gap(
                        reason="no activity sample: held GPU time is unobserved",
                        where=node,
                        window=window,
                        gpu_ms=gpu_ms,
                    )
                )
        return found


def _by_flavor(at_ms: Ints, states: Sequence[NodeState]) -> Iterator[tuple[str | None, npt.NDArray[np.bool_]]]:
    """Which instants fall into states of each flavor."""
    flavors = {state.flavor for state in states}
    if len(flavors) <= 1:
        yield next(iter(flavors), None), np.ones(len(at_ms), dtype=np.bool_)
        return
    for flavor in sorted(flavors, key=str):
        chosen = np.zeros(len(at_ms), dtype=np.bool_)
        for state in states:
            if state.flavor == flavor:
                chosen |= (at_ms >= state.from_ms) & (at_ms < state.to_ms)
        yield flavor, chosen


class _Judgings:
    """What outcomes say of each pod."""

    def __init__(self, judged: Sequence[JudgedSpan]) -> None:
        self._by_workload: dict[tuple[str, str], list[JudgedSpan]] = defaultdict(list)
        self._by_pod: dict[str, list[JudgedSpan]] = defaultdict(list)
        for span in judged:
            if span.pod_uid:
                self._by_pod[span.pod_uid].append(span)
            else:
                self._by_workload[span.namespace, span.workload].append(span)
        self._workloads = {(span.namespace, span.workload) for span in judged}
        self._made: dict[str, Judging] = {}

    def of(self, holding: Holding) -> Judging:
        """What outcomes say of a pod's time."""
        if not self._workloads and not self._by_pod:
            return Judging()
        if holding.pod_key not in self._made:
            names = {holding.owner.workload, holding.job, holding.pod} - {None}
            spans = list(self._by_pod.get(holding.uid, ()))
            for name in sorted(names, key=str):
                spans += self._by_workload.get((holding.namespace, str(name)), ())
            self._made[holding.pod_key] = Judging(
                segments=tuple(shares_over_time(spans)),
                has_outcomes=bool(spans) or any((holding.namespace, str(name)) in self._workloads for name in names),
            )
        return self._made[holding.pod_key]


def _source_gaps(window: Window, nodes: Nodes, devices: Devices) -> list[Gap]:
    found = []
    if not nodes.present:
        found.append(
            Gap(reason="nothing collected: no node told its capacity", where="kube-state-metrics", window=window)
        )
    known = merge_windows(cut for one in nodes.present if (cut := one.cut(window)) is not None)
    at = window.from_ms
    for one in [*known, Window(window.to_ms, window.to_ms)] if nodes.present else []:
        if one.from_ms > at:
            found.append(
                Gap(
                    reason="kube-state-metrics was silent: capacity is known only where both sides show it",
                    where="kube-state-metrics",
                    window=Window(at, one.from_ms),
                )
            )
        at = max(at, one.to_ms)
    if nodes.present and not devices.devices:
        found.append(
            Gap(
                reason="No activity metric in the window (looked for DCGM_FI_PROF_SM_ACTIVE,"
                " DCGM_FI_PROF_GR_ENGINE_ACTIVE, DCGM_FI_DEV_GPU_UTIL and their newer names)."
                " Allocated GPU time is shown, all of it unobserved. Install dcgm-exporter;"
                " gpuyield doctor says what each missing metric costs.",
                where="dcgm-exporter",
                window=window,
            )
        )
    elif devices.devices and not devices.labelled:
        found.append(
            Gap(
                reason="DCGM samples carry no pod label, so busy time cannot be given to teams for sure."
                " Set DCGM_EXPORTER_KUBERNETES=true on dcgm-exporter. Cluster totals are still shown.",
                where="dcgm-exporter",
                window=window,
            )
        )
    return found
