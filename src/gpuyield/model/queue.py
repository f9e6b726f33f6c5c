"""Why work waited: waiting GPU time by cause (contracts, section 4)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from gpuyield.model.evidence import Gap
from gpuyield.units import Window


class Cause(StrEnum):
    """Why GPU time was waited for, in the order in which causes are tried: the first that applies counts."""

    NOT_DUE_YET = "not_due_yet"
    IMPOSSIBLE = "impossible"
    QUOTA = "quota"
    FRAGMENTED = "fragmented"
    HELD_IDLE = "held_idle"
    UNDECLARED = "undeclared"
    ORDER = "order"
    SERVING = "serving"
    PAIRING = "pairing"
    CAPACITY = "capacity"
    UNEXPLAINED = "unexplained"


class Promise(StrEnum):
    """What is known about the deadline (or due time) of a job that waited."""

    KEPT = "kept"
    """Met, or still ahead and within reach."""
    MISSED = "missed"
    IMPOSSIBLE = "impossible"
    """Out of reach even for a start without any wait, or no node has so many GPUs."""
    NONE = "none"
    """None is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """GPUs that one pod (they lie on one node) asked for and did not have over a window.

    `flavors` are those that would do, () any; `family` is the declared batch family (None: none is declared).
    `widest_node` is given where no node has so many GPUs: the most that one has.
    """

    job: str
    gpus: int
    window: Window
    promise: Promise
    team: str | None = None
    queue: str | None = None
    workload: str | None = None
    family: str | None = None
    flavors: tuple[str, ...] = ()
    widest_node: int | None = None

    @property
    def gpu_ms(self) -> int:
        """The waiting GPU time."""
        return self.gpus * self.window.length_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Supply:
    """What a node could have given: steps `(from_ms, free, idle_held)` of whole GPUs, each until the next."""

    node: str
    flavor: str | None
    steps: tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class TooWide:
    """A job with a pod that asks for more GPUs than any node has, so that it can never start."""

    job: str
    gpus: int
    widest_node: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRow:
    """Waiting GPU time of one key by cause."""

    key: Mapping[str, str | None]
    causes: Mapping[Cause, int]

    @property
    def gpu_ms(self) -> int:
        """The total wait."""
        return sum(self.causes.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """Waiting GPU time of a window by cause; `free_gpu_ms` and `idle_gpu_ms` stood unused while something waited."""

    window: Window
    by: tuple[str, ...]
    total: QueueRow
    rows: tuple[QueueRow, ...]
    free_gpu_ms: int
    idle_gpu_ms: int
    gaps: tuple[Gap, ...]
    too_wide: tuple[TooWide, ...] = ()
