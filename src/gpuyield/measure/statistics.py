"""Bounds on the share of requests that miss, from counts per batch of time: consecutive requests are not independent.

Requests that wait in the same queue miss together, so 300 of them near the limit may be worth no more than 3. Batches
of time much longer than a request are nearly independent; what they vary by is measured, shown as inflation, and the
bounds are those of as many independent requests as the probe is worth.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from gpuyield.model.measure import Bounds

MIN_BATCHES = 8
"""With fewer the spread of the batches is not known and nothing is bounded."""

_LAG_LIMIT = 0.8


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """The share of misses and its variance, from batches; `freedom` are its degrees of freedom."""

    share: float
    variance: float
    freedom: float


def miss_bounds(attempts: Sequence[int], misses: Sequence[int], *, alpha: float) -> Bounds:
    """Bounds of the share of misses from the counts of consecutive batches.

    The wider of the t interval on batches and of the exact binomial interval of `n_eff` requests, which also holds
    where misses are so few that batches hardly vary.

    Source: Korn and Graubard 1998, Survey Methodology 24(2) (an exact interval from an effective sample size);
    Cochran, Sampling Techniques, 1977, section 6 (a ratio of sums); Law, Simulation Modeling and Analysis, section
    9.5.3 (batch means).
    """
    total, missed = sum(attempts), sum(misses)
    if len(attempts) < MIN_BATCHES or total == 0:
        return Bounds(share=missed / total if total else 0.0, lo=0.0, hi=1.0, n_eff=0.0, inflation=1.0)
    spread = batch_spread(attempts, misses)
    binomial = spread.share * (1 - spread.share) / total
    inflation = max(1.0, spread.variance / binomial) if binomial else 1.0
    n_eff = total / inflation
    # The effective size is itself an estimate: fewer degrees of freedom, fewer requests (Korn and Graubard).
    shrunk = n_eff * (normal_quantile(1 - alpha) / t_quantile(1 - alpha, spread.freedom)) ** 2 if binomial else n_eff
    reach = t_quantile(1 - alpha, spread.freedom) * math.sqrt(spread.variance)
    return Bounds(
        share=spread.share,
        lo=max(0.0, min(spread.share - reach, binomial_lower(spread.share * shrunk, shrunk, alpha))),
        hi=min(1.0, max(spread.share + reach, binomial_upper(spread.share * shrunk, shrunk, alpha))),
        n_eff=n_eff,
        inflation=inflation,
    )


def batch_spread(attempts: Sequence[int], misses: Sequence[int]) -> Spread:
    """The ratio of sums and its variance, corrected for what neighbouring batches share.

    Source: Cochran 1977, 6.4 for the variance; an autoregressive process of order one for the correction
    (1 + r) / (1 - r) of the variance.
    """
    sizes, counts = np.asarray(attempts, float), np.asarray(misses, float)
    share = float(counts.sum() / sizes.sum())
    rest = counts - share * sizes
    squares = float((rest**2).sum())
    number = len(sizes)
    variance = number / (number - 1) * squares / float(sizes.sum()) ** 2
    lag = float((rest[1:] * rest[:-1]).sum()) / squares if squares else 0.0
    lag = min(max(lag, 0.0), _LAG_LIMIT)
    factor = (1 + lag) / (1 - lag)
    return Spread(share=share, variance=variance * factor, freedom=number - 1)


def binomial_upper(misses: float, size: float, alpha: float) -> float:
    """The highest share at which so few misses of so many still have a probability of `alpha`; sizes may be fractions.

    Source: Clopper and Pearson 1934, through the incomplete beta function.
    """
    if misses >= size:
        return 1.0
    return _root(lambda share: beta_cdf(share, misses + 1, size - misses) - (1 - alpha))


def binomial_lower(misses: float, size: float, alpha: float) -> float:
    """The lowest share at which so many misses still have a probability of `alpha` (Clopper and Pearson 1934)."""
    if misses <= 0:
        return 0.0
    return _root(lambda share: beta_cdf(share, misses, size - misses + 1) - alpha)


@cache
def t_quantile(probability: float, freedom: float) -> float:
    """The quantile of Student's t at a probability of at least one half."""
    if probability == 0.5:
        return 0.0
    # With x = f / (f + t^2), P(T > t) is half the regularised incomplete beta of x.
    tail = 2 * (1 - probability)
    share = _root(lambda x: beta_cdf(x, freedom / 2, 0.5) - tail)
    return math.sqrt(freedom * (1 - share) / share)


def normal_quantile(probability: float) -> float:
    """The quantile of the standard normal."""
    low, high = -40.0, 40.0
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if normal_cdf(middle) < probability else (low, middle)
    return (low + high) / 2


def normal_cdf(value: float) -> float:
    """The distribution function of the standard normal."""
    return math.erfc(-value / math.sqrt(2)) / 2


def beta_cdf(x: float, a: float, b: float) -> float:
    """The regularised incomplete beta function I_x(a, b).

    Source: continued fraction 8.17.22 of the NIST Digital Library of Mathematical Functions, by Lentz's method.
    """
    if x <= 0:
        return 0.0
    if x >= 1:
        return 1.0
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x))
    if x < (a + 1) / (a + b + 2):
        return front * _beta_fraction(x, a, b) / a
    return 1 - front * _beta_fraction(1 - x, b, a) / b


def _beta_fraction(x: float, a: float, b: float) -> float:
    tiny = 1e-300
    c, d = 1.0, 1 - (a + b) * x / (a + 1)
    d = 1 / (d if abs(d) > tiny else tiny)
    found = d
    for m in range(1, 10_000):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        step = 1.0
        for term in (even, odd):
            d = 1 + term * d
            c = 1 + term / c
            d = 1 / (d if abs(d) > tiny else tiny)
            c = c if abs(c) > tiny else tiny
            step = d * c
            found *= step
        if abs(step - 1) < 1e-13:
            break
    return found


def _root(rising: Callable[[float], float]) -> float:
    """Where a rising function of a share is zero.

    Source: the Illinois variant of regula falsi (Dowell and Jarratt 1971), here with halving when it is slow.
    """
    low, high = 0.0, 1.0
    at_low, at_high = rising(low), rising(high)
    if at_low >= 0 or at_high <= 0:
        return low if at_low >= 0 else high
    side = 0
    for step in range(200):
        if high - low < 1e-15 * high or high - low < 1e-300:
            break
        middle = (low * at_high - high * at_low) / (at_high - at_low)
        if step % 3 == 2 or not low < middle < high:
            middle = (low + high) / 2
        value = rising(middle)
        if value == 0:
            return middle
        if value < 0:
            low, at_low = middle, value
            at_high = at_high / 2 if side < 0 else at_high
            side = -1
        else:
            high, at_high = middle, value
            at_low = at_low / 2 if side > 0 else at_low
            side = 1
    return (low + high) / 2
