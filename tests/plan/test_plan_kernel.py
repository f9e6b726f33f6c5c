from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import count

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuyield.model.document import canonical_bytes
from gpuyield.model.job import PlanJob, PlanObjective, Problem
from gpuyield.model.plan import StoppedBecause
from gpuyield.plan import make_plan, plan_document, plan_inputs
from gpuyield.plan.case import Case
from gpuyield.plan.instance.budget import Budget
from gpuyield.plan.instance.schedule import Schedule
from gpuyield.plan.kernel.congestion import all_met, levelled, negotiated
from gpuyield.plan.kernel.grid import Grid, grid_of
from gpuyield.plan.kernel.lanes import Lane, compiled, plain
from gpuyield.plan.kernel.pricing import on_time_buyers, price_bound
from gpuyield.plan.kernel.search import Answer, Search
from gpuyield.plan.proof.objective import unmeetable
from gpuyield.verify import check
from plan.crowd import crowded, overfull, weight_on_time
from plan.every_feature import problem_of

SEEDS = st.integers(0, 10_000)
SHORT = [seed for seed in range(14) if grid_of(Case.of(problem_of(seed, most_jobs=25))).room.free.shape[1] < 300]
"""Problems of few slots, which plain Python plans in no time."""


def searches(problem: Problem) -> tuple[Search, Search]:
    """The same search in both lanes."""
    case = Case.of(problem)
    fast, slow = (Search(grid_of(case), 3, Budget(20_000), lane) for lane in (compiled(), plain()))
    return fast, slow


def same(one: Answer | None, other: Answer | None) -> bool:
    """Whether two answers are equal to the last tick."""
    if one is None or other is None:
        return one is other
    pairs = zip((*one.runs, *one.room), (*other.runs, *other.room), strict=True)
    return all(np.array_equal(first, second) for first, second in pairs)


@pytest.mark.parametrize("seed", SHORT)
def test_both_lanes_give_identical_arrays(seed: int) -> None:
    fast, slow = searches(problem_of(seed, most_jobs=25))

    rules = [one.by_rules() for one in (fast, slow)]
    won = [negotiated(one, known, sure=False) for one, known in zip((fast, slow), rules, strict=True)]
    met = [all_met(one) for one in (fast, slow)]

    assert same(*rules)
    assert same(*won)
    assert same(*met)
    assert fast.budget.left == slow.budget.left


def test_both_lanes_level_alike() -> None:
    fast, slow = searches(crowded(40))
    for one in (fast, slow):
        roomy = one.grid.case.with_steps(0, ((0, 1_000),))
        one.grid = grid_of(roomy)

    found = [levelled(one, 0, 1, 40, thorough=False) for one in (fast, slow)]

    assert found[0] is not None
    assert found[1] is not None
    assert found[0][0] == found[1][0]
    assert all(np.array_equal(one, other) for one, other in zip(found[0][1], found[1][1], strict=True))


def test_both_lanes_find_the_same_prices() -> None:
    case = Case.of(crowded(40))
    schedule = _by_rules(case, plain())

    fast, slow = (
        price_bound(case, on_time_buyers(case), schedule, weight_on_time(case, schedule), Budget(10_000), lane)
        for lane in (compiled(), plain())
    )

    assert fast is not None
    assert slow is not None
    assert fast.certificate == slow.certificate


@settings(max_examples=60, deadline=None)
@given(SEEDS)
def test_what_fits_on_the_grid_fits_in_real_time(seed: int) -> None:
    case = Case.of(problem_of(seed, most_jobs=14))

    schedule = _by_rules(case, plain())

    assert overfull(case, schedule) == []
    for task, one in zip(case.board.tasks, schedule.placed, strict=True):
        if one is None or task.fixed_ms is not None:
            continue
        assert one.start_ms >= task.release_ms
        assert task.deadline_ms is None or one.end_ms <= task.deadline_ms
        for before in task.before:
            preceding = schedule.placed[before]
            assert preceding is not None
            assert preceding.end_ms <= one.start_ms


