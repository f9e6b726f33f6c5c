"""Laws of a plan that starts from another: never behind it, sound, and every move has its reason."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuyield.model.document import canonical_bytes
from gpuyield.model.job import Capacity, Problem
from gpuyield.model.plan import Plan, PlanStatus, Run
from gpuyield.plan import make_plan, plan_document, plan_inputs
from gpuyield.plan.online.continued import continue_plan
from gpuyield.verify import check
from laws.sizes import size
from plan.every_feature import prices_of, problem_of
from plan.small import UNIT_MS, random_problem

pytestmark = pytest.mark.sized_laws
EXAMPLES = size(default=40, sample=80, full=1_000)
MET = (PlanStatus.FEASIBLE, PlanStatus.OPTIMAL)
SCARCE = 1
"""Work with which no plan can be searched for: what is good is what was kept."""

seeds = st.integers(0, 1_000_000)
law = settings(max_examples=EXAMPLES, deadline=None, derandomize=True)


@law
@given(seeds, st.sampled_from(["more", "later", "fewer jobs"]), st.sampled_from([SCARCE, 250_000]), st.data())
def test_a_looser_problem_never_has_a_plan_behind_the_old_one(
    seed: int, how: str, work: int, data: st.DataObject
) -> None:
    problem = random_problem(seed, most_jobs=9)
    before = make_plan(problem, advise=False)
    changed = loosened(problem, how, data)

    after = continue_plan(changed, runs_of(before), work=work)

    there = {job.id for job in changed.jobs}
    kept = on_time(problem, {n: r for n, r in runs_of(before).items() if n in there})
    # Hard deadlines come first: a plan that now meets them all may miss more due times.
    assert (after.status in MET, on_time(changed, runs_of(after))) >= (before.status in MET, kept)


@law
@given(seeds, st.integers(-2, 2), st.data())
def test_verify_accepts_it_and_every_move_has_its_reason(seed: int, more: int, data: st.DataObject) -> None:
    problem = random_problem(seed, most_jobs=8)
    before = make_plan(problem, advise=False)
    changed = with_more(problem, more, data)

    after = continue_plan(changed, runs_of(before))

    document = plan_document(changed, after)
    assert not check(json.loads(json.dumps(document)), canonical_bytes(plan_inputs(changed))).refused
    old, new = runs_of(before), runs_of(after)
    for one in after.jobs:
        moved = one.id in old and one.id in new and old[one.id] != new[one.id]
        assert (one.moved_because is not None) == moved


@law
@given(seeds)
def test_where_nothing_has_changed_only_jobs_without_a_deadline_move_and_only_forward(
    seed: int,
) -> None:
    problem = random_problem(seed, most_jobs=8)
    before = make_plan(problem, advise=False)

    after = continue_plan(problem, runs_of(before))

    if before.status in MET:
        old, new = runs_of(before), runs_of(after)
        loose = {job.id for job in problem.jobs if job.deadline_ms is None and job.due_ms is None}
        assert all(new[name] == run for name, run in old.items() if name not in loose)
        assert all(new[name].end_ms <= old[name].end_ms for name in loose & set(old))


@law
@given(seeds, st.integers(-1, 2), st.data())
def test_plans_with_every_feature_can_be_continued(seed: int, more: int, data: st.DataObject) -> None:
    problem = problem_of(seed)
    prices = prices_of(problem)
    before = make_plan(problem, prices=prices, advise=False, work=20_000)
    changed = with_more(problem, more, data)

    after = continue_plan(changed, runs_of(before), prices=prices, work=20_000)

    document = json.loads(json.dumps(plan_document(changed, after, prices=prices)))
    assert not check(document, canonical_bytes(plan_inputs(changed, prices=prices))).refused
    old, new = runs_of(before), runs_of(after)
    moved = {name for name in set(old) & set(new) if old[name] != new[name]}
    assert {one.id for one in after.jobs if one.moved_because is not None} == moved


def loosened(problem: Problem, how: str, data: st.DataObject) -> Problem:
    chosen = data.draw(st.sampled_from([job.id for job in problem.jobs]))
    match how:
        case "more":
            return with_more(problem, 1, data)
        case "later":
            jobs = tuple(
                replace(job, deadline_ms=job.deadline_ms + 2 * UNIT_MS)
                if job.id == chosen and job.deadline_ms is not None
                else job
                for job in problem.jobs
            )
            return replace(problem, jobs=jobs)
        case _:
            kept = [job for job in problem.jobs if job.id != chosen]
            jobs = tuple(replace(job, after=tuple(one for one in job.after if one != chosen)) for job in kept)
            return replace(problem, jobs=jobs)


def with_more(problem: Problem, more: int, data: st.DataObject) -> Problem:
    resource = data.draw(st.sampled_from(sorted(problem.capacity.steps)))
    steps = tuple((at, max(0, amount + more)) for at, amount in problem.capacity.steps[resource])
    return replace(problem, capacity=Capacity(steps={**problem.capacity.steps, resource: steps}))


def runs_of(plan: Plan) -> dict[str, Run]:
    return {one.id: one.run for one in plan.jobs if one.run is not None}


def on_time(problem: Problem, runs: Mapping[str, Run]) -> Decimal:
    """The weight of the jobs that end before their deadline and their due time, added up by hand."""
    total = Decimal(0)
    for job in problem.jobs:
        ends = [end for end in (job.deadline_ms, job.due_ms) if end is not None]
        if ends and job.id in runs and runs[job.id].end_ms <= min(ends):
            total += job.weight
    return total
