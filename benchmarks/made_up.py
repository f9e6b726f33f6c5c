"""Made-up planning problems like the Philly trace: half single GPUs, gangs up to 32, lognormal run times.

Run times have a median of an hour (5 min to 2 days), releases are uniform, deadlines 1.2 to 5 times the run time after
them, and the pool can do the work in 1 / load of the time in which it arrives.
"""

from __future__ import annotations

from decimal import Decimal

import numpy as np

from gpuyield.model.job import Capacity, PlanJob, PlanObjective, Problem, Shape
from gpuyield.units import MINUTE_MS

POOLS = {100: 16, 1_000: 64, 10_000: 256, 100_000: 1_024}
GANGS = ((1, 0.50), (2, 0.15), (4, 0.15), (8, 0.15), (16, 0.04), (32, 0.01))


def pool_for(jobs: int) -> int:
    """The GPUs that so many jobs share."""
    return POOLS.get(jobs, max(8, jobs // 40))


def made_up(jobs: int, pool: int, load: float, seed: int, objective: PlanObjective = PlanObjective.ON_TIME) -> Problem:
    """A problem of so many jobs whose work is `load` of what the pool can do while they arrive."""
    chance = np.random.default_rng(seed)
    gangs = np.minimum(chance.choice([size for size, _ in GANGS], size=jobs, p=[part for _, part in GANGS]), pool // 2)
    lengths = np.clip(chance.lognormal(np.log(60), 1.3, size=jobs), 5, 2_880).astype(int)
    horizon = max(1, int((gangs * lengths).sum() / (pool * load)))
    releases = chance.integers(0, horizon, size=jobs)
    ends = releases + (lengths * chance.uniform(1.2, 5, size=jobs)).astype(int) + 1
    weights = chance.choice([1, 2, 3, 5, 10], size=jobs)
    planned = tuple(
        PlanJob(
            id=f"job-{at}",
            shapes=(Shape(demand={"gpu": int(gangs[at])}, duration_ms=int(lengths[at]) * MINUTE_MS),),
            release_ms=int(releases[at]) * MINUTE_MS,
            deadline_ms=int(ends[at]) * MINUTE_MS,
            weight=Decimal(int(weights[at])),
        )
        for at in range(jobs)
    )
    capacity = Capacity(steps={"gpu": ((0, pool),)})
    return Problem(origin_ms=0, jobs=planned, capacity=capacity, objective=objective)