def test_times_too_fine_for_the_horizon_are_planned_fine_near_and_coarse_far() -> None:
    month_ms = 30 * 86_400_000
    far = tuple(
        replace(one, deadline_ms=(one.deadline_ms or 0) + 60 * month_ms + at, release_ms=one.release_ms + at)
        for at, one in enumerate(crowded(30).jobs)
    )
    case = Case.of(replace(crowded(30), jobs=far))

    grid = grid_of(case)
    schedule = grid.schedule(Search(grid, 0, Budget(10_000), plain()).by_rules().runs)

    assert grid.table.ratio > 1
    assert not grid.exact
    assert overfull(case, schedule) == []


def test_a_job_without_room_on_the_grid_runs_at_its_head() -> None:
    base = crowded(30)
    shapes = base.jobs[0].shapes
    tight = PlanJob(id="tight", shapes=shapes, release_ms=17, deadline_ms=shapes[0].duration_ms + 17)
    far = replace(base.jobs[1], deadline_ms=10**12 + 1)
    case = Case.of(replace(base, jobs=(tight, far, *base.jobs[2:])))
    at = next(task.index for task in case.board.tasks if task.job.id == "tight")

    grid = grid_of(case)
    schedule = grid.schedule(Search(grid, 0, Budget(10_000), plain()).by_rules().runs)

    one = schedule.placed[at]
    assert one is not None
    assert one.start_ms == 17


def test_a_large_plan_is_accepted_and_its_bound_is_near() -> None:
    problem = crowded(700, gpus=24, load=1.1)

    plan = make_plan(problem)

    report = check(plan_document(problem, plan), canonical_bytes(plan_inputs(problem)))
    assert report.refused == ()
    assert plan.objective.gap is not None
    assert plan.objective.gap < Fraction(1, 50)


def test_the_same_seed_and_budget_give_the_same_large_plan() -> None:
    problem = crowded(400, gpus=16)

    one, other = make_plan(problem, seed=5, work=20_000), make_plan(problem, seed=5, work=20_000)

    assert plan_document(problem, one) == plan_document(problem, other)


def test_the_fewest_gpus_of_a_large_problem_are_near_the_floor() -> None:
    problem = crowded(600, gpus=24, load=0.9, objective=PlanObjective.FEWEST_GPUS)

    plan = make_plan(problem)

    report = check(plan_document(problem, plan), canonical_bytes(plan_inputs(problem)))
    assert report.refused == ()
    assert plan.objective.gap is not None
    assert plan.objective.gap < Fraction(1, 10)


def test_a_large_plan_ends_soon_after_somebody_says_stop() -> None:
    looks = count()

    plan = make_plan(crowded(500, gpus=16), should_stop=lambda: next(looks) > 40)

    assert plan.stopped_because is StoppedBecause.TIME
    assert next(looks) < 1_000


def test_prices_prove_that_not_all_deadlines_can_be_met() -> None:
    problem = crowded(400, 2, gpus=16, load=1.1)
    case = Case.of(problem)
    plan = make_plan(problem, work=30_000)

    prices = unmeetable(case, _by_rules(case, compiled()), Budget(100_000))

    document = {**plan_document(problem, plan), "certificate": prices}
    assert prices is not None
    assert Fraction(prices["bound"]) < len(problem.jobs)
    assert check(document, canonical_bytes(plan_inputs(problem))).refused == ()


def test_a_large_plan_without_any_time_is_still_a_plan() -> None:
    problem = crowded(400, gpus=16)

    plan = make_plan(problem, should_stop=lambda: True)

    report = check(plan_document(problem, plan), canonical_bytes(plan_inputs(problem)))
    assert report.refused == ()
    assert any(one.run is not None for one in plan.jobs)


def _by_rules(case: Case, lane: Lane) -> Schedule:
    grid: Grid = grid_of(case)
    return grid.schedule(Search(grid, 0, Budget(10_000), lane).by_rules().runs)
