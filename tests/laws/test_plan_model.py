"""An independent CP-SAT model agrees with the planner: the same status, the same best value, and no bound beyond it."""

from __future__ import annotations

import json
import sys
from collections import Counter

import pytest

from gpuyield.model.document import canonical_bytes
from gpuyield.model.job import PlanObjective
from gpuyield.model.plan import PlanStatus
from gpuyield.plan import make_plan, plan_document, plan_inputs
from gpuyield.verify import check
from plan.every_feature import prices_of
from plan.model_problems import FEATURES, OBJECTIVES, model_problem

pytest.importorskip("ortools", reason="The independent model needs OR-Tools.")
from plan.cpsat_model import best_of

MET = (PlanStatus.OPTIMAL, PlanStatus.FEASIBLE)


def _compared(seeds: range) -> Counter[str]:
    """How many problems of each objective, and of how many the planner's bound closes the gap."""
    counts: Counter[str] = Counter()
    for seed in seeds:
        problem = model_problem(seed)
        prices = prices_of(problem)

        plan = make_plan(problem, prices=prices, advise=False)

        best, said = best_of(problem, prices), f"seed {seed}: {problem.objective}"
        if problem.objective is not PlanObjective.FEWEST_GPUS:
            assert (plan.status in MET) is best.feasible, said
        if problem.objective in (PlanObjective.ON_TIME, PlanObjective.FEWEST_GPUS) or plan.status in MET:
            assert plan.objective.value == best.value, said
        bound, value = plan.objective.bound, best.value
        if bound is not None and value is not None:
            assert (bound >= value) if problem.objective is PlanObjective.ON_TIME else (bound <= value), said
        document = json.loads(json.dumps(plan_document(problem, plan, prices=prices)))
        report = check(document, canonical_bytes(plan_inputs(problem, prices=prices)))
        assert report.accepted, f"{said}: {report.refused}"
        counts[str(problem.objective)] += 1
        counts[f"closed {problem.objective}"] += bound is not None and bound == plan.objective.value
        counts[f"met {problem.objective}"] += plan.status in MET
    return counts


def test_the_best_values_of_every_feature_with_every_objective_are_those_of_the_model() -> None:
    counts = _compared(range(len(FEATURES) * len(OBJECTIVES)))

    assert all(counts[str(objective)] == len(FEATURES) for objective in OBJECTIVES)
    assert counts["closed makespan"] == counts["met makespan"]


@pytest.mark.slow_laws
def test_the_best_values_of_two_hundred_problems_are_those_of_the_model(capsys: pytest.CaptureFixture[str]) -> None:
    counts = _compared(range(200))

    with capsys.disabled():
        sys.stdout.write(f"\nplan: 200 problems as CP-SAT has them, {dict(counts)}\n")
