"""A plan in force goes on from now: what runs stays, what can start does, and the rest keeps its place."""

from __future__ import annotations

from dataclasses import replace

from gpuyield.model.job import PlanJob
from gpuyield.model.plan import JobStatus, Plan, Run
from gpuyield.plan import carry_on
from plan.small import UNIT_MS, job, problem


def running(name: str, gpus: int, since: int, until: int) -> PlanJob:
    """A job that began so many units before the origin."""
    one = job(name, gpus, until + since, release=-since)
    return replace(one, started_ms=-since * UNIT_MS)


def run(start: int, length: int) -> Run:
    return Run(shape=0, start_ms=start * UNIT_MS, end_ms=(start + length) * UNIT_MS)


def starts(plan: Plan) -> dict[str, int | None]:
    return {one.id: None if one.run is None else one.run.start_ms // UNIT_MS for one in plan.jobs}


def test_the_next_job_starts_as_soon_as_its_gpus_are_free_and_all_behind_it_move_up() -> None:
    old = {"next": run(6, 4), "later": run(12, 4)}

    plan = carry_on(problem(job("next", 4, 4, deadline=30), job("later", 4, 4, deadline=40)), old)

    assert starts(plan) == {"next": 0, "later": 4}
    assert ["earlier" in (one.moved_because or "") for one in plan.jobs] == [True, True]


def test_what_runs_is_kept_where_it_is_even_when_the_old_plan_did_not_know_it() -> None:
    plan = carry_on(problem(running("backfill", 2, 3, 5), job("next", 4, 4, deadline=30)), {"next": run(1, 4)})

    assert starts(plan) == {"backfill": -3, "next": 5}


def test_a_job_that_was_due_and_has_no_room_yet_is_placed_anew_and_told_why() -> None:
    plan = carry_on(problem(running("long", 4, 9, 2), job("due", 4, 4, deadline=30)), {"due": run(-1, 4)})

    due = next(one for one in plan.jobs if one.id == "due")
    assert starts(plan)["due"] == 2
    assert due.moved_because is not None
    assert "it was due, and there is no room for it yet" in due.moved_because


def test_a_late_arrival_with_an_earlier_deadline_goes_first() -> None:
    old = {"patient": run(5, 4)}

    plan = carry_on(
        problem(running("now", 4, 1, 5), job("patient", 4, 4, deadline=60), job("urgent", 4, 4, deadline=10)), old
    )

    assert starts(plan) == {"now": -1, "urgent": 5, "patient": 9}


def test_a_job_that_can_no_longer_be_in_time_is_given_up_at_once() -> None:
    plan = carry_on(problem(running("long", 4, 1, 20), job("tight", 4, 4, deadline=10)), {"tight": run(5, 4)})

    assert next(one.status for one in plan.jobs if one.id == "tight") is not JobStatus.PLANNED
