"""What the ledger shows of the GPUs around a window: nodes, pods, devices, and which pod held which device when."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from itertools import pairwise

from gpuyield.account.activity import Devices, read_devices
from gpuyield.account.ends import with_settled_ends
from gpuyield.account.facts import runs_by_kind
from gpuyield.account.nodes import Nodes, NodeState, node_states
from gpuyield.account.pods import Holding, Pods, read_pods
from gpuyield.account.scrapes import by_target
from gpuyield.account.tracks import Tracks, build_tracks
from gpuyield.ledger import Ledger
from gpuyield.ledger.tables import RUNS, SAMPLES, SCRAPES, RunKind
from gpuyield.model.declaration import Rules, Teams
from gpuyield.model.evidence import Gap
from gpuyield.units import DAY_MS, Window, merge_windows


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """What was seen, by these rules; `days` of the ledger were read for it."""

    ledger: Ledger
    window: Window
    rules: Rules
    days: tuple[str, ...]
    nodes: Nodes
    pods: Pods
    devices: Devices
    tracks: Tracks


def observe(ledger: Ledger, *, window: Window, rules: Rules | None = None, teams: Teams | None = None) -> Observed:
    """What the ledger shows around a window."""
    rules = rules or Rules()
    teams = teams or Teams()
    days = _days_around(ledger, window, rules)
    runs = runs_by_kind(ledger.read(RUNS, days=days))
    moments = by_target(ledger.read(SCRAPES, days=days))
    nodes = node_states(runs, gap_limit_ms=rules.gap_limit_ms, moments=moments)
    pods = read_pods(runs, gap_limit_ms=rules.gap_limit_ms, nodes=nodes, team_label=teams.label, teams=teams.namespaces)
    devices = read_devices(
        ledger,
        days,
        gap_limit_ms=rules.gap_limit_ms,
        idle_after_ms=rules.idle_after_ms,
        pod_nodes={(run.namespace, run.pod): run.node for run in runs[RunKind.POD_NODE] if run.node}
        | {(one.namespace, one.pod): one.node for one in pods.holdings},
        known_nodes=nodes.states.keys() | {one.node for one in pods.holdings},
    )
    nodes = _with_unreported(nodes, pods)
    pods = with_settled_ends(pods, nodes, devices)
    tracks = _within_life(build_tracks(pods.holdings, nodes, devices), nodes)
    return Observed(
        ledger=ledger,
        window=window,
        rules=rules,
        days=tuple(days),
        nodes=nodes,
        pods=pods,
        devices=devices,
        tracks=tracks,
    )


def _days_around(ledger: Ledger, window: Window, rules: Rules) -> list[str]:
    """The days to read: those around the window, and on to the next that told the cluster's state on either side."""
    around_ms = max(DAY_MS, rules.idle_after_ms + rules.gap_limit_ms)
    near = Window(window.from_ms - around_ms, window.to_ms + around_ms).days()
    told = ledger.days(RUNS)
    first = max((day for day in told if day <= near[0]), default=near[0])
    last = min((day for day in told if day >= near[-1]), default=near[-1])
    return [day for day in sorted({*told, *ledger.days(SAMPLES)}) if first <= day <= last]


def _with_unreported(nodes: Nodes, pods: Pods) -> Nodes:
    """Nodes that hold pods and never told what they have count with what is held on them."""
    silent: dict[str, list[Holding]] = defaultdict(list)
    for holding in pods.holdings:
        if holding.node not in nodes.states:
            silent[holding.node].append(holding)
    if not silent:
        return nodes
    states = dict(nodes.states)
    for node, held in silent.items():
        made = []
        edges = sorted({edge for one in held for edge in (one.from_ms, one.to_ms)})
        for low, high in pairwise(edges):
            cards = sum(one.devices for one in held if one.from_ms <= low < one.to_ms)
            if cards:
                made.append(NodeState(from_ms=low, to_ms=high, cards=cards, bounded=True))
        states[node] = tuple(made)
    gaps = [
        Gap(reason="the node's capacity is not reported: only what pods hold on it is counted", where=node)
        for node in sorted(silent)
    ]
    return replace(nodes, states=states, gaps=(*nodes.gaps, *gaps))


def _within_life(tracks: Tracks, nodes: Nodes) -> Tracks:
    """Tracks cut to when their node existed: a node that is gone holds nothing."""
    life = {
        node: merge_windows(Window(state.from_ms, state.to_ms) for state in states)
        for node, states in nodes.states.items()
    }
    kept = []
    for track in tracks.tracks:
        for window in life.get(track.holding.node, ()):
            part = window.cut(Window(track.from_ms, track.to_ms))
            if part == Window(track.from_ms, track.to_ms):
                kept.append(track)
            elif part:
                kept.append(replace(track, from_ms=part.from_ms, to_ms=part.to_ms))
    return Tracks(tracks=tuple(kept), free=tracks.free, gaps=tracks.gaps)
