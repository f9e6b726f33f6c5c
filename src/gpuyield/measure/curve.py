"""What the probes so far say of the miss curve: a belief that chooses the next rate, and proves nothing.

The share of misses is taken to rise as a logistic function of the logarithm of the rate above a floor:
`floor + (1 - floor) x logistic(logit((allowed - floor) / (1 - floor)) + slope x ln(rate / capacity))`. The belief is a
grid over capacity, slope and floor. A wrong belief costs requests, never a false answer: what is certified or refuted
rests on the counts of the probe alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from gpuyield.measure.statistics import binomial_lower, binomial_upper
from gpuyield.model.measure import Probe

Numbers = NDArray[np.float64]

CAPACITIES = 241
_SIZE_STEP = 0.25
_MANY = 30
_NEGLIGIBLE = 1e-5
_LOWEST, _HIGHEST = 0.02, 1.15
_SLOPES = np.geomspace(6.0, 100.0, 9)
_FLOORS = np.array([0.0, 0.25, 0.5, 0.75])
_PRIOR_CENTRE, _PRIOR_SPREAD = 0.85, 0.25
_SLOPE_CENTRE, _SLOPE_SPREAD = 22.0, 0.6


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What one probe saw of one objective: so many misses of `size` independent requests."""

    rate_rps: float
    share: float
    size: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Belief:
    """Of one objective: `by_capacity` is the belief in each of `capacities` (requests a second), and sums to 1.

    `weight` is the belief in each cell of the grid that is worth looking at, which sums to 1 too.
    """

    allowed: float
    capacities: Numbers
    by_capacity: Numbers
    cell_capacity: Numbers
    cell_slope: Numbers
    cell_floor: Numbers
    weight: Numbers

    def miss_share(self, rate_rps: float) -> Numbers:
        """The share of misses at a rate, for each cell."""
        return _miss_share(self.allowed, self.cell_capacity, self.cell_slope, self.cell_floor, rate_rps)


def believe(allowed: float, ceiling_rps: float, seen: Iterable[Seen]) -> Belief:
    """The belief after these probes, from a weak prior around the ceiling of throughput."""
    capacities = ceiling_rps * np.geomspace(_LOWEST, _HIGHEST, CAPACITIES)
    grid = np.meshgrid(capacities, _SLOPES, allowed * _FLOORS, indexing="ij")
    log = -((np.log(capacities / ceiling_rps / _PRIOR_CENTRE) / _PRIOR_SPREAD) ** 2) / 2
    # Far below the ceiling the prior has a flat tail: an objective may bind long before throughput does.
    log = np.logaddexp(log, math.log(0.02))[:, None, None]
    log = log - ((np.log(_SLOPES / _SLOPE_CENTRE) / _SLOPE_SPREAD) ** 2)[None, :, None] / 2
    log = log + np.log(np.array([0.7, 0.1, 0.1, 0.1]))[None, None, :]
    for one in seen:
        share = np.clip(_miss_share(allowed, *grid, one.rate_rps), 1e-9, 1 - 1e-9)
        log = log + one.size * (one.share * np.log(share) + (1 - one.share) * np.log1p(-share))
    weight = np.exp(log - log.max())
    kept = weight > _NEGLIGIBLE
    return Belief(
        allowed=allowed,
        capacities=capacities,
        by_capacity=weight.sum(axis=(1, 2)) / weight.sum(),
        cell_capacity=grid[0][kept],
        cell_slope=grid[1][kept],
        cell_floor=grid[2][kept],
        weight=weight[kept] / weight[kept].sum(),
    )


def _miss_share(allowed: float, capacity: Numbers, slope: Numbers, floor: Numbers, rate_rps: float) -> Numbers:
    inner = (allowed - floor) / (1 - floor)
    lifted = np.log(inner / (1 - inner)) + slope * np.log(rate_rps / capacity)
    shares: Numbers = floor + (1 - floor) / (1 + np.exp(-np.clip(lifted, -50, 50)))
    return shares


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """Where the lowest capacity of all objectives lies: median, spread of its logarithm, and the objective."""

    median_rps: float
    spread: float
    objective: int


