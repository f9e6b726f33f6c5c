"""What the controller counts, as Prometheus reads it (contracts, section 8)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from threading import Lock

PREFIX = "gpuyield_controller_"
BUCKETS_S = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0)
"""Upper bounds of the histogram of decisions."""
DELAYS_S = (-3600.0, -600.0, -60.0, -10.0, 0.0, 10.0, 60.0, 600.0, 3600.0, 21600.0)
"""Upper bounds of the histogram of starts against the plan."""

_COUNTERS = {
    "releases": "Jobs whose gate was taken off, or that were moved out of a queue on hold.",
    "ready": "Workloads whose check was answered with Ready.",
    "parks": "Workloads that were parked before they started.",
    "returns": "Parked Workloads that were switched on again.",
    "reconciles": "Rounds of the loop.",
    "replans": "Plans that were made.",
    "refused_plans": "Plans that were not used, because they did not stand their check or could not be made.",
    "conflicts": "Writes that came too late: what they were decided on had changed.",
    "errors": "Writes and reads that failed.",
    "early_stops": "Jobs that were started by us and then stopped by us. It must stay 0.",
}


@dataclass(slots=True)
class _Histogram:
    bounds: tuple[float, ...]
    counts: list[int] = field(default_factory=list)
    total: float = 0.0

    def __post_init__(self) -> None:
        self.counts = [0] * (len(self.bounds) + 1)

    def see(self, value: float) -> None:
        """Count one."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def lines(self, name: str, said: str) -> Iterator[str]:
        """As Prometheus reads it."""
        yield from _head(f"{PREFIX}{name}", "histogram", said)
        below = 0
        for bound, count in zip((*map(str, self.bounds), "+Inf"), self.counts, strict=True):
            below += count
            yield f'{PREFIX}{name}_bucket{{le="{bound}"}} {below}'
        yield f"{PREFIX}{name}_sum {self.total:.6f}"
        yield f"{PREFIX}{name}_count {below}"


@dataclass(slots=True)
class Metrics:
    """Counters, gauges and the time from what was seen to what was written; safe to read from another thread."""

    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_COUNTERS, 0))
    slack_s: Mapping[tuple[str, str], float] = field(default_factory=dict)
    plan_status: str = ""
    leads: bool = False
    acts: bool = False
    _decisions: _Histogram = field(default_factory=lambda: _Histogram(BUCKETS_S))
    _delays: _Histogram = field(default_factory=lambda: _Histogram(DELAYS_S))
    _lock: Lock = field(default_factory=Lock)

    def count(self, name: str, by: int = 1) -> None:
        """Add to a counter."""
        with self._lock:
            self.counts[name] += by

    def set_count(self, name: str, to: int) -> None:
        """A counter that is kept elsewhere."""
        with self._lock:
            self.counts[name] = to

    def took(self, seconds: float) -> None:
        """A round that wrote something took so long, from the change that woke it."""
        with self._lock:
            self._decisions.see(seconds)

    def began(self, late_s: float) -> None:
        """A job that we let go began so much later than the plan in force said; less than 0 is earlier."""
        with self._lock:
            self._delays.see(late_s)

    def text(self) -> str:
        """The page that Prometheus scrapes."""
        with self._lock:
            return "\n".join(self._lines()) + "\n"

    def _lines(self) -> Iterator[str]:
        for name, said in _COUNTERS.items():
            yield from _head(f"{PREFIX}{name}_total", "counter", said)
            yield f"{PREFIX}{name}_total {self.counts[name]}"
        yield from self._decisions.lines("decision_seconds", "From a change seen to the last write it led to.")
        yield from self._delays.lines("start_delay_seconds", "From the planned to the real start; below 0 is earlier.")
        for name, said, is_so in (
            ("leads", "Whether this replica leads.", self.leads),
            ("enforces", "Whether it acts on the plan; 0 while it stands by, or cannot do so safely.", self.acts),
        ):
            yield from _head(f"{PREFIX}{name}", "gauge", said)
            yield f"{PREFIX}{name} {int(is_so)}"
        if self.plan_status:
            yield from _head("gpuyield_plan_status", "gauge", "1 for the status of the plan in force.")
            for status in ("optimal", "feasible", "unknown", "infeasible"):
                yield f'gpuyield_plan_status{{status="{status}"}} {int(status == self.plan_status)}'
        yield from _head(
            "gpuyield_deadline_slack_seconds", "gauge", "Planned end to deadline of jobs that are planned now."
        )
        for (namespace, job), slack_s in sorted(self.slack_s.items()):
            labels = f'namespace="{_escaped(namespace)}",job="{_escaped(job)}"'
            yield f"gpuyield_deadline_slack_seconds{{{labels}}} {slack_s:.3f}"


def _head(name: str, kind: str, said: str) -> Iterator[str]:
    yield f"# HELP {name} {said}"
    yield f"# TYPE {name} {kind}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
