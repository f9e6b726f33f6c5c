"""A job that may be paused runs in several parts where one piece does not do, each further part a restart longer."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal

from gpuyield.model.document import canonical_bytes
from gpuyield.model.job import Capacity, PlanJob, PlanObjective, Problem
from gpuyield.model.plan import Plan, PlanStatus
from gpuyield.plan import make_plan, plan_document, plan_inputs
from gpuyield.plan.case import Case
from gpuyield.plan.deadlines import rule_schedules
from gpuyield.plan.instance.budget import Budget
from gpuyield.plan.instance.schedule import merit_of
from gpuyield.plan.proof.objective import on_time_shares
from gpuyield.plan.search.large import improved
from gpuyield.verify import check
from plan.crowd import crowded
from plan.small import UNIT_MS, job, problem


def pausable(one: PlanJob, restart: int = 1) -> PlanJob:
    return replace(one, restart_ms=restart * UNIT_MS)


def parts(plan: Plan, name: str) -> list[tuple[int, int]]:
    """The parts of a job in units."""
    run = plan.job(name).run
    return [] if run is None else [(start // UNIT_MS, end // UNIT_MS) for start, end in run.segments]


def accepted(asked: Problem, plan: Plan) -> bool:
    prices = {"gpu": Decimal(2)} if asked.objective is PlanObjective.CHEAPEST else None
    document = json.loads(json.dumps(plan_document(asked, plan, prices=prices)))
    return check(document, canonical_bytes(plan_inputs(asked, prices=prices))).accepted


def test_a_pausable_job_makes_room_for_one_in_a_hurry_and_pays_the_restart() -> None:
    asked = problem(pausable(job("long", 4, 6, deadline=9)), job("urgent", 4, 2, release=2, deadline=4))

    plan = make_plan(asked)

    assert plan.status is PlanStatus.OPTIMAL
    assert parts(plan, "urgent") == [(2, 4)]
    assert parts(plan, "long") == [(0, 2), (4, 9)]
    assert "Paused from 21:02 to 21:04" in plan.job("long").why
    assert accepted(asked, plan)


def test_a_pausable_job_that_fits_in_one_piece_is_not_paused() -> None:
    asked = problem(pausable(job("long", 2, 6, deadline=10), 0), job("urgent", 2, 2, release=2, deadline=4))

    plan = make_plan(asked)

    assert parts(plan, "long") == [(0, 6)]


def test_a_pausable_job_runs_around_a_hole_in_the_capacity() -> None:
    hole = Capacity(steps={"gpu": ((0, 4), (3 * UNIT_MS, 0), (5 * UNIT_MS, 4))})
    asked = replace(problem(pausable(job("long", 4, 6, deadline=9))), capacity=hole)

    plan = make_plan(asked)

    assert parts(plan, "long") == [(0, 3), (5, 9)]
    assert accepted(asked, plan)


def test_a_restart_that_is_too_long_leaves_no_time() -> None:
    hole = Capacity(steps={"gpu": ((0, 4), (3 * UNIT_MS, 0), (5 * UNIT_MS, 4))})
    asked = replace(problem(pausable(job("long", 4, 6, deadline=9), 2)), capacity=hole)

    plan = make_plan(asked)

    assert plan.status is PlanStatus.INFEASIBLE
    assert accepted(asked, plan)


def test_a_running_job_is_paused_where_it_may_be() -> None:
    running = replace(pausable(job("long", 4, 6, deadline=12)), started_ms=-2 * UNIT_MS)
    asked = problem(running, job("urgent", 4, 2, release=1, deadline=3))

    plan = make_plan(asked)

    assert plan.status is PlanStatus.OPTIMAL
    assert parts(plan, "long") == [(-2, 1), (3, 7)]
    assert accepted(asked, plan)


def test_three_jobs_share_a_gpu_only_by_pausing_two_of_them() -> None:
    asked = problem(
        pausable(job("a", 4, 5, deadline=14), 1),
        pausable(job("b", 4, 3, release=2, deadline=8), 1),
        job("c", 4, 1, release=4, deadline=5),
    )

    plan = make_plan(asked)

    assert plan.status is PlanStatus.OPTIMAL
    assert accepted(asked, plan)


def test_a_pause_costs_its_restart() -> None:
    asked = replace(
        problem(pausable(job("long", 4, 6, deadline=9), 1), job("urgent", 4, 2, release=2, deadline=4)),
        objective=PlanObjective.CHEAPEST,
    )

    plan = make_plan(asked, prices={"gpu": Decimal(2)})

    assert plan.objective.value is not None
    assert float(plan.objective.value) == 2 * 4 * (7 + 2) / 60
    assert accepted(asked, plan)


def test_beyond_what_is_placed_job_by_job_pauses_still_save_deadlines() -> None:
    rigid = crowded(320, seed=3, load=1.3)
    asked = replace(rigid, jobs=tuple(pausable(one, 3) for one in rigid.jobs))
    case = Case.of(asked)
    by_rule = max(rule_schedules(case, Budget(100_000)), key=lambda one: merit_of(case.board, one))
    in_one_piece = improved(case, by_rule, 0, Budget(100_000), sure=False)

    plan = make_plan(asked, advise=False, bound=False, work=120_000)

    weighted, before = plan.on_time.weighted, on_time_shares(case.board, in_one_piece).weighted
    assert weighted is not None
    assert before is not None
    assert weighted > before
    assert sum(len(one.run.parts) > 1 for one in plan.jobs if one.run is not None) > 5
    assert accepted(asked, plan)
