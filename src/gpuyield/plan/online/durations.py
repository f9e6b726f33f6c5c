"""How long jobs of a family run: quantiles from the runs that have ended, calibrated by how earlier forecasts came out.

A plan takes the 70th percentile of a family's last runs. Whether that really covers 70 % of what follows is counted
run by run, each forecast made from the runs before it, and the level is shifted until it does: families drift, and
what ended lately is on the short side. A family that overran in more than 20 % of its runs is planned at its 90th
percentile. Sums of work take the mean, because the long runs that a quantile leaves out are most of the work.

Source: adaptive conformal inference (Gibbs, Candès 2021).
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from gpuyield.model.duration import DurationBasis, FamilyDuration, ladder

PLANNED_AT = 0.7
CAREFUL = 0.9
OVERRUN = 1.25
"""A run overran if it took longer than its forecast by more than a quarter."""

MOST_OVERRUN = 0.2
"""A family in which more overran is planned with care."""

LEAST_RUNS = 5
"""Fewer runs say nothing about a family by themselves."""

WINDOW = 50
"""Quantiles are those of so many last runs."""

SHIFT = 0.05
"""How far one forecast that came out wrong shifts the level."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PastRun:
    """A run that has ended, and how long it took."""

    family: str
    run_ms: int


@dataclass(frozen=True, slots=True)
class Durations:
    """What past runs say, by family; `every` is that of all runs together (None: none has ended)."""

    families: Mapping[str, FamilyDuration]
    every: FamilyDuration | None

    def of(self, family: str | None, declared_ms: int | None = None) -> FamilyDuration | None:
        """How long a run of the family takes; what is declared where it has too few runs; None: nothing is known."""
        known = self.families.get(family or "")
        if known is not None and known.basis is DurationBasis.FAMILY:
            return known
        runs = known.runs if known else 0
        if declared_ms is not None:
            return FamilyDuration(
                family=family or "", basis=DurationBasis.DECLARED, runs=runs, quantile=None, planned_ms=declared_ms
            )
        return known


def learn(runs: Iterable[PastRun]) -> Durations:
    """What runs say, in the order in which they ended."""
    by_family: dict[str, _History] = defaultdict(_History)
    every = _History()
    for run in runs:
        by_family[run.family].add(run.run_ms)
        every.add(run.run_ms)
    whole = every.say("", DurationBasis.ALL) if every.count else None
    families = {}
    for name, history in by_family.items():
        if history.count >= LEAST_RUNS:
            families[name] = history.say(name, DurationBasis.FAMILY)
        elif whole is not None:
            families[name] = _borrowed(whole, name, history.count)
    return Durations(families, whole)


def _borrowed(whole: FamilyDuration, family: str, runs: int) -> FamilyDuration:
    return FamilyDuration(
        family=family,
        basis=DurationBasis.ALL,
        runs=runs,
        quantile=whole.quantile,
        planned_ms=whole.planned_ms,
        mean_ms=whole.mean_ms,
        p50_ms=whole.p50_ms,
        p70_ms=whole.p70_ms,
        p90_ms=whole.p90_ms,
        spread_ms=whole.spread_ms,
    )


@dataclass(slots=True)
class _Level:
    """A quantile whose level follows how often it was kept."""

    target: float
    level: float = field(init=False)
    forecasts: int = 0
    covered: int = 0
    overran: int = 0

    def __post_init__(self) -> None:
        self.level = self.target

    def of(self, ordered: Sequence[int]) -> int:
        return quantile(ordered, self.level)

    def learn(self, forecast: int, took: int) -> None:
        missed = took > forecast
        self.forecasts += 1
        self.covered += not missed
        self.overran += took > OVERRUN * forecast
        step = SHIFT * (missed - (1 - self.target))
        self.level = min(1.0, max(0.0, self.level + step))


@dataclass(slots=True)
class _History:
    """The runs of a family: the last of them in order of length, and how forecasts of them came out."""

    count: int = 0
    total: int = 0
    last: deque[int] = field(default_factory=deque)
    ordered: list[int] = field(default_factory=list)
    usual: _Level = field(default_factory=lambda: _Level(PLANNED_AT))
    careful: _Level = field(default_factory=lambda: _Level(CAREFUL))

    def add(self, run_ms: int) -> None:
        if self.count >= LEAST_RUNS:
            for level in (self.usual, self.careful):
                level.learn(level.of(self.ordered), run_ms)
        self.count += 1
        self.total += run_ms
        self.last.append(run_ms)
        insort(self.ordered, run_ms)
        if len(self.last) > WINDOW:
            del self.ordered[bisect_left(self.ordered, self.last.popleft())]

    def say(self, family: str, basis: DurationBasis) -> FamilyDuration:
        overran = self.usual.overran / self.usual.forecasts if self.usual.forecasts else None
        level = self.careful if overran is not None and overran > MOST_OVERRUN else self.usual
        return FamilyDuration(
            family=family,
            basis=basis,
            runs=self.count,
            quantile=level.target,
            planned_ms=max(1, level.of(self.ordered)),
            mean_ms=max(1, -(-self.total // self.count)),
            p50_ms=quantile(self.ordered, 0.5),
            p70_ms=quantile(self.ordered, PLANNED_AT),
            p90_ms=quantile(self.ordered, CAREFUL),
            forecasts=level.forecasts,
            coverage=level.covered / level.forecasts if level.forecasts else None,
            overran=overran,
            spread_ms=ladder(self.ordered) if self.count >= LEAST_RUNS else (),
        )


def quantile(ordered: Sequence[int], level: float) -> int:
    """The least of the ordered values that a share of `level` of the next would not exceed.

    With n values the k-th covers k / (n + 1) of what follows; where no value does, the greatest, a quarter longer.
    """
    place = math.ceil(level * (len(ordered) + 1))
    if place > len(ordered):
        return int(ordered[-1] * OVERRUN)
    return ordered[max(0, place - 1)]
