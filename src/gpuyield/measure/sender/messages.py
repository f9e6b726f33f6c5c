"""What a sender process tells its parent: the rows of a slice, how far it is, why it cannot go on."""

from __future__ import annotations

from dataclasses import dataclass, field

from gpuyield.measure.sender.health import Vitals
from gpuyield.model.measure import CODES, NANOS

STOP = "stop"
"""What the parent says to end a run at once."""

COLUMNS = (
    "sent_ns",
    "first_ns",
    "last_ns",
    "end_ns",
    "output_tokens",
    "input_tokens",
    "reads",
    "gap_max_ns",
)
"""The columns of a worker's rows, each int64, -1 where nothing is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """What became of a slice: a value a request in each column; times count from the start of the run."""

    columns: dict[str, NANOS]
    status: CODES
    texts: dict[int, str]
    problems: dict[str, int]
    lags_ns: NANOS
    loop_lags_ns: NANOS
    cpu_s: float
    throttled_s: float
    waited_s: float | None
    duration_s: float
    opened: int
    replayed: int
    shortage: str

    @property
    def vitals(self) -> Vitals:
        """What the worker saw of itself."""
        return Vitals(
            lags_ns=self.lags_ns,
            loop_lags_ns=self.loop_lags_ns,
            throttled_s=self.throttled_s,
            waited_s=self.waited_s,
            duration_s=self.duration_s,
            shortage=self.shortage,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a worker is, `at_s` after the start; the lists are a sample of what ended since it last told."""

    at_s: float
    sent: int
    done: int
    failed: int
    in_flight: int
    statuses: list[int] = field(default_factory=list)
    first_s: list[float] = field(default_factory=list)
    whole_s: list[float] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """Why a worker cannot go on."""

    what: str
