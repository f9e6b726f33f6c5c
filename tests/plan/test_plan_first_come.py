"""First come, first served against a plain walk through the minutes; canonical inputs read back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuyield.model.job import Problem, Shape
from gpuyield.plan import plan_inputs
from gpuyield.plan.instance.board import Board, arrange
from gpuyield.plan.instance.first_come import first_come, met
from gpuyield.plan.instance.restored import problem_of
from plan.small import UNIT_MS, random_problem


@pytest.mark.parametrize("seed", range(40))
def test_first_come_first_served_is_what_a_plain_walk_gives(seed: int) -> None:
    problem = random_problem(seed, most_jobs=8)

    found = first_come(problem)

    assert {name: (run.start_ms, run.end_ms) for name, run in found.items()} == walked(problem)


@pytest.mark.parametrize("seed", range(40))
def test_canonical_inputs_read_back_are_the_same_inputs(seed: int) -> None:
    problem = random_problem(seed, most_jobs=8)

    again = problem_of(plan_inputs(problem))

    assert plan_inputs(again) == plan_inputs(replace(problem, sources=()))


def test_a_job_that_never_fits_misses_its_deadline_and_holds_nobody_up() -> None:
    problem = random_problem(0, most_jobs=8)
    wide = replace(problem.jobs[0], id="wide", shapes=tuple(_wider(shape) for shape in problem.jobs[0].shapes))
    with_wide = replace(problem, jobs=(*problem.jobs, replace(wide, started_ms=None, pinned_ms=None, after=())))

    found = first_come(with_wide)

    assert "wide" not in found
    assert found == first_come(problem)
    assert met(with_wide, found)[0] == met(problem, found)[0]


def _wider(shape: Shape) -> Shape:
    return replace(shape, demand=dict.fromkeys(shape.demand, 1_000))


def walked(problem: Problem) -> dict[str, tuple[int, int]]:
    """Unit by unit, in order of release, each job in the first of its shapes that fits."""
    board = arrange(problem)
    spans: dict[int, tuple[int, int, int]] = {}
    for unit in range(200):
        now = unit * UNIT_MS
        for task in sorted(board.tasks, key=lambda task: (task.fixed_ms is None, task.release_ms, task.index)):
            comes = task.release_ms if task.fixed_ms is None else max(0, task.fixed_ms)
            ended = all(one in spans and spans[one][1] <= now for one in task.before)
            if task.index in spans or comes > now or not ended:
                continue
            for at, mode in enumerate(task.modes):
                if task.fixed_ms is not None or _fits(board, spans, mode.demand, now):
                    start = now if task.fixed_ms is None else task.fixed_ms
                    spans[task.index] = (start, start + mode.duration_ms, at)
                    break
    return {board.tasks[at].job.id: (start, end) for at, (start, end, _) in spans.items()}


def _fits(board: Board, spans: dict[int, tuple[int, int, int]], demand: tuple[tuple[int, int], ...], now: int) -> bool:
    for resource, amount in demand:
        there = next((level for at, level in reversed(board.steps[resource]) if at <= now), 0)
        held = sum(
            board.tasks[at].modes[mode].amount(resource)
            for at, (start, end, mode) in spans.items()
            if start <= now < end
        )
        if held + amount > there:
            return False
    return True
