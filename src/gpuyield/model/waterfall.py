"""The waterfall: disjoint classes of GPU time that always sum to capacity (contracts, section 4)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from gpuyield.model.evidence import Evidence, Gap
from gpuyield.units import Money, Window


class GpuClass(StrEnum):
    """The leaves of the waterfall, in order."""

    UNAVAILABLE = "unavailable"
    NO_DEMAND = "unallocated.no_demand"
    QUOTA_BLOCKED = "unallocated.quota_blocked"
    FRAGMENTED = "unallocated.fragmented"
    BYPASSED = "unallocated.bypassed"
    UNEXPLAINED = "unallocated.unexplained"
    STARTING = "starting"
    IDLE_HELD = "idle_held"
    UNDERUSED = "underused"
    UNOBSERVED = "unobserved"
    PRODUCTIVE = "productive"
    SUPERSEDED = "lost.superseded"
    FAILED = "lost.failed"
    LATE = "lost.late"
    REJECTED = "lost.rejected"
    OVERHEAD = "lost.overhead"
    UNATTRIBUTED = "unjudged.unattributed"
    UNVERIFIED = "unjudged.unverified"


UNALLOCATED = tuple(one for one in GpuClass if one.startswith("unallocated."))
LOST = tuple(one for one in GpuClass if one.startswith("lost."))
UNJUDGED = tuple(one for one in GpuClass if one.startswith("unjudged."))
BUSY = (GpuClass.PRODUCTIVE, *LOST, *UNJUDGED)
ALLOCATED = (GpuClass.STARTING, GpuClass.IDLE_HELD, GpuClass.UNDERUSED, GpuClass.UNOBSERVED, *BUSY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """GPU time of one class, in GPU-milliseconds, with the bounds that the truth lies in."""

    gpu_class: GpuClass
    gpu_ms: int
    lo: int
    hi: int
    evidence: Evidence = Evidence.MEASURED
    money: Money | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Waterfall:
    """All leaves in order; their GPU time sums to `capacity_gpu_ms`."""

    leaves: tuple[Leaf, ...]

    @property
    def capacity_gpu_ms(self) -> int:
        """GPU time that existed."""
        return sum(leaf.gpu_ms for leaf in self.leaves)

    def gpu_ms(self, *classes: GpuClass) -> int:
        """GPU time of these classes together."""
        return sum(leaf.gpu_ms for leaf in self.leaves if leaf.gpu_class in classes)

    def leaf(self, gpu_class: GpuClass) -> Leaf:
        """The leaf of one class."""
        return next(leaf for leaf in self.leaves if leaf.gpu_class is gpu_class)


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountRow:
    """The waterfall of one key, such as `{"team": "evals"}`; None as a value means nobody's."""

    key: Mapping[str, str | None]
    waterfall: Waterfall


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """Who holds whole, unshared GPUs that are idle: only these can be reclaimed.

    `gpus` is the most held idle at once; `since_ms` is the start of the span that is still going on at the end of
    the window (None: none is); `open_start` says that the span began before anything was collected.
    """

    namespace: str
    workload: str
    team: str | None
    flavor: str | None
    gpus: int
    idle_gpu_ms: int
    since_ms: int | None
    gpus_now: int
    open_start: bool
    longest: Window


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """Where every GPU-hour of a window went."""

    window: Window
    by: tuple[str, ...]
    waterfall: Waterfall
    rows: tuple[AccountRow, ...]
    holders: tuple[Holder, ...]
    gaps: tuple[Gap, ...]
