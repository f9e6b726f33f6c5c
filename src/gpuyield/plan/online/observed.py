"""What if the jobs that were seen had deadlines: the GPUs needed when each may finish within so long.

Nobody declared a deadline here, so the answer is conditional: a row per promise, each with its plan and its floor.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import time
from zoneinfo import ZoneInfo

from gpuyield.model.job import Capacity, PlanJob, PlanObjective, Problem
from gpuyield.model.plan import ObservedRow
from gpuyield.plan.case import Case
from gpuyield.plan.instance.budget import never
from gpuyield.plan.make import make_plan
from gpuyield.units import HOUR_MS, MINUTE_MS, next_local_clock

MORNING = time(8)
ROW_WORK = 120_000
"""Placements per row, at least this; a few passes over all jobs in any case."""
PASSES = 16

Promise = Callable[[int], int]


def observed_table(
    jobs: Sequence[PlanJob],
    capacity: Capacity,
    *,
    origin_ms: int,
    zone: str,
    seed: int = 0,
    should_stop: Callable[[], bool] = never,
) -> list[ObservedRow]:
    """The rows `1h`, `8h`, `by 08:00` and `24h`: GPUs needed if every observed job may finish in that time.

    `jobs` carry release = submission and duration = as run, in ms from `origin_ms`, and no deadline; nothing of them
    is fixed. Jobs that cannot finish in that time even alone are counted and left out of a row's figures.

    Raises:
        PlanError: A job cannot be planned.
    """
    promises: list[tuple[str, Promise]] = [
        ("1h", lambda release: release + HOUR_MS),
        ("8h", lambda release: release + 8 * HOUR_MS),
        ("by 08:00", _by_morning(origin_ms, zone)),
        ("24h", lambda release: release + 24 * HOUR_MS),
    ]
    return [
        _row(
            name,
            observed_problem(jobs, capacity, promise, origin_ms=origin_ms, zone=zone),
            seed,
            should_stop,
        )
        for name, promise in promises
    ]


def observed_problem(
    jobs: Sequence[PlanJob], capacity: Capacity, promise: Promise, *, origin_ms: int, zone: str
) -> Problem:
    """The observed jobs with the deadlines that a promise gives them.

    The problem starts with the earliest of them; what exists at `origin_ms` is taken to have existed since then.
    """
    shift = min([0, *(job.release_ms for job in jobs)]) // MINUTE_MS * MINUTE_MS
    moved = tuple(
        replace(
            job,
            release_ms=job.release_ms - shift,
            deadline_ms=promise(job.release_ms) - shift,
            due_ms=None,
            started_ms=None,
            pinned_ms=None,
        )
        for job in jobs
    )
    steps = {
        name: tuple(
            (0 if not at and from_ms <= 0 else from_ms - shift, amount) for at, (from_ms, amount) in enumerate(one)
        )
        for name, one in capacity.steps.items()
    }
    return Problem(
        origin_ms=origin_ms + shift,
        jobs=moved,
        capacity=Capacity(steps=steps),
        objective=PlanObjective.ON_TIME,
        zone=zone,
    )


def _by_morning(origin_ms: int, zone: str) -> Promise:
    local = ZoneInfo(zone)
    return lambda release: next_local_clock(origin_ms + release, MORNING, local) - origin_ms


def _row(name: str, problem: Problem, seed: int, should_stop: Callable[[], bool]) -> ObservedRow:
    case = Case.of(problem)
    hopeless = {case.board.tasks[one.task].job.id for one in case.impossible}
    kept = tuple(
        replace(job, after=tuple(one for one in job.after if one not in hopeless))
        for job in problem.jobs
        if job.id not in hopeless
    )
    work = max(ROW_WORK, PASSES * len(kept))
    plan = make_plan(
        replace(problem, jobs=kept), seed=seed, work=work, should_stop=should_stop, advise=False, bound=False
    )
    needed = [need.needed for need in plan.gpus]
    floors = [need.lower_bound for need in plan.gpus]
    return ObservedRow(
        finish_within=name,
        gpus_needed=None if not needed or None in needed else sum(one for one in needed if one is not None),
        lower_bound=None if not floors or None in floors else sum(one for one in floors if one is not None),
        impossible=len(hopeless),
        plan=plan,
    )
