"""The planner's real documents: accepted as they are, refused when made false."""

from __future__ import annotations

import json
from decimal import Decimal
from random import Random
from typing import Any

import pytest

from gpuyield.model.document import canonical_bytes
from gpuyield.model.job import Capacity, PlanJob, PlanObjective, Problem, Shape
from gpuyield.plan import make_plan, plan_document, plan_inputs
from gpuyield.verify import check
from verify.brute import Unanswerable
from verify.mutants import mutant
from verify.problems import make_inputs, seal
from verify.truth import is_false

FIELDS = ("release_ms", "deadline_ms", "due_ms", "restart_ms", "started_ms", "pinned_ms", "queue", "team", "family")


def problem_of(inputs: dict[str, Any]) -> Problem:
    """The planner's problem of canonical inputs."""
    return Problem(
        origin_ms=inputs["origin_ms"],
        objective=PlanObjective(inputs["objective"]),
        resource=inputs["resource"],
        capacity=Capacity(steps={name: tuple((a, b) for a, b in steps) for name, steps in inputs["capacity"].items()}),
        jobs=tuple(
            PlanJob(
                id=job["id"],
                shapes=tuple(Shape(**shape) for shape in job["shapes"]),
                weight=Decimal(job["weight"]),
                after=tuple(job["after"]),
                **{name: job[name] for name in FIELDS},
            )
            for job in inputs["jobs"]
        ),
    )


def planned(seed: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """The planner's document for random inputs, as anyone reads them from files.

    No job is over before the origin, and none runs already while one that it waits for does not.
    """
    rng = Random(f"planner {seed}")
    inputs = make_inputs(rng)
    for job in inputs["jobs"]:
        if job["started_ms"] is not None:
            job["started_ms"] = 0
            job["after"] = []
    problem = problem_of(inputs)
    document = plan_document(problem, make_plan(problem))
    return json.loads(json.dumps(document)), json.loads(canonical_bytes(plan_inputs(problem)))


def test_what_the_planner_writes_is_accepted() -> None:
    refused = []
    for seed in range(120):
        report = check(*seal(*planned(seed)))
        if not report.accepted:
            refused.append((seed, [str(one) for one in report.refused]))

    assert refused == []


def mutants_accepted(seeds: range, wanted: int) -> tuple[int, list[str]]:
    made, accepted = 0, []
    for seed in seeds:
        document, inputs = planned(seed)
        rng = Random(f"planner's mutants {seed}")
        for number in range(10):
            changed, changed_inputs = mutant(document, inputs, rng)
            try:
                reason = is_false(changed, changed_inputs)
            except Unanswerable:
                continue
            if reason is None:
                continue
            made += 1
            if check(*seal(changed, changed_inputs)).accepted:
                accepted.append(f"seed {seed}, mutant {number}: {reason}")
        if made >= wanted:
            break
    return made, accepted


def test_what_the_planner_writes_is_refused_once_it_is_made_false() -> None:
    made, accepted = mutants_accepted(range(500, 600), wanted=100)

    assert accepted == []
    assert made >= 100


@pytest.mark.slow_laws
@pytest.mark.timeout(3_000)
def test_a_thousand_false_ones_of_the_planner_are_refused() -> None:
    made, accepted = mutants_accepted(range(5_000, 6_000), wanted=1_000)

    assert accepted == []
    assert made >= 1_000
