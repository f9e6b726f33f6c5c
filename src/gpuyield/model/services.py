"""Declared services round the clock: objectives kept, demand, and the headroom that measured capacity leaves."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from gpuyield.model.declaration import Objective
from gpuyield.model.evidence import Gap
from gpuyield.model.service_capacity import ServiceCapacity
from gpuyield.units import Window


@dataclass(frozen=True, slots=True, kw_only=True)
class Attained:
    """Of `n` answered requests at least `lo` and at most `hi` kept a limit: it lies between two edges."""

    n: int
    lo: int
    hi: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectiveKept:
    """One objective over the window and by hour (epoch ms of its start); None where nothing tells."""

    objective: Objective
    whole: Attained | None
    hours: tuple[tuple[int, Attained], ...] = ()

    @property
    def hours_missed(self) -> tuple[int, int]:
        """Hours that were surely missed, and those that perhaps were."""
        share = self.objective.share
        surely = sum(1 for _, one in self.hours if one.n and Decimal(one.hi) < share * one.n)
        perhaps = sum(1 for _, one in self.hours if one.n and Decimal(one.lo) < share * one.n)
        return surely, perhaps


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """Requests a second that a service got: the 99th percentile of all five minutes that samples cover, and the most.

    `bins` is how many five minutes they are, `of` how many the window has.
    """

    peak_rps: float
    most_rps: float
    bins: int
    of: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceState:
    """One declared service. `headroom_rps` None: `reason` says why. `gpu_busy` is a ratio of the time it held GPUs."""

    name: str
    team: str | None
    objectives: tuple[ObjectiveKept, ...]
    demand: Demand | None
    capacity: ServiceCapacity | None
    is_expired: bool
    replicas: int | None
    gpu_busy: float | None
    headroom_rps: float | None
    reason: str

    @property
    def more_requests(self) -> float | None:
        """The headroom as a ratio of the peak; None without a headroom or a peak."""
        if self.headroom_rps is None or self.demand is None or not self.demand.peak_rps:
            return None
        return self.headroom_rps / self.demand.peak_rps


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """All declared services in a window."""

    window: Window
    now_ms: int
    services: tuple[ServiceState, ...]
    gaps: tuple[Gap, ...] = ()
