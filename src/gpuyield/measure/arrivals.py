"""When requests are sent: drawn in full before a probe begins, so that a slow server cannot slow them down.

A random process is drawn given its number of arrivals in the measured span, and the request set is dealt out evenly
over it in random order: each arrival is as random as before, but a probe at 12 requests a second measures 12 and not
whatever the draw happened to be, which takes a good part of the noise out of what it says.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from gpuyield.errors import DeclarationError
from gpuyield.model.measure import NANOS, SECOND_NS, Arrivals, ProbePlan


class Process(Protocol):
    """A random process of arrivals with a mean rate of one; its gaps need no scale."""

    @property
    def name(self) -> str:
        """How documents name it."""
        ...

    def gaps(self, rng: np.random.Generator, count: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        """Times between arrivals."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Poisson:
    """Independent arrivals: what many unrelated users send."""

    @property
    def name(self) -> str:
        """How documents name it."""
        return "poisson"

    def gaps(self, rng: np.random.Generator, count: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        """Exponential gaps."""
        return rng.standard_exponential(count)


@dataclass(frozen=True, slots=True, kw_only=True)
class Constant:
    """Arrivals at equal distances."""

    @property
    def name(self) -> str:
        """How documents name it."""
        return "constant"

    def gaps(self, rng: np.random.Generator, count: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        """All the same."""
        return np.ones(count)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gamma:
    """Bursty (`cv` > 1) or even (`cv` < 1) arrivals; `cv` is the coefficient of variation of the gaps, 1 is Poisson."""

    cv: float

    def __post_init__(self) -> None:
        if not 0 < self.cv <= 100:
            raise DeclarationError(
                f"a coefficient of variation of {self.cv:g} is not between 0 and 100.",
                where="--arrivals",
                fix="Write gamma:2 for bursts; constant for none.",
            )

    @property
    def name(self) -> str:
        """How documents name it."""
        return f"gamma:{self.cv:g}"

    def gaps(self, rng: np.random.Generator, count: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        """Gamma gaps of mean one."""
        shape = self.cv**-2
        return rng.standard_gamma(shape, count) / shape


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """Draws the arrivals of a probe from its seed; `requests` is the size of the request set."""

    process: Process
    requests: int

    @property
    def name(self) -> str:
        """How documents name the arrivals."""
        return self.process.name

    def arrivals(self, plan: ProbePlan) -> Arrivals:
        """The arrivals of this probe: the same plan, the same arrivals."""
        rng = np.random.default_rng(plan.seed)
        spans = (plan.warmup_ns, plan.measured_ns, plan.runout_ns)
        begins = (0, plan.warmup_ns, plan.warmup_ns + plan.measured_ns)
        times: list[NANOS] = []
        requests: list[NANOS] = []
        for begin_ns, span_ns in zip(begins, spans, strict=True):
            count = int(plan.rate_rps * span_ns / SECOND_NS + rng.random())
            times.append(begin_ns + _spread(self.process.gaps(rng, count + 1), span_ns, rng))
            requests.append(_deal(rng, count, self.requests))
        return Arrivals(scheduled_ns=np.concatenate(times), request=np.concatenate(requests))


def _spread(gaps: np.ndarray[tuple[int], np.dtype[np.float64]], span_ns: int, rng: np.random.Generator) -> NANOS:
    """Arrivals between the gaps, which together fill the span; the circle is cut at a random point of its first gap.

    Source: given their number, the arrivals of a Poisson process are uniform, and uniform order statistics are
    normalised exponential sums (Devroye, Non-Uniform Random Variate Generation, V.2).
    """
    share = gaps[0] * rng.random()
    ends = np.cumsum(gaps) - share
    total = float(ends[-1] + share)
    return np.floor(ends[:-1] * (span_ns / total)).astype(np.int64) if total else np.zeros(0, np.int64)


def _deal(rng: np.random.Generator, count: int, requests: int) -> NANOS:
    """Each request of the set as often as any other, give or take one, in random order."""
    whole = np.tile(np.arange(requests, dtype=np.int64), count // requests)
    rest = rng.permutation(requests)[: count % requests].astype(np.int64)
    dealt = np.concatenate([whole, rest])
    rng.shuffle(dealt)
    return dealt
