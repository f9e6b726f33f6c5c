"""Load tests: what is sent, what came back, and what one probe says.

Times are integer nanoseconds on one monotonic clock, from the start of the probe; -1 where something did not happen.
Rates are requests per second and exist as floats only in plans and documents; what is judged are integer counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from gpuyield.model.witness import Witness

NANOS = NDArray[np.int64]
"""A column of nanoseconds or of counts."""

CODES = NDArray[np.int8]
"""A column of `ResponseStatus` or `Grade`."""

NEVER_NS = -1
"""The time of what did not happen."""

SECOND_NS = 1_000_000_000


class ResponseStatus(IntEnum):
    """How a request ended; all but OK and IN_FLIGHT are misses of every objective."""

    OK = 0
    REFUSED = 1
    """HTTP 429 or 503."""
    HTTP_ERROR = 2
    """Any other status but 2xx."""
    ERROR_EVENT = 3
    """An error inside a response that began with 200."""
    CUT_OFF = 4
    """It ended without its finish."""
    MALFORMED = 5
    """It broke the protocol, or is empty."""
    TIMEOUT = 6
    CONNECT_FAILED = 7
    IN_FLIGHT = 8
    """Still running when the probe gave up waiting."""


class Grade(IntEnum):
    """What a check says of a response; a response that is not OK is never good."""

    UNGRADED = -1
    BAD = 0
    GOOD = 1


class Phase(StrEnum):
    """What a probe is for."""

    CEILING = "ceiling"
    SEARCH = "search"
    CONFIRM = "confirm"
    REFUTE = "refute"


class ProbeStatus(StrEnum):
    """What a probe says; `invalid` says nothing about the service."""

    PASS = "pass"
    FAIL = "fail"
    UNDECIDED = "undecided"
    INVALID = "invalid"


class Level(StrEnum):
    """How sure the answer must be; `quick` never certifies."""

    QUICK = "quick"
    STANDARD = "standard"
    STRICT = "strict"


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrivals:
    """When each request is to be sent, fixed in advance and not falling, and which of the request set it is."""

    scheduled_ns: NANOS
    request: NANOS

    def __len__(self) -> int:
        return len(self.scheduled_ns)


@dataclass(frozen=True, slots=True, kw_only=True)
class Records:
    """What became of each arrival, row by row in the order of `Arrivals`.

    `first_ns` and `last_ns` are the reads that carried the first and the last content (reasoning counts; an empty or
    role-only chunk does not), `end_ns` is the end of the response. Tokens are as the server counts them, -1 where it
    does not. `reads` counts the reads that carried content, `gap_max_ns` is the longest time between two of them (-1
    with fewer than two). `grades` has a column of `Grade` for each check.
    """

    scheduled_ns: NANOS
    sent_ns: NANOS
    first_ns: NANOS
    last_ns: NANOS
    end_ns: NANOS
    output_tokens: NANOS
    input_tokens: NANOS
    reads: NANOS
    gap_max_ns: NANOS
    status: CODES
    grades: Mapping[str, CODES] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.scheduled_ns)


RECORD_NUMBERS = (
    *("scheduled_ns", "sent_ns", "first_ns", "last_ns", "end_ns"),
    *("output_tokens", "input_tokens", "reads", "gap_max_ns"),
)
"""The columns of `Records` that are whole numbers, in the order of its fields."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SenderHealth:
    """Whether the sender kept its schedule: a probe of a starved sender is invalid, whatever it measured.

    `ceiling_share` is the offered rate over what the sender's self-test reached (None: no self-test). `why` says what
    is wrong and what to do; empty when valid.
    """

    lag_p99_s: float = 0.0
    loop_lag_p99_s: float = 0.0
    throttled_s: float = 0.0
    ceiling_share: float | None = None
    valid: bool = True
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbePlan:
    """One probe, before it runs: arrivals go on for warm-up, measured span and run-out; only the measured are judged.

    The run-out keeps the load up until the measured requests have ended; `drain_ns` is how long the bench then waits
    for responses. `number` counts the probes of a search from 0. Batches are `batch_ns` long and fill the measured
    span; a ceiling probe has one. `alpha_keep` and `alpha_break` are what a false pass and a false refutation may
    cost at each objective.
    """

    number: int
    phase: Phase
    seed: int
    rate_rps: float
    warmup_ns: int
    batch_ns: int
    batches: int
    runout_ns: int
    drain_ns: int
    alpha_keep: float = 0.05
    alpha_break: float = 0.05

    @property
    def measured_ns(self) -> int:
        """How long the span is whose arrivals are judged."""
        return self.batch_ns * self.batches

    @property
    def sending_ns(self) -> int:
        """How long requests are sent."""
        return self.warmup_ns + self.measured_ns + self.runout_ns

    def measures(self, scheduled_ns: int) -> bool:
        """Whether the request of that time is judged."""
        return 0 <= scheduled_ns - self.warmup_ns < self.measured_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What a bench hands back. `changed` tells what of the service changed meanwhile: such a probe is invalid.

    `witness` None: nobody looked on.
    """

    records: Records
    health: SenderHealth = field(default_factory=SenderHealth)
    changed: str = ""
    witness: Witness | None = None


class Bench(Protocol):
    """Sends the arrivals and records what came back: the live sender, or the simulator in virtual time."""

    def run(self, plan: ProbePlan, arrivals: Arrivals) -> Run:
        """Send every arrival at its time, wait at most `plan.drain_ns` after the last one.

        Raises:
            SourceError: The service is out of reach, or an abort condition holds.
        """
        ...


Scheduler = Callable[[ProbePlan], Arrivals]
"""Draws the arrivals of a probe from its seed: `measure.arrivals.Schedule.arrivals`, or any other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """A share of misses with one-sided bounds, each wrong with a probability of at most its `alpha`.

    `inflation` is the variance of the share over what independent requests would give (at least 1), `n_eff` the number
    of independent requests that it is worth.
    """

    share: float
    lo: float
    hi: float
    n_eff: float
    inflation: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """Integer counts of one objective, batch by batch, and the bounds they give on the share of misses.

    `pending` were still running within their limit when the probe gave up: the upper bound counts them as misses, the
    lower bound does not. `allowed` is the share that may miss.
    """

    objective: str
    allowed: float
    attempts: tuple[int, ...]
    misses: tuple[int, ...]
    pending: tuple[int, ...]
    bounds: Bounds

    @property
    def holds(self) -> bool:
        """Whether so few miss that the objective is kept, at the probe's `alpha_keep`."""
        return self.bounds.hi <= self.allowed

    @property
    def broken(self) -> bool:
        """Whether so many miss that the objective is not kept, at the probe's `alpha_break`."""
        return self.bounds.lo > self.allowed


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """Requests in flight at the edges of batches; `slope` is their growth in requests a second.

    `late_arrivals` and `late_completions` are those of the second half of the measured span.
    """

    in_flight: tuple[int, ...]
    slope: float
    grows: bool
    late_arrivals: int
    late_completions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantiles:
    """Of the responses that are OK, in seconds; None where there are none."""

    p50: float
    p90: float
    p95: float
    p99: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """One probe and what it says. All counts are of requests scheduled in the measured span.

    `good` met every objective. `latencies` has `ttft`, `tpot`, `itl` (the longest gap between two reads) and `e2e`
    from the scheduled time, and `ttft_sent`, `e2e_sent` from the time of sending, which is diagnostic only.
    `e2e_mean_s` is None without a response that is OK. `served_rps` is the completion rate while a burst was served.
    """

    plan: ProbePlan
    requests: int
    completed: int
    failed: int
    good: int
    sent: int
    duration_s: float
    drain_s: float
    served_rps: float | None
    e2e_mean_s: float | None
    latencies: Mapping[str, Quantiles]
    tallies: tuple[Tally, ...]
    backlog: Backlog
    health: SenderHealth
    status: ProbeStatus
    reason: str
    witness: Witness | None = None


class Stop(StrEnum):
    """Why a search ended."""

    DECIDED = "decided"
    """A rate is certified and a higher one refuted."""
    MAX_RATE = "max_rate"
    """The highest rate allowed is certified."""
    QUICK = "quick"
    """The level gives an estimate only."""
    NOT_CERTIFIED = "not_certified"
    """No try to confirm a rate passed."""
    NOT_REFUTED = "not_refuted"
    """A rate is certified, and no try to refute a higher one was conclusive."""
    CONTRADICTION = "contradiction"
    """A rate was certified and a lower one refuted: the service changed, or chance struck; neither is claimed."""
    TIME = "time"
    INVALID = "invalid"
    """Too many probes of a sender that could not keep its schedule, or of a service that changed."""
    NOT_SERVING = "not_serving"
    """Not one response was OK."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """What a search found; a rate that was not certified or not refuted is None."""

    probes: tuple[Probe, ...]
    stop: Stop
    certified_rps: float | None = None
    refuted_rps: float | None = None
    estimate_rps: float | None = None
    limited_by: str | None = None
