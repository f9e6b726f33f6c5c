"""Fewest GPUs for up to 300 jobs: in how many the optimum is proven within 20 s, by certificate or by CP-SAT's word.

    python benchmarks/plan_fewest.py [--sample N] [--sizes 50 100 200 300] [--time 20]

Made-up jobs as in `made_up.py`, `--sample` seeds of each size; every document is checked by `verify`.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from dataclasses import replace
from functools import partial

import numpy as np

from gpuyield.model.document import canonical_bytes
from gpuyield.model.job import PlanObjective
from gpuyield.model.plan import PlanStatus
from gpuyield.plan import make_plan, plan_document, plan_inputs
from gpuyield.plan.kernel.warm import warm_learning
from gpuyield.steps.compiled import keep_compiled
from gpuyield.verify import check
from made_up import made_up

POOLS = {50: 16, 100: 16, 200: 32, 300: 32}
LOAD = 0.95


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--sample", type=int, default=5, help="seeds of each size")
    options.add_argument("--sizes", type=int, nargs="+", default=sorted(POOLS))
    options.add_argument("--time", type=float, default=20.0)
    chosen = options.parse_args()
    keep_compiled()
    warm_learning()
    said: Counter[str] = Counter()
    times, sizes = [], []
    for jobs in chosen.sizes:
        for seed in range(chosen.sample):
            problem = made_up(jobs, POOLS.get(jobs, max(8, jobs // 8)), LOAD, seed)
            problem = replace(problem, objective=PlanObjective.FEWEST_GPUS)
            began = time.perf_counter()
            plan = make_plan(problem, should_stop=partial(is_over, began + chosen.time))
            times.append(time.perf_counter() - began)
            document = json.loads(json.dumps(plan_document(problem, plan)))
            sizes.append(len(json.dumps(document["bounds"])))
            said["refused"] += not check(document, canonical_bytes(plan_inputs(problem))).accepted
            said["certificate"] += plan.status is PlanStatus.OPTIMAL
            said["word"] += plan.status is not PlanStatus.OPTIMAL and plan.proof is not None
            said["all"] += 1
    share = {name: 100 * count / said["all"] for name, count in said.items()}
    print(f"plan.fewest.small.proven {share['certificate'] + share['word']:.1f} % (80, 95)")
    print(f"plan.fewest.small.by_certificate {share['certificate']:.1f} % (, 60)")
    print(f"plan.fewest.small.by_word {share['word']:.1f} %")
    print(f"plan.fewest.small.refused {said['refused']} documents (0, 0)")
    print(f"plan.fewest.small.time {np.median(times):.2f} s median, {max(times):.2f} s most (20, 20)")
    print(f"plan.fewest.small.problems {said['all']}")
    print(f"plan.fewest.small.proof {np.median(sizes) / 1000:.1f} kB median, {max(sizes) / 1000:.1f} kB most")


def is_over(end: float) -> bool:
    """Whether the clock has passed an instant."""
    return time.perf_counter() > end


if __name__ == "__main__":
    main()
