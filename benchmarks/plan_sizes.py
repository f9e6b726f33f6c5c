"""Planning time and proven gap of the weight on time by number of jobs, and how soon there is a first plan.

    python benchmarks/plan_sizes.py [--jobs 10000 100000] [--load 1.15] [--sample SEEDS]

Problems as in `made_up`. The gap is between what is on time and what prices prove that no plan exceeds; the document is
checked by `verify`. Compiling comes before the clock and garbage is collected seldom, as on the command line. Medians
over seeds; processor time beside the time, because machines are shared.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass, field
from statistics import median

import numpy as np

from gpuyield.cli.collector import collect_seldom
from gpuyield.model.document import canonical_bytes
from gpuyield.plan import make_plan, plan_document, plan_inputs
from gpuyield.plan.case import Case
from gpuyield.plan.instance.budget import Budget
from gpuyield.plan.kernel.grid import grid_of
from gpuyield.plan.kernel.lanes import compiled
from gpuyield.plan.kernel.search import Search
from gpuyield.steps.compiled import make_ready
from gpuyield.verify import check
from made_up import made_up, pool_for

GOALS = {10_000: "(5, 5)", 100_000: "(60, 60)"}
FIRST_JOBS = 1_000


@dataclass
class Seen:
    """What the plans of one size took and reached."""

    took_s: list[float] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)
    gap: list[float] = field(default_factory=list)
    accepted: int = 0


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--sample", type=int, default=3, help="seeds; of more than 20,000 jobs one")
    options.add_argument("--jobs", type=int, nargs="+", default=[10_000, 100_000])
    options.add_argument("--load", type=float, default=1.15)
    chosen = options.parse_args()
    collect_seldom()
    make_ready(FIRST_JOBS)
    print(f"plan.first.{FIRST_JOBS} {first_plan_ms(FIRST_JOBS):.2f} ms (10, 10)")
    for jobs in chosen.jobs:
        seen = Seen()
        for seed in range(chosen.sample if jobs <= 20_000 else 1):
            look(jobs, chosen.load, seed, seen)
        goal = GOALS.get(jobs, "(-, -)")
        print(f"plan.size.{jobs}.time {median(seen.took_s):.1f} s {goal}")
        print(f"plan.size.{jobs}.processor {median(seen.cpu_s):.1f} s {goal}")
        print(f"plan.size.{jobs}.gap {100 * median(seen.gap):.3f} % (0.4, 0.2)")
        print(f"plan.size.{jobs}.accepted {seen.accepted} of {len(seen.gap)} (all, all)")


def look(jobs: int, load: float, seed: int, seen: Seen) -> None:
    problem = made_up(jobs, pool_for(jobs), load, seed)
    began, cpu = time.perf_counter(), time.process_time()
    plan = make_plan(problem, seed=seed)
    seen.took_s.append(time.perf_counter() - began)
    seen.cpu_s.append(time.process_time() - cpu)
    seen.gap.append(float(plan.objective.gap or 0))
    report = check(plan_document(problem, plan), canonical_bytes(plan_inputs(problem)))
    seen.accepted += not report.refused


def first_plan_ms(jobs: int) -> float:
    """One pass of a list rule in the kernel, the median of nine."""
    grid = grid_of(Case.of(made_up(jobs, pool_for(jobs), 0.95, 0)))
    lane, took = compiled(), []
    for _ in range(9):
        search = Search(grid, 0, Budget(10**9), lane)
        order = search.sorted(grid.table.timely.astype(np.float64))
        began = time.perf_counter()
        search.serial(order)
        took.append(1_000 * (time.perf_counter() - began))
    return median(took)


if __name__ == "__main__":
    main()
