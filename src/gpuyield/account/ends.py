"""Ends that only samples tell, moved back to where a later pod surely was given the same device.

A pod that is deleted at once is never shown as ended: its hold runs for one interval past its last sample. Where a
later pod was bound within that interval to the same device, or to a node that is full with both, the first has ended
by then.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from gpuyield.account.activity import Device, Devices
from gpuyield.account.lives import Ending
from gpuyield.account.nodes import Nodes, NodeState
from gpuyield.account.pods import Holding, Pods
from gpuyield.account.shares import Votes, is_shared, share_of, state_near


def with_settled_ends(pods: Pods, nodes: Nodes, devices: Devices) -> Pods:
    """The same pods; holdings by node, in the order of their starts."""
    by_node: dict[str, list[Holding]] = defaultdict(list)
    for holding in pods.holdings:
        by_node[holding.node].append(holding)
    on_node = devices.by_node()
    settled: list[Holding] = []
    for node in sorted(by_node):
        states = nodes.states.get(node, ())
        ordered = sorted(by_node[node], key=lambda one: (one.from_ms, one.to_ms, one.pod_key, one.resource))
        given_on = _ended_by_label(ordered, states, on_node.get(node, []))
        settled += _ended_by_lack_of_room(given_on, states)
    return replace(pods, holdings=tuple(settled))


def _ended_by_label(
    holdings: Sequence[Holding], states: Sequence[NodeState], devices: Sequence[Device]
) -> list[Holding]:
    """Ends moved back to the start of the next pod that samples name on the same device."""
    kept = list(holdings)
    if not any(_is_movable(one) for one in kept):
        return kept
    votes = Votes(devices)
    users: dict[int, list[int]] = defaultdict(list)
    for index, holding in enumerate(kept):
        if not is_shared(holding, states):
            for device in votes.of(holding)[: holding.devices]:
                users[device].append(index)
    for indices in users.values():
        for earlier, later in pairwise(indices):
            kept[earlier] = _ended_by(kept[earlier], kept[later])
    return kept


def _ended_by_lack_of_room(holdings: Sequence[Holding], states: Sequence[NodeState]) -> list[Holding]:
    """Ends moved back to where a later pod was bound, if the node has not the cards for both."""
    kept: list[Holding] = []
    for holding in holdings:
        state = state_near(states, holding.from_ms)
        if state and share_of(holding, states) == 1:
            used = sum(one.devices for one in kept if one.to_ms > holding.from_ms and share_of(one, states) == 1)
            for at, one in sorted(enumerate(kept), key=lambda pair: pair[1].to_ms):
                if used + holding.devices <= state.cards:
                    break
                kept[at] = _ended_by(one, holding)
                if kept[at] is not one:
                    used -= one.devices
        kept.append(holding)
    return kept


def _is_movable(holding: Holding) -> bool:
    return holding.ending in (Ending.SAMPLES, Ending.SILENCE)


def _ended_by(holding: Holding, later: Holding) -> Holding:
    """The holding ended when the later one began, if its end may have been as early as that."""
    at_ms = later.from_ms
    earliest_ms = holding.to_ms - holding.to_slack_ms
    if not _is_movable(holding) or not max(holding.from_ms + 1, earliest_ms) <= at_ms < holding.to_ms:
        return holding
    return replace(holding, to_ms=at_ms, to_slack_ms=at_ms - earliest_ms, to_lag_ms=later.from_lag_ms)
