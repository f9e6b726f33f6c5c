"""The CP-SAT lane: as good as an independent model says, the same every time, and it stops when told to."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import pytest

from gpuyield.model.job import PlanObjective, Problem
from gpuyield.model.plan import PlanStatus
from gpuyield.plan import make_plan
from gpuyield.plan.case import Case
from gpuyield.plan.deadlines import rule_schedules
from gpuyield.plan.instance.budget import Budget, never
from gpuyield.plan.instance.schedule import meets_all, merit_of
from gpuyield.plan.proof.cpsat import Word, ask
from gpuyield.plan.proof.cpsat_model import Aim, Question
from gpuyield.plan.proof.objective import on_time_shares, run_costs, unlimited
from gpuyield.plan.search.fewest import peak_of
from plan.every_feature import prices_of
from plan.model_problems import model_problem
from plan.small import job, problem

pytest.importorskip("ortools", reason="The lane needs OR-Tools.")
from plan.cpsat_model import best_of

AIMS = {
    PlanObjective.ON_TIME: Aim.ON_TIME,
    PlanObjective.FEWEST_GPUS: Aim.FEWEST,
    PlanObjective.MAKESPAN: Aim.MAKESPAN,
    PlanObjective.CHEAPEST: Aim.CHEAPEST,
}


def asked(given: Problem, *, give_up: bool = False, should_stop: Callable[[], bool] = never) -> tuple[Case, Word]:
    """The lane's answer to the problem's own objective."""
    case = Case.of(given)
    resource = case.board.resources.index(given.resource) if given.resource else None
    if resource is not None:
        case = unlimited(case, resource, 1_000)
    costs = run_costs(case, prices_of(given) or {}) if given.objective is PlanObjective.CHEAPEST else None
    question = Question(aim=AIMS[given.objective], resource=resource, costs=costs, give_up=give_up)
    return case, ask(case, question, None, Budget(300_000, should_stop))


def value_of(given: Problem, case: Case, word: Word) -> Fraction | None:
    """The objective's value of the schedule that was found."""
    assert word.schedule is not None
    if given.objective is PlanObjective.FEWEST_GPUS:
        return Fraction(peak_of(word.schedule, case.board.resources.index(given.resource or "")))
    if given.objective is PlanObjective.MAKESPAN:
        return Fraction(word.schedule.end_ms(), 1000)
    if given.objective is PlanObjective.ON_TIME:
        return on_time_shares(case.board, word.schedule).weighted
    return word.bound


def test_its_best_values_are_those_of_an_independent_model() -> None:
    compared = 0
    for seed in range(150):
        given = model_problem(seed)
        if any(one.restart_ms is not None for one in given.jobs) or Case.of(given).impossible:
            continue
        truth = best_of(given, prices_of(given))
        if given.objective is not PlanObjective.FEWEST_GPUS and not truth.feasible:
            continue

        case, word = asked(given)

        if case.windows.stuck or truth.value == 0:
            continue
        compared += 1
        assert word.is_best, f"seed {seed}"
        assert value_of(given, case, word) == truth.value, f"seed {seed}: {given.objective}"

    assert compared > 60


def test_what_it_gives_up_is_the_least_weight() -> None:
    compared = 0
    for seed in range(200):
        given = replace(model_problem(seed), objective=PlanObjective.ON_TIME, resource=None)
        if any(one.restart_ms is not None for one in given.jobs) or Case.of(given).windows.stuck:
            continue
        truth = best_of(given)
        if truth.feasible:
            continue

        case, word = asked(given, give_up=True)

        compared += 1
        assert word.is_best, f"seed {seed}"
        assert value_of(given, case, word) == truth.value, f"seed {seed}"

    assert compared > 10


def crowded(jobs: int = 120) -> Problem:
    """Gangs of 1 to 7 on 8 GPUs with little slack, more than a solver settles at once."""
    return problem(
        *(
            job(f"j{at}", 1 + at * 5 % 7, 3 + at * 7 % 11, release=at * 3, deadline=at * 3 + 40 + at * 13 % 29)
            for at in range(jobs)
        ),
        gpus=8,
    )


def test_the_same_question_has_the_same_answer() -> None:
    one, other = (asked(crowded(24), give_up=True)[1] for _ in range(2))

    assert one == other or (
        one.schedule is not None and other.schedule is not None and one.schedule.placed == other.schedule.placed
    )
    assert one.bound == other.bound


def test_it_stops_when_told_to() -> None:
    began = time.monotonic()

    asked(crowded(300), give_up=True, should_stop=lambda: time.monotonic() - began > 1.0)

    assert time.monotonic() - began < 8


def test_the_solvers_word_carries_no_status() -> None:
    end = time.monotonic() + 5

    plan = make_plan(crowded(), advise=False, work=150_000, should_stop=lambda: time.monotonic() > end)

    assert plan.status in (PlanStatus.UNKNOWN, PlanStatus.INFEASIBLE, PlanStatus.FEASIBLE, PlanStatus.OPTIMAL)
    assert (plan.status is PlanStatus.INFEASIBLE) == (plan.certificate is not None)
    if plan.proof is not None:
        assert plan.proof.by in ("cp-sat", "gpuyield-exact")


def test_deadlines_that_are_met_stay_met() -> None:
    given = problem(*(job(f"j{at}", 2, 4, deadline=12 + at, due=4 + at) for at in range(14)), gpus=12)
    case = Case.of(given)

    word = ask(case, Question(aim=Aim.ON_TIME), None, Budget(200_000))

    assert word.schedule is not None
    assert meets_all(case.board, word.schedule)


def test_a_hint_is_a_schedule_that_it_starts_from() -> None:
    case = Case.of(crowded(60))
    best = max(rule_schedules(case, Budget(100_000)), key=lambda one: merit_of(case.board, one))

    word = ask(case, Question(aim=Aim.ON_TIME, give_up=True), best, Budget(5_000))

    assert word.schedule is not None
    assert merit_of(case.board, word.schedule).weight_on_time >= merit_of(case.board, best).weight_on_time
