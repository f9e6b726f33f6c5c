"""Planning time and quality by number of jobs on made-up problems: gangs of 1 to 32, run times from 5 min to 2 days.

    python benchmarks/plan_sizes.py [--seeds N] [--jobs 100 1000 10000] [--load 0.95]

Gang sizes, run times and deadlines as in Philly-like traces: half single GPUs, lognormal run times, deadlines 1.2 to
5 times the run time after submission.
"""

from __future__ import annotations

import argparse
import time
from decimal import Decimal

import numpy as np

from gpuyield.model.job import Capacity, PlanJob, Problem, Shape
from gpuyield.plan import make_plan
from gpuyield.units import MINUTE_MS

POOLS = {100: 16, 1_000: 64, 10_000: 256, 100_000: 1_024}
GANGS = ((1, 0.50), (2, 0.15), (4, 0.15), (8, 0.15), (16, 0.04), (32, 0.01))


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seeds", type=int, default=2)
    options.add_argument("--jobs", type=int, nargs="+", default=[100, 1_000, 10_000])
    options.add_argument("--load", type=float, default=0.95)
    chosen = options.parse_args()
    for jobs in chosen.jobs:
        for seed in range(chosen.seeds):
            problem = made_up(jobs, POOLS.get(jobs, max(8, jobs // 40)), chosen.load, seed)
            began, cpu = time.perf_counter(), time.process_time()
            plan = make_plan(problem)
            need = plan.need("gpu")
            name = f"plan.sizes.{jobs}.{seed}"
            print(f"{name}.time {time.perf_counter() - began:.2f} s, processor {time.process_time() - cpu:.2f} s")
            print(f"{name}.on_time {float(plan.on_time.weighted or 0):.4f} {plan.status}")
            print(f"{name}.needed {need.needed} GPUs, lower_bound {need.lower_bound} GPUs")


def made_up(jobs: int, pool: int, load: float, seed: int) -> Problem:
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
    return Problem(origin_ms=0, jobs=planned, capacity=Capacity(steps={"gpu": ((0, pool),)}))


if __name__ == "__main__":
    main()
