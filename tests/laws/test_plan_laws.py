"""Laws of the planner: capacity, deadlines, monotony, names and scale, same bytes."""

from __future__ import annotations

import json
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuyield.model.document import canonical_bytes
from gpuyield.model.job import Capacity, PlanObjective, Problem, Shape
from gpuyield.model.plan import JobStatus, PlanStatus
from gpuyield.plan import make_plan, plan_document, plan_inputs
from gpuyield.verify import check
from laws.sizes import size
from plan.small import UNIT_MS, overbooked, random_problem

pytestmark = pytest.mark.sized_laws
BETTER = {PlanStatus.INFEASIBLE: 0, PlanStatus.UNKNOWN: 1, PlanStatus.FEASIBLE: 2, PlanStatus.OPTIMAL: 3}
EXAMPLES = size(default=60, sample=100, full=1_000)
seeds = st.integers(0, 1_000_000)
law = settings(max_examples=EXAMPLES, deadline=None, derandomize=True)


def rank(problem: Problem) -> int:
    return min(2, BETTER[make_plan(problem, advise=False).status])


def first_capacity(problem: Problem) -> str:
    return sorted(problem.capacity.steps)[-1]


@law
@given(seeds, st.sampled_from(list(PlanObjective)[:3]))
def test_a_plan_never_exceeds_capacity_and_planned_jobs_keep_their_deadlines(
    seed: int, objective: PlanObjective
) -> None:
    problem = random_problem(seed, most_jobs=9)
    problem = replace(problem, objective=objective, resource=first_capacity(problem))
    deadlines = {job.id: job.deadline_ms for job in problem.jobs}

    plan = make_plan(problem)

    if objective is not PlanObjective.FEWEST_GPUS:
        assert overbooked(problem, plan) == []
    for one in plan.jobs:
        deadline = deadlines[one.id]
        if one.run is not None and deadline is not None:
            assert one.run.end_ms <= deadline
        assert (one.run is None) == (one.status in (JobStatus.DROPPED, JobStatus.IMPOSSIBLE))


@law
@given(seeds)
def test_verify_accepts_what_the_planner_writes_with_all_its_advice(seed: int) -> None:
    problem = random_problem(seed, most_jobs=8)

    document = plan_document(problem, make_plan(problem))

    report = check(json.loads(json.dumps(document)), canonical_bytes(plan_inputs(problem)))
    assert not report.refused


@law
@given(seeds, st.data())
def test_one_gpu_more_never_makes_the_status_worse(seed: int, data: st.DataObject) -> None:
    problem = random_problem(seed)
    resource = data.draw(st.sampled_from(sorted(problem.capacity.steps)))
    steps = tuple((at, amount + 1) for at, amount in problem.capacity.steps[resource])
    more = replace(problem, capacity=Capacity(steps={**problem.capacity.steps, resource: steps}))

    assert rank(more) >= rank(problem)


@law
@given(seeds, st.data())
def test_a_later_deadline_never_makes_the_status_worse(seed: int, data: st.DataObject) -> None:
    problem = random_problem(seed)
    chosen = data.draw(st.sampled_from([job.id for job in problem.jobs]))
    by = data.draw(st.integers(1, 3)) * UNIT_MS
    jobs = tuple(
        replace(job, deadline_ms=job.deadline_ms + by) if job.id == chosen and job.deadline_ms is not None else job
        for job in problem.jobs
    )

    assert rank(replace(problem, jobs=jobs)) >= rank(problem)


@law
@given(seeds, st.data())
def test_a_job_less_never_makes_the_status_worse(seed: int, data: st.DataObject) -> None:
    problem = random_problem(seed)
    gone = data.draw(st.sampled_from([job.id for job in problem.jobs]))
    jobs = tuple(
        replace(job, after=tuple(name for name in job.after if name != gone)) for job in problem.jobs if job.id != gone
    )

    assert rank(replace(problem, jobs=jobs)) >= rank(problem)


@law
@given(seeds)
def test_other_names_change_nothing(seed: int) -> None:
    problem = random_problem(seed)
    other = {job.id: f"z{len(problem.jobs) - at}" for at, job in enumerate(problem.jobs)}
    jobs = tuple(replace(job, id=other[job.id], after=tuple(other[name] for name in job.after)) for job in problem.jobs)

    plan, renamed = make_plan(problem), make_plan(replace(problem, jobs=jobs))

    assert (plan.status, plan.objective.value, plan.objective.bound) == (
        renamed.status,
        renamed.objective.value,
        renamed.objective.bound,
    )
    assert [(need.needed, need.lower_bound) for need in plan.gpus] == [
        (need.needed, need.lower_bound) for need in renamed.gpus
    ]


@law
@given(seeds, st.sampled_from([2, 7, 1_000]))
def test_slower_clocks_change_nothing(seed: int, factor: int) -> None:
    problem = random_problem(seed)
    capacity = {
        name: tuple((at * factor, amount) for at, amount in steps) for name, steps in problem.capacity.steps.items()
    }
    jobs = tuple(
        replace(
            job,
            shapes=tuple(
                Shape(flavor=one.flavor, demand=one.demand, duration_ms=one.duration_ms * factor) for one in job.shapes
            ),
            release_ms=job.release_ms * factor,
            deadline_ms=None if job.deadline_ms is None else job.deadline_ms * factor,
            due_ms=None if job.due_ms is None else job.due_ms * factor,
            pinned_ms=None if job.pinned_ms is None else job.pinned_ms * factor,
        )
        for job in problem.jobs
    )

    plan = make_plan(problem, advise=False)
    slow = make_plan(replace(problem, jobs=jobs, capacity=Capacity(steps=capacity)), advise=False)

    assert (plan.status, plan.objective.value) == (slow.status, slow.objective.value)
    assert [(need.needed, need.lower_bound) for need in plan.gpus] == [
        (need.needed, need.lower_bound) for need in slow.gpus
    ]
    starts = [one.run.start_ms * factor if one.run else None for one in plan.jobs]
    assert starts == [one.run.start_ms if one.run else None for one in slow.jobs]


@law
@given(seeds, st.integers(0, 3), st.randoms(use_true_random=False))
def test_the_same_inputs_and_seed_give_the_same_bytes_in_any_order_of_jobs(
    seed: int, plan_seed: int, order: Random
) -> None:
    problem = random_problem(seed)
    jobs = list(problem.jobs)
    order.shuffle(jobs)
    shuffled = replace(problem, jobs=tuple(jobs))

    one = plan_document(problem, make_plan(problem, seed=plan_seed))
    other = plan_document(shuffled, make_plan(shuffled, seed=plan_seed))

    assert json.dumps(one) == json.dumps(other)
