"""Tracks of MIG instances and shared replicas: parts of a card, whole only together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise

from gpuyield.account.activity import Device
from gpuyield.account.nodes import NodeState
from gpuyield.account.pods import Holding
from gpuyield.account.shares import Track, Votes, share_of, state_near
from gpuyield.model.gpu import DeviceKind
from gpuyield.units import largest_remainder


def part_tracks(holdings: Sequence[Holding], states: Sequence[NodeState], devices: Sequence[Device]) -> list[Track]:
    """Tracks of MIG instances and shared replicas: parts of a card by largest remainder between changes."""
    shares = {id(one): share_of(one, states) for one in holdings}
    chosen = {id(one): _part_devices(one, states, devices) for one in holdings}
    boards: dict[str, list[Holding]] = defaultdict(list)
    for one in holdings:
        cards = {device.key.card for device in chosen[id(one)] if device}
        known = len(cards) == 1 and None not in chosen[id(one)]
        boards[next(iter(cards)) if known else ""].append(one)
    if "" in boards:
        # One holding of unknown place makes the whole node one board.
        boards = {"": list(holdings)}
    tracks = []
    for board in sorted(boards):
        tracks += _board_tracks(boards[board], shares, chosen, states, one_card=bool(board))
    return tracks


def _part_devices(holding: Holding, states: Sequence[NodeState], devices: Sequence[Device]) -> list[Device | None]:
    sliced = holding.kind is DeviceKind.MIG or any(state.single_slices for state in states)
    candidates = [one for one in devices if bool(one.key.instance) == sliced]
    named = Votes(candidates).of(holding)[: holding.devices]
    if not named and not sliced and len(candidates) == 1:
        named = [0] * holding.devices
    found: list[Device | None] = [candidates[at] for at in named]
    return found + [None] * (holding.devices - len(found))


def _board_tracks(
    holdings: Sequence[Holding],
    shares: dict[int, Fraction],
    chosen: dict[int, list[Device | None]],
    states: Sequence[NodeState],
    *,
    one_card: bool,
) -> list[Track]:
    edges = {edge for one in holdings for edge in (one.from_ms, one.to_ms)}
    if not one_card:
        edges |= {edge for state in states for edge in (state.from_ms, state.to_ms)}
    tracks = []
    for low, high in pairwise(sorted(edges)):
        here = [(one, device) for one in holdings if one.from_ms <= low < one.to_ms for device in chosen[id(one)]]
        if not here:
            continue
        state = state_near(states, low)
        cards = 1 if one_card or state is None else state.cards
        parts = [shares[id(one)] for one, _ in here]
        free = max(Fraction(0), cards - sum(parts))
        split = largest_remainder([*parts, free], max(cards, int(sum(parts))) * (high - low))
        start = 0
        for (one, device), part in zip(here, split, strict=False):
            sliced = one.kind is DeviceKind.MIG or (state is not None and state.single_slices is not None)
            tracks.append(
                Track(
                    holding=one,
                    device=device,
                    from_ms=low,
                    to_ms=high,
                    base_ms=low,
                    length_ms=high - low,
                    low=start,
                    high=start + part,
                    whole=False,
                    bounded=not sliced,
                )
            )
            start += part
    return tracks
