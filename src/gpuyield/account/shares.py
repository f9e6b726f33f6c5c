"""What a device of a holding is, and which devices samples name as a pod's."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from gpuyield.account.activity import Claim, Device
from gpuyield.account.nodes import NodeState
from gpuyield.account.pods import Holding
from gpuyield.model.gpu import DeviceKind, mig_slices


@dataclass(frozen=True, slots=True, kw_only=True)
class Track:
    """A share of one card that a holding has over `[from_ms, to_ms)`; `device` None: nobody knows which.

    GPU time up to `t` is `high * (t - base_ms) // length_ms - low * (t - base_ms) // length_ms`, so parts of one
    card sum to the card wherever they are cut. A whole card has low 0 and high = length_ms. `pooled` says that the
    holding truly has one of several whole cards, of each of which it is given a part.
    """

    holding: Holding
    device: Device | None
    from_ms: int
    to_ms: int
    base_ms: int
    length_ms: int
    low: int
    high: int
    whole: bool
    bounded: bool = False
    pooled: bool = False


def is_part(holding: Holding, states: Sequence[NodeState]) -> bool:
    """Whether a device of a holding is a MIG instance (be it all of a card) or a replica, and no whole card."""
    state = state_near(states, holding.from_ms)
    sliced = holding.kind is DeviceKind.MIG or (state is not None and state.single_slices is not None)
    return sliced or share_of(holding, states) != 1


def is_shared(holding: Holding, states: Sequence[NodeState]) -> bool:
    """Whether several pods hold one device at once."""
    state = state_near(states, holding.from_ms)
    return holding.kind is not DeviceKind.MIG and state is not None and (state.replicas or 1) > 1


def share_of(holding: Holding, states: Sequence[NodeState]) -> Fraction:
    """What part of a card one device of a holding is."""
    state = state_near(states, holding.from_ms)
    if holding.kind is DeviceKind.MIG:
        return Fraction(mig_slices(holding.resource) or 1, state.slices if state else 7)
    if state and state.replicas and state.replicas > 1:
        return Fraction(1, state.replicas)
    if state and state.single_slices:
        return Fraction(state.single_slices, state.slices)
    return Fraction(1)


def state_near(states: Sequence[NodeState], at_ms: int) -> NodeState | None:
    """The last state that began by an instant, else the first there is."""
    earlier = [state for state in states if state.from_ms <= at_ms]
    return earlier[-1] if earlier else (states[0] if states else None)


class Votes:
    """How many samples of each device name a pod, for the devices of one node."""

    def __init__(self, devices: Sequence[Device]) -> None:
        self._by_pod: dict[tuple[str, ...], list[tuple[int, Claim]]] = defaultdict(list)
        for at, device in enumerate(devices):
            for claim in device.claims:
                self._by_pod[(claim.uid,) if claim.uid else (claim.namespace, claim.pod)].append((at, claim))

    def of(self, holding: Holding) -> list[int]:
        """Devices that samples within the hold name as the pod's, most samples first."""
        counted: dict[int, int] = defaultdict(int)
        by_uid = self._by_pod.get((holding.uid,), []) if holding.uid else []
        for at, claim in (*by_uid, *self._by_pod.get((holding.namespace, holding.pod), [])):
            low, high = np.searchsorted(claim.at_ms, (holding.from_ms, holding.to_ms))
            counted[at] += int(high - low)
        return sorted((at for at, count in counted.items() if count), key=lambda at: (-counted[at], at))
