"""How long jobs of a family run, and how much that varies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

LADDER = 21
"""Quantiles that a spread is given by: 0 %, 5 % ... 100 %."""


class DurationBasis(StrEnum):
    """What a run time rests on."""

    FAMILY = "family"
    """The runs of the family."""
    DECLARED = "declared"
    """What somebody wrote; the family has too few runs."""
    ALL = "all"
    """The runs of all families; this one has too few, and nothing is declared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FamilyDuration:
    """How long the next run of a family takes. All in ms; None is not known.

    `quantile` is what `planned_ms` was taken at (None: declared). `coverage` is the share of its forecast runs that
    took no longer than forecast at that quantile, `overran` the share that took longer by more than a quarter than
    forecast at the usual one. `spread_ms` are evenly spaced quantiles from the least to the greatest, empty where
    there are too few runs.
    """

    family: str
    basis: DurationBasis
    runs: int
    quantile: float | None
    planned_ms: int
    mean_ms: int | None = None
    p50_ms: int | None = None
    p70_ms: int | None = None
    p90_ms: int | None = None
    forecasts: int = 0
    coverage: float | None = None
    overran: float | None = None
    spread_ms: tuple[int, ...] = ()


def ladder(ordered: Sequence[int]) -> tuple[int, ...]:
    """Evenly spaced quantiles of ordered values, the least and the greatest included, in between interpolated."""
    last = len(ordered) - 1
    steps = []
    for at in range(LADDER):
        low, rest = divmod(at * last, LADDER - 1)
        high = min(low + 1, last)
        steps.append(ordered[low] + (ordered[high] - ordered[low]) * rest // (LADDER - 1))
    return tuple(steps)


def between(known: Mapping[float, int]) -> tuple[int, ...]:
    """A spread through known quantiles (share -> ms): straight between them, level below, a half longer at 100 %."""
    points = sorted(known.items())
    points = [(0.0, points[0][1]), *points, (1.0, points[-1][1] * 3 // 2)]
    steps = []
    for at in range(LADDER):
        share = at / (LADDER - 1)
        (low, start), (high, end) = next((one, other) for one, other in pairwise(points) if share <= other[0])
        part = 0.0 if high == low else (share - low) / (high - low)
        steps.append(start + round((end - start) * part))
    return tuple(steps)
