"""What Kueue itself counted of its queues over a window; None is unknown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gpuyield.units import Window


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """A level over a window, in whatever unit it counts: means over the time that is known, `known` of it as a ratio.

    `first` and `last` are the means of the first and the last quarter of the window, None where less than half of it is
    known.
    """

    now: float | None
    mean: float
    most: float
    first: float | None
    last: float | None
    known: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Waits:
    """How long `n` Workloads waited from creation (or their last requeue) to admission, in seconds.

    `p50_at_most_s` and `p90_at_most_s` are upper bounds: the bucket's edge; None beyond the last edge.
    """

    n: int
    mean_s: float | None
    p50_at_most_s: float | None
    p90_at_most_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueCounts:
    """One ClusterQueue: Workloads that waited, GPUs reserved and in use, and what happened, by Kueue's metrics.

    `evicted` counts evictions by Kueue's reason; an increase that no scrape saw is in none of these numbers.
    """

    queue: str
    waiting: Level | None = None
    reserved_gpus: Level | None = None
    used_gpus: Level | None = None
    admitted: int | None = None
    evicted: Mapping[str, int] | None = None
    waits: Waits | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KueueCounts:
    """All queues that Kueue told of, by name; `known` is of how much of the window it was heard, as a ratio."""

    window: Window
    known: float
    queues: tuple[QueueCounts, ...]
