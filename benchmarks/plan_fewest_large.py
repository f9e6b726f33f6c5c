"""Fewest GPUs that meet all deadlines, for 1,000 jobs and more: the gap between the plan found and the proven floor.

    python benchmarks/plan_fewest_large.py [--jobs 1000 10000 100000] [--sample SEEDS] [--time S]

Problems as in `made_up`; each may take as long as its target says, as with --time-limit on the command line: that
includes the canonical inputs and the document. Processor time is printed beside the time, because machines are shared.
"""

from __future__ import annotations

import argparse
import time
from statistics import median

from gpuyield.model.job import PlanObjective
from gpuyield.steps.compiled import make_ready
from gpuyield.steps.plan import make
from made_up import made_up, pool_for

GOALS = {1_000: "(12, 8)", 10_000: "(5, 3)", 100_000: "(1, 0.5)"}
LIMITS_S = {1_000: 10.0, 10_000: 30.0, 100_000: 60.0}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--jobs", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    options.add_argument("--sample", type=int, default=3, help="seeds; of more than 20,000 jobs one")
    options.add_argument("--time", type=float, default=None, help="seconds for each, instead of the target's")
    chosen = options.parse_args()
    make_ready(1_000)
    for jobs in chosen.jobs:
        limit_s = chosen.time or LIMITS_S.get(jobs, 20.0)
        look(jobs, chosen.sample if jobs <= 20_000 else 1, limit_s)


def look(jobs: int, seeds: int, limit_s: float) -> None:
    gaps, took, cpu = [], [], []
    for seed in range(seeds):
        problem = made_up(jobs, pool_for(jobs), 0.95, seed, PlanObjective.FEWEST_GPUS)
        began, busy = time.perf_counter(), time.process_time()
        plan = make(problem, seed=seed, time_limit=f"{limit_s:g}s").plan
        took.append(time.perf_counter() - began)
        cpu.append(time.process_time() - busy)
        gaps.append(100 * float(plan.objective.gap or 0))
        need = plan.need("gpu")
        print(f"plan.fewest.{jobs}.{seed} {need.needed} GPUs, at least {need.lower_bound}")
    print(f"plan.fewest.{jobs}.gap {median(gaps):.2f} % {GOALS.get(jobs, '(-, -)')}")
    print(f"plan.fewest.{jobs}.time {median(took):.1f} s ({limit_s:g}, {limit_s:g})")
    print(f"plan.fewest.{jobs}.processor {median(cpu):.1f} s (-, -)")


if __name__ == "__main__":
    main()
