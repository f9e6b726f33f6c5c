"""How long each part of a request may take, and how a run is told to go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gpuyield.measure.protocols.protocol import Spoken
from gpuyield.measure.sender.target import Target
from gpuyield.model.measure import NANOS


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Time limits of one request, in seconds: to connect, to the first byte, between two reads, and in all."""

    connect_s: float = 5.0
    first_s: float = 60.0
    between_s: float = 30.0
    total_s: float = 600.0


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Job:
    """What a worker needs to know once: `bodies[i]` is what is sent for request i of the set."""

    target: Target
    spoken: Spoken
    bodies: Sequence[bytes]
    limits: Limits
    keep_texts: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """A worker's part of a run. `scheduled_ns` counts from `start_ns` of the monotonic clock, set when all are ready.

    `at_once`: the closed loop, a diagnostic; that many requests are kept running and the schedule is not looked at.
    """

    scheduled_ns: NANOS
    request: NANOS
    drain_ns: int
    at_once: int = 0
    start_ns: int = 0

    def starting(self, start_ns: int) -> Slice:
        """The same slice from an instant of the monotonic clock on."""
        return replace(self, start_ns=start_ns)
