"""Jobs that run or are pinned: never moved, never given up in silence; what is over by the origin holds nothing."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from gpuyield.errors import PlanError
from gpuyield.model.document import canonical_bytes
from gpuyield.model.job import Capacity, PlanJob, PlanObjective, Problem, Shape
from gpuyield.model.plan import JobStatus, Plan, PlanStatus
from gpuyield.plan import make_plan, plan_document, plan_inputs
from gpuyield.verify import Report, check
from plan.small import UNIT_MS, job, problem


def checked(given: Problem, plan: Plan) -> Report:
    return check(json.loads(json.dumps(plan_document(given, plan))), canonical_bytes(plan_inputs(given)))


def started(one: PlanJob, at: int) -> PlanJob:
    return replace(one, started_ms=at * UNIT_MS)


def pinned(one: PlanJob, at: int) -> PlanJob:
    return replace(one, pinned_ms=at * UNIT_MS)


@pytest.mark.parametrize("restart_ms", [None, 0])
def test_a_job_that_is_over_by_the_origin_needs_nothing(restart_ms: int | None) -> None:
    over = replace(started(job("over", 8, 2, deadline=3), -3), restart_ms=restart_ms)
    given = problem(over, job("a", 2, 2, deadline=4), gpus=4)

    plan = make_plan(given)

    need = plan.need("gpu")
    assert (need.needed, need.lower_bound) == (2, 2)
    assert plan.status is PlanStatus.OPTIMAL
    assert checked(given, plan).accepted


def test_a_job_that_is_over_by_the_origin_may_have_run_on_what_no_longer_exists() -> None:
    gone = PlanJob(
        id="gone", shapes=(Shape(flavor="k80", demand={"gpu/k80": 4}, duration_ms=UNIT_MS),), deadline_ms=UNIT_MS
    )
    given = problem(started(gone, -2), job("a", 2, 2, deadline=4))

    plan = make_plan(given)

    assert {one.id: one.status for one in plan.jobs} == {"a": JobStatus.PLANNED, "gone": JobStatus.PLANNED}
    assert checked(given, plan).accepted


def test_a_makespan_counts_from_the_origin() -> None:
    given = replace(problem(started(job("over", 2, 1, deadline=1), -4)), objective=PlanObjective.MAKESPAN)

    plan = make_plan(given)

    assert plan.objective.value == 0
    assert plan.objective.bound == 0
    assert checked(given, plan).accepted


@pytest.mark.parametrize(
    "first", [job("first", 1, 3), started(job("first", 1, 3), -1), job("first", 1, 3, release=2)], ids=str
)
def test_a_started_job_whose_predecessor_cannot_have_ended_is_a_mistake(first: PlanJob) -> None:
    running = started(job("running", 1, 2, after=("first",)), -1)

    with pytest.raises(PlanError, match='it has started, and "first", which it waits for, cannot have ended') as caught:
        make_plan(problem(first, running))

    assert "job running" in str(caught.value)
    assert "`after`" in str(caught.value)


def test_a_started_job_whose_predecessor_ended_before_is_planned() -> None:
    given = problem(started(job("first", 1, 3), -4), started(job("running", 1, 2, after=("first",)), -1))

    plan = make_plan(given)

    assert plan.status is PlanStatus.OPTIMAL
    assert checked(given, plan).accepted


def test_a_pinned_job_before_the_end_of_its_predecessor_is_impossible() -> None:
    given = problem(job("first", 1, 3), pinned(job("late", 1, 2, after=("first",)), 1))

    plan = make_plan(given)

    assert plan.status is PlanStatus.INFEASIBLE
    assert plan.explanation[0].startswith("late is impossible: it is fixed to start at 21:01")
    assert checked(given, plan).accepted


def test_a_pinned_job_without_a_deadline_that_fits_nowhere_is_not_called_feasible() -> None:
    given = problem(pinned(job("wide", 6, 2), 1), job("a", 2, 2, deadline=4))

    plan = make_plan(given)

    assert plan.status is PlanStatus.INFEASIBLE
    assert plan.explanation[0].startswith("wide is impossible")
    assert checked(given, plan).accepted


def test_pinned_jobs_without_deadlines_that_do_not_fit_together_are_not_called_feasible() -> None:
    given = problem(pinned(job("one", 3, 2), 0), pinned(job("two", 3, 2), 1), job("a", 1, 2, deadline=4))

    plan = make_plan(given)

    assert plan.status is PlanStatus.INFEASIBLE
    assert plan.certificate is not None
    assert (plan.certificate["kind"], plan.certificate["from_ms"], plan.certificate["to_ms"]) == (
        "interval",
        UNIT_MS,
        2 * UNIT_MS,
    )
    [given_up] = [one for one in plan.jobs if one.run is None]
    assert "never moved" in given_up.why
    assert checked(given, plan).accepted


@pytest.mark.parametrize("last", [6, 7])
def test_of_pinned_jobs_that_clash_those_stay_with_which_most_is_on_time(last: int) -> None:
    given = problem(
        pinned(job("wide", 2, 3, release=2, deadline=6), 3),
        pinned(job("slim", 1, 1, release=2, deadline=last), 4),  # It leaves room for the other slim one.
        job("other", 1, 3, release=2, deadline=6),
        gpus=2,
    )

    plan = make_plan(given)

    assert plan.status is PlanStatus.INFEASIBLE
    assert {one.id: one.status for one in plan.jobs} == {
        "wide": JobStatus.DROPPED,
        "slim": JobStatus.PLANNED,
        "other": JobStatus.PLANNED,
    }
    assert checked(given, plan).accepted


def test_the_fewest_of_one_resource_is_unknown_where_a_job_is_impossible_on_another() -> None:
    wide = PlanJob(id="wide", shapes=(Shape(demand={"gpu": 1, "cpu": 9}, duration_ms=UNIT_MS),))
    given = replace(
        problem(wide, job("a", 2, 2, deadline=4)),
        capacity=Capacity(steps={"gpu": ((0, 4),), "cpu": ((0, 8),)}),
        objective=PlanObjective.FEWEST_GPUS,
        resource="gpu",
    )

    plan = make_plan(given)

    assert plan.status is PlanStatus.FEASIBLE
    assert plan.objective.value is None
    assert plan.need("gpu").needed is None
    assert plan.explanation[0].startswith("wide is impossible: it needs 9 of cpu")
    assert checked(given, plan).accepted


@pytest.mark.parametrize("deadline_ms", [17_999_999, 18_000_001 - 2_000, 1_001])
def test_a_job_that_lacks_some_ms_has_a_certificate_in_seconds(deadline_ms: int) -> None:
    long = PlanJob(id="a", shapes=(Shape(demand={"gpu": 1}, duration_ms=18_000_000),), deadline_ms=deadline_ms)

    plan = make_plan(problem(long))

    assert plan.certificate == {
        "kind": "impossible",
        "jobs": [{"id": "a", "reason": "too-long", "need": 18_000, "have": deadline_ms / 1000}],
    }
    assert checked(problem(long), plan).accepted


@pytest.mark.parametrize("restart_ms", [None, 0])
def test_a_chain_into_a_hole_of_the_capacity_is_shown_by_the_room_there_is(restart_ms: int | None) -> None:
    behind = replace(job("b", 2, 3, deadline=8, after=("a",)), restart_ms=restart_ms)
    given = replace(
        problem(job("a", 1, 3), behind),
        capacity=Capacity(steps={"gpu": ((0, 4), (5 * UNIT_MS, 1))}),
    )

    plan = make_plan(given)

    assert plan.status is PlanStatus.INFEASIBLE
    assert plan.certificate == {
        "kind": "impossible",
        "jobs": [{"id": "b", "reason": "too-long", "need": 180, "have": 120}],
    }
    assert checked(given, plan).accepted
