"""More capacity, later deadlines and fewer jobs never make missed weight or the last end worse (exact sizes)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from random import Random

import pytest

from gpuyield.model.job import Capacity, PlanObjective, Problem
from gpuyield.model.plan import Plan, PlanStatus
from gpuyield.plan import make_plan
from laws.sizes import size
from plan.small import UNIT_MS, random_problem

pytestmark = pytest.mark.sized_laws
MET = (PlanStatus.OPTIMAL, PlanStatus.FEASIBLE)
PROBLEMS = size(default=40, sample=80, full=1_000)


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


def kept(problem: Problem, plan: Plan) -> tuple[bool, Fraction]:
    """Whether all hard deadlines are met, and the weight that misses its deadline or due time (less is more)."""
    ends = {one.id: one.run.end_ms for one in plan.jobs if one.run is not None}
    missing = Fraction(0)
    for job in problem.jobs:
        limits = [at for at in (job.deadline_ms, job.due_ms) if at is not None]
        if limits and (job.id not in ends or ends[job.id] > min(limits)):
            missing += Fraction(job.weight)
    return plan.status in MET, -missing


def test_looser_problems_never_keep_less_where_due_times_count_too() -> None:
    missed_some = 0
    for seed in range(PROBLEMS):
        rng = Random(f"due {seed}")
        problem = random_problem(seed)
        before = kept(problem, make_plan(problem, advise=False))
        missed_some += before != (True, Fraction(0))

        for other in looser(problem, rng):
            # Hard deadlines come first: a plan that now meets them all may miss more due times.
            assert kept(other, make_plan(other, advise=False)) >= before, f"seed {seed}"
    assert missed_some > PROBLEMS // 10


def test_looser_problems_never_end_later() -> None:
    compared = 0
    for seed in range(PROBLEMS):
        rng = Random(f"monotone {seed}")
        problem = replace(random_problem(seed), objective=PlanObjective.MAKESPAN)
        plan = make_plan(problem, advise=False)
        if plan.status not in MET or any(one.run is None for one in plan.jobs):
            continue

        for other in looser(problem, rng):
            compared += 1
            end = make_plan(other, advise=False).objective.value
            assert end is not None
            assert plan.objective.value is not None
            assert end <= plan.objective.value, f"seed {seed}"
    assert compared > PROBLEMS
