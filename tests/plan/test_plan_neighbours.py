"""Placing anew around late jobs: nothing gets worse, capacity holds, what may not be moved stays."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from gpuyield.model.job import PlanJob, Problem
from gpuyield.plan.case import Case
from gpuyield.plan.deadlines import rule_schedules
from gpuyield.plan.instance.budget import Budget
from gpuyield.plan.instance.schedule import Schedule, merit_of
from gpuyield.plan.search.neighbours import replaced_nearby
from plan.small import UNIT_MS, job, problem


def crowded(seed: int) -> Problem:
    """Sixty jobs for eight GPUs, more than fit; a few are pinned, a few wait for another."""
    chance = random.Random(seed)
    jobs: list[PlanJob] = []
    for number in range(60):
        length, release = chance.randint(1, 12), chance.randint(0, 40)
        end = release + length + chance.randint(0, 2 * length)
        made = job(f"j{number:02}", chance.choice([1, 1, 2, 4]), length, release=release, deadline=end)
        if number % 20 == 7:
            made = replace(made, pinned_ms=release * UNIT_MS)
        if number % 15 == 9:
            made = replace(made, after=("j01",), deadline_ms=None)
        jobs.append(made)
    return problem(*jobs, gpus=8)


def held_at_most(case: Case, schedule: Schedule) -> int:
    runs = [one for one in schedule.placed if one is not None]
    return max(sum(other.mode.gpus for other in runs if other.start_ms <= one.start_ms < other.end_ms) for one in runs)


@pytest.mark.parametrize("seed", range(12))
def test_as_much_or_more_is_on_time_and_capacity_holds(seed: int) -> None:
    case = Case.of(crowded(seed))
    best = max(rule_schedules(case, Budget(10**6)), key=lambda one: merit_of(case.board, one))

    found = replaced_nearby(case, best, 0, Budget(8_000))

    assert merit_of(case.board, found).weight_on_time >= merit_of(case.board, best).weight_on_time
    assert held_at_most(case, found) <= 8
    for task, old, new in zip(case.board.tasks, best.placed, found.placed, strict=True):
        if task.fixed_ms is not None or task.before or task.after:
            assert old == new
        elif new is not None:
            assert new.start_ms >= task.release_ms
            assert task.deadline_ms is not None
            assert new.end_ms <= task.deadline_ms


def test_more_is_on_time_than_by_list_rules() -> None:
    gained = 0
    for seed in range(12):
        case = Case.of(crowded(seed))
        best = max(rule_schedules(case, Budget(10**6)), key=lambda one: merit_of(case.board, one))
        found = replaced_nearby(case, best, 0, Budget(8_000))
        gained += len(best.missing()) - len(found.missing())

    assert gained >= 6
