"""Whether work piles up: a rate at which the backlog grows is not sustainable, however good the latencies still are."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from gpuyield.measure.statistics import normal_quantile
from gpuyield.model.measure import Backlog

ALPHA = 0.01

COMPLETED_SHARE = 0.98
"""At least so much of what the second half of a probe offers must be completed in it."""

_LAG_LIMIT = 0.8
_OF_MEAN = 0.05


def backlog_slope(in_flight: Sequence[int]) -> float:
    """The growth of the backlog from one batch to the next: the median of the slopes of all pairs.

    Source: Theil 1950; Sen 1968.
    """
    levels = np.asarray(in_flight, float)
    first, second = np.triu_indices(len(levels), 1)
    return float(np.median((levels[second] - levels[first]) / (second - first))) if len(levels) > 1 else 0.0


def backlog_grows(in_flight: Sequence[int]) -> bool:
    """Whether a rising trend is real, and large: over twice the spread around it, or 5 % of the mean, over the span.

    Source: Mann 1945 and Kendall 1975 for the trend; Yue and Wang 2004, Water Resources Management 18, for its variance
    where neighbours resemble each other.
    """
    levels = np.asarray(in_flight, float)
    number = len(levels)
    if number < 4:
        return False
    slope = backlog_slope(in_flight)
    rest = levels - np.median(levels) - slope * (np.arange(number) - (number - 1) / 2)
    rest -= rest.mean()
    first, second = np.triu_indices(number, 1)
    rises = float(np.sign(levels[second] - levels[first]).sum())
    _, ties = np.unique(levels, return_counts=True)
    pairs = number * (number - 1) * (2 * number + 5) - int((ties * (ties - 1) * (2 * ties + 5)).sum())
    squares = float((rest**2).sum())
    lag = float((rest[1:] * rest[:-1]).sum()) / squares if squares else 0.0
    lag = min(max(lag, 0.0), _LAG_LIMIT)
    spread = math.sqrt(max(pairs, 1) / 18 * (1 + lag) / (1 - lag))
    is_real = rises > 0 and (rises - 1) / spread > normal_quantile(1 - ALPHA)
    growth = slope * (number - 1)
    return is_real and growth > max(2 * math.sqrt(squares / number), _OF_MEAN * float(levels.mean()))


def is_behind(backlog: Backlog) -> bool:
    """Whether the second half completed less than it was offered, and more than doubled what was in flight."""
    missing = backlog.late_arrivals - backlog.late_completions
    at_half = backlog.in_flight[(len(backlog.in_flight) - 1) // 2]
    return missing > max((1 - COMPLETED_SHARE) * backlog.late_arrivals, at_half)
