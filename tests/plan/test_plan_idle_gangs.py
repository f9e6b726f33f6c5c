"""Gangs that leave GPUs idle beside each other: proven where no span is overloaded and some fit side by side."""

from __future__ import annotations

import json
from dataclasses import replace

from gpuyield.model.document import canonical_bytes
from gpuyield.model.job import Capacity, PlanObjective, Problem
from gpuyield.model.plan import Plan, PlanStatus
from gpuyield.plan import make_plan, plan_document, plan_inputs
from gpuyield.plan.case import Case
from gpuyield.plan.deadlines import worst_overload
from gpuyield.plan.proof.dual_feasible import dual_feasible
from gpuyield.plan.proof.wide_gangs import one_at_a_time
from gpuyield.verify import check
from plan.small import UNIT_MS, job, problem


def accepted(given: Problem, plan: Plan) -> bool:
    document = json.loads(json.dumps(plan_document(given, plan)))
    return check(document, canonical_bytes(plan_inputs(given))).accepted


def whole_nodes(count: int, *, gpus: int, hours: int) -> Problem:
    """So many gangs of 8 for two hours each."""
    return problem(*(job(f"j{at:03}", 8, 2, deadline=hours) for at in range(count)), gpus=gpus)


def test_seven_whole_node_gangs_do_not_fit_into_the_quota_that_holds_their_gpu_hours() -> None:
    given = whole_nodes(7, gpus=20, hours=6)  # 112 of 120 GPU-hours, and two at a time.
    case = Case.of(given)

    plan = make_plan(given)

    assert worst_overload(case) is None
    assert one_at_a_time(case.board, case.steps, case.windows, case.forced) is None
    assert plan.status is PlanStatus.INFEASIBLE
    assert plan.certificate is not None
    assert plan.certificate["kind"] == "dual-feasible"
    assert plan.need("gpu").needed == 24
    assert plan.explanation[0] == (
        "Whatever the order, j000, j001, j002, j003, j004 and 2 more cannot run all that they must between 21:00 and "
        "21:06: their widths leave GPUs idle beside each other."
    )
    assert accepted(given, plan)


def test_it_is_proven_for_more_jobs_than_can_be_searched() -> None:
    given = whole_nodes(420, gpus=20, hours=360)

    plan = make_plan(given, advise=False, work=2_000)

    assert plan.status is PlanStatus.INFEASIBLE
    assert plan.need("gpu").lower_bound == 24
    assert accepted(given, plan)


def test_a_mix_of_widths_counts_by_what_fits_beside_what() -> None:
    given = problem(
        *(job(f"w{at}", 7, 1, deadline=3) for at in range(2)),
        *(job(f"m{at}", 5, 1, deadline=3) for at in range(2)),
        *(job(f"s{at}", 4, 1, deadline=3) for at in range(2)),
        gpus=11,
    )
    case = Case.of(given)

    found = dual_feasible(case.board, case.steps, case.windows, case.forced)
    plan = make_plan(given)

    assert found is None  # 7+4, 7+4, 5+5: they fit.
    assert plan.status is PlanStatus.OPTIMAL


def test_the_calendar_counts_by_what_each_amount_holds() -> None:
    calendar = Capacity(steps={"gpu": ((0, 23), (3 * UNIT_MS, 15))})
    given = replace(whole_nodes(5, gpus=23, hours=5), capacity=calendar)

    plan = make_plan(given)

    assert plan.status is PlanStatus.INFEASIBLE
    assert plan.certificate is not None
    assert plan.certificate["kind"] == "dual-feasible"
    assert accepted(given, plan)


def test_the_fewest_gpus_for_whole_node_gangs_are_whole_nodes() -> None:
    given = problem(
        *(job(f"j{at:03}", 8, 2, deadline=6) for at in range(7)), gpus=20, objective=PlanObjective.FEWEST_GPUS
    )

    plan = make_plan(given)

    assert plan.status is PlanStatus.OPTIMAL
    assert plan.objective.value == 24
    assert accepted(given, plan)
