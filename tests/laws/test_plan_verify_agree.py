"""Whatever is asked of the planner, it answers, and `verify` vouches for every claim of the answer."""

from __future__ import annotations

import json
import os
import sys
from collections import Counter

import pytest

from gpuyield.model.document import canonical_bytes
from gpuyield.plan import make_plan, plan_document, plan_inputs
from gpuyield.verify import check
from plan.every_feature import prices_of, problem_of

WORK = 60_000


def _agreed(seeds: range, most_jobs: int) -> Counter[str]:
    """How many answers of each status; every one is accepted."""
    counts: Counter[str] = Counter()
    for seed in seeds:
        problem = problem_of(seed, most_jobs=most_jobs)
        prices = prices_of(problem)
        plan = make_plan(problem, prices=prices, work=WORK)
        document = json.loads(json.dumps(plan_document(problem, plan, prices=prices)))
        report = check(document, canonical_bytes(plan_inputs(problem, prices=prices)))
        assert report.accepted, f"seed {seed}, up to {most_jobs} jobs, {problem.objective}: {report.refused}"
        counts[str(plan.status)] += 1
    return counts


def test_verify_accepts_every_plan_of_problems_with_every_feature() -> None:
    counts = _agreed(range(200), 7)

    assert counts["infeasible"] > 20
    assert counts["feasible"] + counts["optimal"] > 60


@pytest.mark.slow_laws
@pytest.mark.timeout(1_800)
def test_verify_accepts_three_thousand_plans_of_problems_with_every_feature(
    capsys: pytest.CaptureFixture[str],
) -> None:
    full = os.environ.get("GPUYIELD_LAWS", "full") == "full"

    counts = _agreed(range(10_000, 12_500 if full else 10_500), 8) + _agreed(range(500 if full else 100), 25)

    with capsys.disabled():
        sys.stdout.write(f"\nplan and verify: {counts.total()} problems with every feature, {dict(counts)}\n")
