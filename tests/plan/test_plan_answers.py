"""What a plan says: statuses, objectives, shapes, precedence, running and pinned jobs, relaxations, explanations."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

import pytest

from gpuyield.errors import PlanError
from gpuyield.model.document import canonical_bytes
from gpuyield.model.job import Capacity, PlanJob, PlanObjective, Problem, Shape
from gpuyield.model.plan import AddGpus, Drop, JobStatus, MoveDeadline, Plan, PlanStatus, StoppedBecause
from gpuyield.plan import make_plan, plan_document, plan_inputs
from gpuyield.verify import Report, check
from plan.small import ORIGIN_MS, UNIT_MS, job, overbooked, problem


def starts(plan: Plan) -> dict[str, int | None]:
    """When each job starts, in units."""
    return {one.id: None if one.run is None else one.run.start_ms // UNIT_MS for one in plan.jobs}


def checked(problem: Problem, plan: Plan, prices: Mapping[str, Decimal] | None = None) -> Report:
    document = json.loads(json.dumps(plan_document(problem, plan, prices=prices)))
    return check(document, canonical_bytes(plan_inputs(problem, prices=prices)))


def with_capacity(given: Problem, **steps: tuple[tuple[int, int], ...]) -> Problem:
    units = {name.replace("_", "/"): tuple((at * UNIT_MS, amount) for at, amount in one) for name, one in steps.items()}
    return replace(given, capacity=Capacity(steps=units))


def test_no_jobs_are_a_plan() -> None:
    empty = problem()

    plan = make_plan(empty)

    assert plan.status is PlanStatus.OPTIMAL
    assert checked(empty, plan).accepted


def test_two_jobs_too_wide_for_each_other_run_one_after_the_other() -> None:
    given = problem(job("a", 3, 2, deadline=4), job("b", 2, 2, deadline=4))

    plan = make_plan(given)

    assert sorted(str(at) for at in starts(plan).values()) == ["0", "2"]
    assert plan.need("gpu").needed == 3


def test_gangs_that_never_fit_side_by_side_are_proven_without_an_overloaded_interval() -> None:
    wide = problem(job("a", 3, 1, deadline=2), job("b", 3, 1, deadline=2), job("c", 2, 1, deadline=2))

    plan = make_plan(wide)

    assert plan.status is PlanStatus.INFEASIBLE
    assert plan.certificate is not None
    assert plan.certificate["kind"] == "wide-gangs"
    assert plan.need("gpu").needed == 5
    assert checked(wide, plan).accepted


def test_a_job_without_room_waits_for_a_hole_in_the_calendar_to_end() -> None:
    calendar = with_capacity(problem(job("a", 2, 3, deadline=9)), gpu=((0, 4), (2, 1), (4, 4)))

    plan = make_plan(calendar)

    assert starts(plan) == {"a": 4}
    assert "Starts at" in plan.job("a").why


def test_a_slow_flavor_is_taken_where_it_meets_the_deadline_and_the_fast_one_where_not() -> None:
    shapes = (
        Shape(flavor="h100", demand={"gpu/h100": 1}, duration_ms=2 * UNIT_MS),
        Shape(flavor="a100", demand={"gpu/a100": 1}, duration_ms=5 * UNIT_MS),
    )
    patient = PlanJob(id="patient", shapes=shapes, deadline_ms=6 * UNIT_MS)
    hurried = PlanJob(id="hurried", shapes=shapes, deadline_ms=3 * UNIT_MS)
    given = with_capacity(problem(patient, hurried), gpu_h100=((0, 1),), gpu_a100=((0, 1),))

    plan = make_plan(given)

    flavors = {one["id"]: one["flavor"] for one in plan_document(given, plan)["jobs"]}
    assert flavors == {"patient": "a100", "hurried": "h100"}
    assert checked(given, plan).accepted


def test_a_job_waits_for_its_predecessor_and_the_plan_says_so() -> None:
    given = problem(job("train", 1, 2), job("eval", 1, 1, deadline=4, after=("train",)))

    plan = make_plan(given)

    assert starts(plan) == {"train": 0, "eval": 2}
    assert "when train, which it waits for, ends" in plan.job("eval").why


def test_running_and_pinned_jobs_are_never_moved() -> None:
    running = replace(job("running", 3, 5), started_ms=-2 * UNIT_MS)
    pinned = replace(job("pinned", 2, 2), pinned_ms=6 * UNIT_MS)
    given = problem(running, pinned, job("new", 3, 3, deadline=12))

    plan = make_plan(given)

    assert starts(plan) == {"running": -2, "pinned": 6, "new": 3}
    assert checked(given, plan).accepted


def test_a_missed_due_time_is_late_and_a_missed_deadline_is_dropped() -> None:
    given = problem(job("a", 4, 2, deadline=2), job("soft", 4, 2, due=2), job("hard", 4, 2, deadline=3, weight="0.5"))

    plan = make_plan(given)

    assert {one.id: one.status for one in plan.jobs} == {
        "a": JobStatus.PLANNED,
        "soft": JobStatus.LATE,
        "hard": JobStatus.DROPPED,
    }
    assert plan.job("soft").late_ms == 2 * UNIT_MS
    assert plan.on_time.jobs == Fraction(1, 3)
    assert plan.on_time.weighted == Fraction(1, 1) / Fraction(5, 2)
    assert checked(given, plan).accepted


def test_the_least_weight_is_given_up() -> None:
    given = problem(
        job("dear", 4, 2, deadline=3, weight="5"), job("cheap", 4, 2, deadline=3), job("small", 1, 1, deadline=3)
    )

    plan = make_plan(given)

    assert plan.job("cheap").status is JobStatus.DROPPED
    assert plan.on_time.weighted == Fraction(6, 7)


def test_the_reasons_of_impossible_jobs_have_their_figures() -> None:
    jobs = (
        job("long", 1, 5, deadline=3),
        job("wide", 9, 1, deadline=3),
        PlanJob(id="other", shapes=(Shape(flavor="b200", demand={"gpu/b200": 1}, duration_ms=1),), deadline_ms=5),
        job("first", 1, 3),
        job("last", 1, 3, deadline=5, after=("first",)),
    )
    given = problem(*jobs)

    plan = make_plan(given)

    assert plan.certificate is not None
    listed = {one["id"]: (one["reason"], one["need"], one["have"]) for one in plan.certificate["jobs"]}
    assert listed == {
        "last": ("chain", 360, 300),
        "long": ("too-long", 300, 180),
        "other": ("no-flavor", ["gpu/b200"], ["gpu"]),
        "wide": ("too-wide", 9, 4),
    }
    assert [one.split()[0] for one in plan.explanation[:4]] == ["last", "long", "other", "wide"]
    assert checked(given, plan).accepted


def test_a_job_behind_an_impossible_one_is_impossible_and_named() -> None:
    given = problem(job("a", 1, 5, deadline=3), job("b", 1, 1, deadline=9, after=("a",)))

    plan = make_plan(given)

    assert plan.job("b").status is JobStatus.IMPOSSIBLE
    assert plan.job("b").why == "b is impossible: it waits for a, which is impossible itself."
    assert checked(given, plan).accepted


def test_every_relaxation_is_a_problem_that_fits() -> None:
    given = problem(job("a", 2, 3, deadline=4), job("b", 2, 3, deadline=4), job("c", 2, 2, deadline=5), gpus=3)

    plan = make_plan(given)

    added, moved, dropped = plan.relaxations
    assert isinstance(added, AddGpus)
    assert isinstance(moved, MoveDeadline)
    assert isinstance(dropped, Drop)
    later = dict(moved.jobs)
    jobs = tuple(replace(one, deadline_ms=(one.deadline_ms or 0) + later.get(one.id, 0)) for one in given.jobs)
    assert make_plan(replace(given, jobs=jobs)).status is PlanStatus.OPTIMAL
    fewer = tuple(one for one in given.jobs if one.id not in dropped.jobs)
    assert make_plan(replace(given, jobs=fewer)).status is PlanStatus.OPTIMAL
    assert added.irreducible
    assert checked(given, plan).accepted


def test_fewest_gpus_takes_as_many_as_it_needs_and_proves_the_floor() -> None:
    given = problem(*(job(name, 2, 2, deadline=4) for name in "abcdef"), objective=PlanObjective.FEWEST_GPUS)

    plan = make_plan(given)

    assert (plan.objective.value, plan.objective.bound) == (Fraction(6), Fraction(6))
    assert plan.status is PlanStatus.OPTIMAL
    assert checked(given, plan).accepted


def test_fewest_gpus_of_several_resources_must_say_which() -> None:
    given = with_capacity(problem(objective=PlanObjective.FEWEST_GPUS), gpu_a=((0, 1),), gpu_b=((0, 1),))

    with pytest.raises(PlanError, match="needs one resource") as caught:
        make_plan(given)

    assert "gpu/a, gpu/b" in caught.value.mistakes[0].fix


def test_makespan_is_closed_on_a_small_problem() -> None:
    lengths = {"a": 3, "b": 3, "c": 2, "d": 2, "e": 2}
    jobs = tuple(job(name, 2, length) for name, length in lengths.items())
    given = problem(*jobs, objective=PlanObjective.MAKESPAN)

    plan = make_plan(given)

    assert plan.objective.value == Fraction(6 * UNIT_MS, 1000)
    assert plan.status is PlanStatus.OPTIMAL
    assert checked(given, plan).accepted


def test_cheapest_takes_the_cheapest_shape_that_meets_the_deadline() -> None:
    shapes = (
        Shape(flavor="h100", demand={"gpu/h100": 1}, duration_ms=UNIT_MS),
        Shape(flavor="a100", demand={"gpu/a100": 1}, duration_ms=2 * UNIT_MS),
    )
    given = with_capacity(
        problem(PlanJob(id="a", shapes=shapes, deadline_ms=9 * UNIT_MS), objective=PlanObjective.CHEAPEST),
        gpu_h100=((0, 1),),
        gpu_a100=((0, 1),),
    )
    prices = {"gpu/h100": Decimal("3"), "gpu/a100": Decimal("1")}

    plan = make_plan(given, prices=prices)

    assert plan.job("a").run is not None
    assert plan.objective.value == Fraction(2, 60)
    assert checked(given, plan, prices).accepted


def test_cheapest_without_prices_names_what_has_none() -> None:
    given = problem(job("a", 1, 1, deadline=2), objective=PlanObjective.CHEAPEST)

    with pytest.raises(PlanError, match="price of gpu"):
        make_plan(given)


def test_a_preemptible_job_that_has_no_room_in_one_piece_is_planned_around_a_pinned_one() -> None:
    paused = replace(job("paused", 4, 4, deadline=7), restart_ms=0)
    given = problem(paused, replace(job("pinned", 4, 2, deadline=9), pinned_ms=2 * UNIT_MS))

    plan = make_plan(given)

    assert plan.status is PlanStatus.OPTIMAL
    assert plan.proof is None


def test_all_mistakes_of_a_problem_come_at_once() -> None:
    broken = problem(job("a", 0, 1), job("a", 1, 0), job("b", 1, 1, after=("nobody",)), job("c", 1, 1, weight="NaN"))

    with pytest.raises(PlanError) as caught:
        make_plan(broken)

    assert len(caught.value.mistakes) == 5


def test_jobs_that_wait_for_each_other_are_named_in_their_circle() -> None:
    circle = problem(job("a", 1, 1, after=("b",)), job("b", 1, 1, after=("c",)), job("c", 1, 1, after=("a",)))

    with pytest.raises(PlanError, match="a waits for b waits for c waits for a"):
        make_plan(circle)


def test_a_stop_from_outside_still_gives_a_plan() -> None:
    given = problem(*(job(f"j{at}", 2, 2, deadline=40) for at in range(30)))

    plan = make_plan(given, should_stop=lambda: True)

    assert plan.stopped_because is StoppedBecause.TIME
    assert overbooked(given, plan) == []
    assert checked(given, plan).accepted


def test_times_in_sentences_are_local_and_dated_once_a_plan_is_longer_than_a_day() -> None:
    long = replace(
        problem(*(job(name, 3, 60 * 20, deadline=60 * 50) for name in "ab"), zone="Europe/Berlin"), origin_ms=ORIGIN_MS
    )

    plan = make_plan(long)

    assert plan.job("b").why.startswith("Starts at Tue 2026-12-01 18:00, when a ends")


def test_the_fewest_of_each_flavor_are_said_of_it_alone() -> None:
    shapes = tuple(
        Shape(flavor=flavor, demand={f"gpu/{flavor}": 2}, duration_ms=UNIT_MS) for flavor in ("a100", "h100")
    )
    either = PlanJob(id="either", shapes=shapes, deadline_ms=4 * UNIT_MS)
    given = with_capacity(problem(either), gpu_a100=((0, 4),), gpu_h100=((0, 4),))

    plan = make_plan(given)

    said = [one.partition(";")[0] for one in plan.explanation if "suffice" in one]
    assert said == [f"With all else as it is, 0 {flavor} GPUs suffice for all deadlines" for flavor in ("a100", "h100")]


def test_two_deadlines_are_both_met() -> None:
    plan = make_plan(problem(job("a", 1, 1, deadline=2), job("b", 1, 1, deadline=2)))

    assert plan.explanation[0] == "Both deadlines are met."


def test_a_job_that_runs_longer_than_its_run_time_is_told_apart_from_one_that_holds_its_gpus() -> None:
    over, runs = (replace(job(name, 1, length, deadline=9), started_ms=-2 * UNIT_MS) for name, length in _LENGTHS)

    plan = make_plan(problem(over, runs))

    why = {one.id: one.why for one in plan.jobs}
    assert why["over"].endswith("before the plan starts: if it still runs, its run time is too short.")
    assert why["runs"].startswith("Running since ")


_LENGTHS = (("over", 1), ("runs", 4))