def estimate(beliefs: Sequence[Belief]) -> Estimate:
    """The capacity: the lowest of all objectives, which are taken as independent."""
    capacities = beliefs[0].capacities
    above = np.ones(len(capacities))
    for one in beliefs:
        above *= 1 - np.cumsum(one.by_capacity)
    below = 1 - above
    weight = np.diff(below, prepend=0.0)
    logs = np.log(capacities)
    mean = float((weight * logs).sum())
    spread = math.sqrt(max(0.0, float((weight * (logs - mean) ** 2).sum())))
    medians = [capacities[int(np.searchsorted(np.cumsum(one.by_capacity), 0.5))] for one in beliefs]
    median = float(np.exp(np.interp(0.5, below, logs)))
    return Estimate(median_rps=median, spread=spread, objective=int(np.argmin(medians)))


def chance_to_pass(belief: Belief, rate_rps: float, *, requests: float, wave: float, alpha: float) -> float:
    """How likely a probe of so many requests keeps its upper bound within what is allowed.

    At the limit misses come in waves of `wave` requests (1: they are independent), below it in smaller ones.
    """
    share = belief.miss_share(rate_rps)
    sizes = requests / np.maximum(1.0, wave * np.sqrt(share / belief.allowed))
    steps = np.rint(np.log(sizes) / _SIZE_STEP).astype(np.int64)
    chance = np.zeros_like(share)
    for step in np.unique(steps):
        there = steps == step
        most = _most_misses(belief.allowed, math.exp(step * _SIZE_STEP), alpha)
        if most >= 0:
            chance[there] = _poisson_cdf(most, share[there] * sizes[there])
    return float((belief.weight * chance).sum())


def chance_to_break(belief: Belief, rate_rps: float, *, size: float, alpha: float) -> float:
    """How likely a probe worth `size` independent requests (at the limit) shows that more than allowed miss.

    Misses that come in longer waves are worth less: the size shrinks as the share grows.
    """
    share = belief.miss_share(rate_rps)
    sizes = np.maximum(1.0, size / (1 + share / belief.allowed / 2))
    typical = float(f"{(belief.weight * sizes).sum():.2g}")
    least = _least_misses(belief.allowed, typical, alpha)
    spread = np.sqrt(np.maximum(share * (1 - share) * typical, 1e-9))
    return float((belief.weight * _normal_cdf((share * typical - least) / spread)).sum())


@lru_cache(maxsize=4096)
def _most_misses(allowed: float, size: float, alpha: float) -> float:
    """The most misses whose upper bound is within what is allowed; -1 where not even none is enough."""
    if binomial_upper(0.0, size, alpha) > allowed:
        return -1.0
    low, high = 0.0, size * allowed
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (middle, high) if binomial_upper(middle, size, alpha) <= allowed else (low, middle)
    return low


@lru_cache(maxsize=4096)
def _least_misses(allowed: float, size: float, alpha: float) -> float:
    low, high = size * allowed, size
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (low, middle) if binomial_lower(middle, size, alpha) > allowed else (middle, high)
    return high


def _poisson_cdf(most: float, means: Numbers) -> Numbers:
    """P(count <= most), drawn between whole numbers by a straight line; by a normal where counts are large."""
    if most > _MANY:
        return _normal_cdf((most + 0.5 - means) / np.sqrt(np.maximum(means, 1e-9)))
    whole = int(most)
    term = np.exp(-np.minimum(means, 700.0))
    below = term.copy()
    for count in range(1, whole + 1):
        term = term * means / count
        below += term
    return np.minimum(1.0, below + (most - whole) * term * means / (whole + 1))


def _normal_cdf(values: Numbers) -> Numbers:
    # Logistic approximation; it only weighs choices.
    return np.asarray(1 / (1 + np.exp(-1.702 * np.clip(values, -30, 30))))


def seen_of(probe: Probe, objective: int, *, is_latency: bool, e2e_s: float) -> Seen:
    """What a probe says to the belief: requests in flight together are worth one, or less where batches say so."""
    tally = probe.tallies[objective]
    rate = probe.plan.rate_rps
    total = sum(tally.attempts)
    together = _LEARNED_WAVE * rate * e2e_s if is_latency else 1.0
    inflation = max(1.0, together, tally.bounds.inflation)
    return Seen(rate_rps=rate, share=tally.bounds.share, size=total / inflation)


WAVE = 5.0
"""At the limit misses come in waves as long as so many response times."""

_LEARNED_WAVE = 10.0
"""A short probe that saw no wave is no proof that there are none: it counts as if they were so long."""
