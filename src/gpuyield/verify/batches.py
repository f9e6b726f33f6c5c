"""Bounds on a share and the trend of a backlog from integer counts per batch, worked out another way.

The same statistics as `gpuyield.measure` (see its page on measuring for the sources), by other means: Student's t
from its finite sums for whole degrees of freedom, the incomplete beta function from its power series.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

MIN_BATCHES = 8
LAG_LIMIT = 0.8
COMPLETED_SHARE = 0.98
BACKLOG_ALPHA = 0.01
OF_MEAN = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Of one objective, batch by batch."""

    attempts: tuple[int, ...]
    misses: tuple[int, ...]
    pending: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Of the share of misses; `n_eff` and `inflation` are those of the upper bound."""

    lo: float
    hi: float
    n_eff: float
    inflation: float


def attainment_bounds(counts: Counts, *, keep: float, break_: float) -> Bounds:
    """The upper bound with all pending ones missed, the lower one with none."""
    most = tuple(missed + open_ for missed, open_ in zip(counts.misses, counts.pending, strict=True))
    high = miss_bounds(counts.attempts, most, keep)
    low = miss_bounds(counts.attempts, counts.misses, break_)
    return Bounds(lo=low.lo, hi=high.hi, n_eff=high.n_eff, inflation=high.inflation)


@lru_cache(maxsize=1024)
def miss_bounds(attempts: tuple[int, ...], misses: tuple[int, ...], alpha: float) -> Bounds:
    """The wider of the t interval on batches and the exact binomial interval of the effective number of requests."""
    total, number = sum(attempts), len(attempts)
    if number < MIN_BATCHES or not total:
        return Bounds(lo=0.0, hi=1.0, n_eff=0.0, inflation=1.0)
    share = sum(misses) / total
    rests = [missed - share * tried for missed, tried in zip(misses, attempts, strict=True)]
    squares = math.fsum(one * one for one in rests)
    lag = math.fsum(one * other for one, other in pairwise(rests)) / squares if squares else 0.0
    lag = min(max(lag, 0.0), LAG_LIMIT)
    variance = number / (number - 1) * squares / total**2 * (1 + lag) / (1 - lag)
    independent = share * (1 - share) / total
    inflation = max(1.0, variance / independent) if independent else 1.0
    n_eff = total / inflation
    quantile = student_quantile(1 - alpha, number - 1)
    size = n_eff * (normal_quantile(1 - alpha) / quantile) ** 2 if independent else n_eff
    reach = quantile * math.sqrt(variance)
    misses_eff = share * size
    lowest = 0.0 if misses_eff <= 0 else _halve(lambda x: beta_series(x, misses_eff, size - misses_eff + 1) - alpha)
    highest = (
        1.0 if misses_eff >= size else _halve(lambda x: beta_series(x, misses_eff + 1, size - misses_eff) - (1 - alpha))
    )
    return Bounds(
        lo=max(0.0, min(share - reach, lowest)),
        hi=min(1.0, max(share + reach, highest)),
        n_eff=n_eff,
        inflation=inflation,
    )


def backlog_slope(in_flight: Sequence[int]) -> float:
    """The median of the slopes of all pairs, a batch."""
    slopes = sorted(
        (in_flight[j] - in_flight[i]) / (j - i) for i in range(len(in_flight)) for j in range(i + 1, len(in_flight))
    )
    return _median(slopes) if slopes else 0.0


def backlog_grows(in_flight: Sequence[int]) -> bool:
    """Whether a rising trend is real (Mann and Kendall, corrected for what neighbours share) and large."""
    number = len(in_flight)
    if number < 4:
        return False
    slope = backlog_slope(in_flight)
    middle = _median(sorted(in_flight))
    rests = [level - middle - slope * (at - (number - 1) / 2) for at, level in enumerate(in_flight)]
    mean = math.fsum(rests) / number
    rests = [one - mean for one in rests]
    rises = sum(
        (in_flight[j] > in_flight[i]) - (in_flight[j] < in_flight[i])
        for i in range(number)
        for j in range(i + 1, number)
    )
    ties: dict[int, int] = {}
    for level in in_flight:
        ties[level] = ties.get(level, 0) + 1
    pairs = number * (number - 1) * (2 * number + 5) - sum(n * (n - 1) * (2 * n + 5) for n in ties.values())
    squares = math.fsum(one * one for one in rests)
    lag = math.fsum(one * other for one, other in pairwise(rests)) / squares if squares else 0.0
    lag = min(max(lag, 0.0), LAG_LIMIT)
    spread = math.sqrt(max(pairs, 1) / 18 * (1 + lag) / (1 - lag))
    is_real = rises > 0 and (rises - 1) / spread > normal_quantile(1 - BACKLOG_ALPHA)
    growth = slope * (number - 1)
    return is_real and growth > max(2 * math.sqrt(squares / number), OF_MEAN * sum(in_flight) / number)


def is_behind(in_flight: Sequence[int], arrived: int, completed: int) -> bool:
    """Whether the second half completed less than it was offered, and more than doubled what was in flight."""
    return arrived - completed > max((1 - COMPLETED_SHARE) * arrived, in_flight[(len(in_flight) - 1) // 2])


def student_cdf(value: float, freedom: int) -> float:
    """Student's t for whole degrees of freedom.

    Source: Abramowitz and Stegun 26.7.3 and 26.7.4.
    """
    angle = math.atan(value / math.sqrt(freedom))
    cosine, sine = math.cos(angle), math.sin(angle)
    term, total = (cosine, cosine) if freedom % 2 else (1.0, 1.0)
    for at in range(3 if freedom % 2 else 2, freedom - 1, 2):
        term *= cosine * cosine * (at - 1) / at
        total += term
    if freedom == 1:
        inside = 2 * angle / math.pi
    elif freedom % 2:
        inside = 2 / math.pi * (angle + sine * total)
    else:
        inside = sine * total
    return (1 + inside) / 2


def student_quantile(probability: float, freedom: int) -> float:
    """Where the distribution function of Student's t reaches a probability of at least one half."""
    low, high = 0.0, 1.0
    while student_cdf(high, freedom) < probability and high < 1e9:
        high *= 2
    for _ in range(70):
        middle = (low + high) / 2
        low, high = (middle, high) if student_cdf(middle, freedom) < probability else (low, middle)
    return (low + high) / 2


