"""More capacity, later deadlines and fewer jobs never make missed weight or the last end worse (exact sizes)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from random import Random

from gpuyield.model.job import Capacity, PlanObjective, Problem
from gpuyield.model.plan import Plan, PlanStatus
from gpuyield.plan import make_plan
from plan.small import UNIT_MS, random_problem

PROBLEMS = {"sample": 200, "full": 1_000}.get(os.environ.get("GPUYIELD_LAWS", ""), 40)


def looser(problem: Problem, rng: Random) -> Iterator[Problem]:
    """One more of a resource, one deadline later, one job less."""
    name = rng.choice(sorted(problem.capacity.steps))
    steps = tuple((at, amount + 1) for at, amount in problem.capacity.steps[name])
    yield replace(problem, capacity=Capacity(steps={**problem.capacity.steps, name: steps}))
    chosen = rng.choice(problem.jobs).id
    yield replace(
        problem,
        jobs=tuple(
            replace(job, deadline_ms=job.deadline_ms + UNIT_MS)
            if job.id == chosen and job.deadline_ms is not None
            else job
            for job in problem.jobs
        ),
    )
    yield replace(
        problem,
        jobs=tuple(
            replace(job, after=tuple(one for one in job.after if one != chosen))
            for job in problem.jobs
            if job.id != chosen
        ),
    )


def missed(problem: Problem, plan: Plan) -> Fraction:
    """The weight of jobs with a deadline that do not run."""
    runs = {one.id for one in plan.jobs if one.run is not None}
    lost = [job.weight for job in problem.jobs if job.deadline_ms is not None and job.id not in runs]
    return sum((Fraction(weight) for weight in lost), start=Fraction(0))


def test_looser_problems_never_miss_more_weight() -> None:
    for seed in range(PROBLEMS):
        rng = Random(f"monotone {seed}")
        problem = random_problem(seed)
        problem = replace(problem, jobs=tuple(replace(job, due_ms=None) for job in problem.jobs))
        least = missed(problem, make_plan(problem, advise=False))

        for other in looser(problem, rng):
            assert missed(other, make_plan(other, advise=False)) <= least, f"seed {seed}"


def test_looser_problems_never_end_later() -> None:
    met = (PlanStatus.OPTIMAL, PlanStatus.FEASIBLE)
    for seed in range(PROBLEMS):
        rng = Random(f"monotone {seed}")
        problem = replace(random_problem(seed), objective=PlanObjective.MAKESPAN)
        plan = make_plan(problem, advise=False)
        if plan.status not in met or any(one.run is None for one in plan.jobs):
            continue

        for other in looser(problem, rng):
            end = make_plan(other, advise=False).objective.value
            assert end is not None
            assert plan.objective.value is not None
            assert end <= plan.objective.value, f"seed {seed}"
