"""What others saw of a probe: the server in its own metrics, and the exporter of the GPUs.

Witnesses never decide whether a probe passes. They say where the time goes, whether somebody else sent load too, and
how busy the GPUs were at a rate that is known.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpuyield.model.evidence import Gap


@dataclass(frozen=True, slots=True, kw_only=True)
class Histogram:
    """Counts of seconds up to and including each upper edge, which rise; the last edge is infinite."""

    edges_s: tuple[float, ...]
    counts: tuple[float, ...]
    sum_s: float

    @property
    def total(self) -> float:
        """How many were counted."""
        return self.counts[-1] if self.counts else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerReading:
    """A server's metrics at one instant of the probe's clock; None is what it does not tell.

    Requests are summed over its engines, `kv_used` (a ratio) is that of the fullest one. `finished` and the histograms
    count since `started`, which tells one process from another.
    """

    at_ns: int
    started: str | None = None
    running: float | None = None
    waiting: float | None = None
    kv_used: float | None = None
    finished: float | None = None
    ttft: Histogram | None = None
    tpot: Histogram | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuReading:
    """How busy each card was, as a ratio, at one instant of the probe's clock.

    `mark` changes when the exporter says anything new: between two of its own readings it repeats itself. `exporter`
    tells one from another where there are several. `models` are those of the cards, as far as it tells.
    """

    at_ns: int
    metric: str
    busy: Mapping[str, float]
    mark: str
    exporter: str = ""
    models: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """A gauge over the readings of a probe."""

    mean: float
    most: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenLatency:
    """A histogram's growth during a probe.

    The median lies above `p50_over_s` and not above `p50_at_most_s` (None: no upper edge).
    """

    n: int
    mean_s: float
    p50_over_s: float
    p50_at_most_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerWitness:
    """What the server told while the measured requests came; None where it tells nothing of it.

    `others` are requests that it finished and that were not ours.
    """

    readings: int
    running: Spread | None = None
    waiting: Spread | None = None
    kv_used: Spread | None = None
    finished: int | None = None
    others: int | None = None
    ttft: SeenLatency | None = None
    tpot: SeenLatency | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuWitness:
    """How busy the cards were: the mean of all, the least and the most busy one, as ratios.

    `models` counts the cards of each model; empty where the exporter does not tell of all of them.
    """

    metric: str
    gpus: int
    readings: int
    busy: float
    least: float
    most: float
    models: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Witness:
    """What was seen beside a probe. `remarks` say where a witness contradicts what the client saw."""

    server: ServerWitness | None = None
    gpu: GpuWitness | None = None
    remarks: tuple[str, ...] = ()
    gaps: tuple[Gap, ...] = field(default=())