def normal_quantile(probability: float) -> float:
    """The quantile of the standard normal."""
    low, high = -40.0, 40.0
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if math.erfc(-middle / math.sqrt(2)) / 2 < probability else (low, middle)
    return (low + high) / 2


def beta_series(x: float, a: float, b: float) -> float:
    """The regularised incomplete beta function by its power series, from the side where it is small.

    Source: NIST Digital Library of Mathematical Functions 8.17.7 and 15.8.1.
    """
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):
        return 1 - beta_series_below(1 - x, b, a)
    return beta_series_below(x, a, b)


def beta_series_below(x: float, a: float, b: float) -> float:
    """The series where its terms fall: each is the one before times (a + b + n) x / (a + 1 + n)."""
    front = math.exp(a * math.log(x) + b * math.log1p(-x) + math.lgamma(a + b) - math.lgamma(a + 1) - math.lgamma(b))
    term = total = 1.0
    for n in range(1_000_000):
        term *= (a + b + n) * x / (a + 1 + n)
        total += term
        if term < 1e-14 * total:
            break
    return front * total


def _median(ordered: Sequence[float]) -> float:
    middle = len(ordered) // 2
    return float(ordered[middle]) if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def _halve(rising: Callable[[float], float]) -> float:
    low, high = 0.0, 1.0
    for _ in range(45):
        middle = (low + high) / 2
        low, high = (middle, high) if rising(middle) < 0 else (low, middle)
    return (low + high) / 2
