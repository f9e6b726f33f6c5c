"""Chances of lateness against a second, obvious simulation, minute by minute."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
import pytest
from numpy.typing import NDArray

from gpuyield.model.job import Capacity, PlanJob, Problem, Shape
from gpuyield.model.plan import Run
from gpuyield.plan import make_plan
from gpuyield.plan.instance.profile import NEVER
from gpuyield.plan.kernel.lanes import compiled, plain
from gpuyield.plan.outlook.execution import late_in
from gpuyield.plan.outlook.risk import chances_of_lateness
from gpuyield.units import MINUTE_MS

Ints: TypeAlias = NDArray[np.int64]
Execute: TypeAlias = Callable[..., Any]

SPREAD = tuple(range(2 * MINUTE_MS, 13 * MINUTE_MS, MINUTE_MS // 2))


def test_a_job_alone_is_late_as_often_as_its_run_time_is_too_long() -> None:
    job = planned("a", 1, 7, deadline=9, spread=SPREAD)
    runs = {"a": Run(shape=0, start_ms=0, end_ms=7 * MINUTE_MS)}

    chance = chances_of_lateness(problem(4, [job]), runs, samples=4_000)["a"]

    # Evenly between 2 and 12.5 min: a third is longer than 9 min.
    assert abs(chance - Fraction(1, 3)) < Fraction(3, 100)


def test_a_job_that_runs_already_is_drawn_from_what_is_longer() -> None:
    job = planned("a", 1, 12, deadline=2, spread=SPREAD, started=-9)
    runs = {"a": Run(shape=0, start_ms=-9 * MINUTE_MS, end_ms=3 * MINUTE_MS)}

    chance = chances_of_lateness(problem(4, [job]), runs, samples=4_000)["a"]

    # It has run 9 min and lasts evenly up to 12.5: it is late beyond 11.
    assert abs(chance - Fraction(3, 7)) < Fraction(3, 100)


def test_a_job_behind_another_is_late_because_of_it() -> None:
    first = planned("a", 4, 7, spread=SPREAD)
    second = planned("b", 4, 5, deadline=14, spread=(5 * MINUTE_MS,) * 2)
    runs = {
        "a": Run(shape=0, start_ms=0, end_ms=7 * MINUTE_MS),
        "b": Run(shape=0, start_ms=7 * MINUTE_MS, end_ms=12 * MINUTE_MS),
    }

    chances = chances_of_lateness(problem(4, [first, second]), runs, samples=4_000)

    assert "a" not in chances
    assert abs(chances["b"] - Fraction(1, 3)) < Fraction(3, 100)


def test_nothing_is_said_where_no_run_time_is_known_to_vary() -> None:
    job = planned("a", 1, 7, deadline=9)

    assert chances_of_lateness(problem(4, [job]), {"a": Run(shape=0, start_ms=0, end_ms=7 * MINUTE_MS)}) == {}


@pytest.mark.parametrize("seed", range(4))
def test_the_same_as_carrying_the_plan_out_minute_by_minute(seed: int) -> None:
    whole = made_up(seed)
    runs = {one.id: one.run for one in make_plan(whole, advise=False).jobs if one.run is not None}

    found = chances_of_lateness(whole, runs, seed=seed, samples=10, execute=in_whole_minutes(late_in))
    walked = chances_of_lateness(whole, runs, seed=seed, samples=10, execute=in_whole_minutes(carried_out))

    assert found == walked
    assert found


def test_the_same_seed_gives_the_same_chances() -> None:
    whole = made_up(1)
    runs = {one.id: one.run for one in make_plan(whole, advise=False).jobs if one.run is not None}

    assert chances_of_lateness(whole, runs, seed=3) == chances_of_lateness(whole, runs, seed=3)


def in_whole_minutes(execute: Execute) -> Execute:
    """The same on run times that are rounded up to minutes."""

    def rounded(starts: Ints, lengths: Ints, *others: Ints) -> Ints:
        found: Ints = execute(starts, -(-lengths // MINUTE_MS) * MINUTE_MS, *others)
        return found

    return rounded


def carried_out(
    starts: Ints, lengths: Ints, demand: Ints, first: Ints, before: Ints, times: Ints, amounts: Ints, limits: Ints
) -> Ints:
    """Minute by minute, each piece in order, with everything added up anew."""
    late = np.zeros(len(starts), dtype=np.int64)
    for sample in range(len(lengths)):
        ends: dict[int, int] = {}
        for minute in range(400):
            now = minute * MINUTE_MS
            there = amounts[int(np.flatnonzero(times <= now)[-1])]
            for piece in range(len(starts)):
                waits_for = [int(one) for one in before[first[piece] : first[piece + 1]]]
                if piece in ends or starts[piece] > now or any(ends.get(one, now + 1) > now for one in waits_for):
                    continue
                held = sum((demand[one] for one, end in ends.items() if end > now), start=np.zeros_like(demand[0]))
                if ((demand[piece] == 0) | (held + demand[piece] <= there)).all():
                    ends[piece] = now + int(lengths[sample, piece])
            if len(ends) == len(starts):
                break
        for piece in range(len(starts)):
            late[piece] += ends.get(piece, NEVER + 1) > limits[piece]
    return late


def made_up(seed: int) -> Problem:
    """A few jobs on 8 GPUs of which 3 are away for a while, some in a chain, most with a known spread."""
    chance = np.random.default_rng(seed)
    jobs = []
    for at in range(12):
        run = int(chance.integers(2, 30))
        release = int(chance.integers(0, 40))
        spread = (
            tuple(int(run * part * MINUTE_MS) for part in (0.5, 0.8, 1.0, 1.1, 2.0)) if chance.random() < 0.8 else ()
        )
        job = planned(
            f"job-{at}",
            int(chance.integers(1, 6)),
            run,
            release=release,
            deadline=release + run + int(chance.integers(20, 90)),
            spread=spread if chance.random() < 0.8 else (),
            after=(f"job-{at - 1}",) if at and chance.random() < 0.3 else (),
        )
        jobs.append(job)
    steps = ((0, 8), (30 * MINUTE_MS, 5), (50 * MINUTE_MS, 8))
    return Problem(origin_ms=0, jobs=tuple(jobs), capacity=Capacity(steps={"gpu": steps}))


def problem(gpus: int, jobs: list[PlanJob]) -> Problem:
    return Problem(origin_ms=0, jobs=tuple(jobs), capacity=Capacity(steps={"gpu": ((0, gpus),)}))


def planned(
    name: str,
    gpus: int,
    run: int,
    *,
    release: int = 0,
    deadline: int | None = None,
    spread: tuple[int, ...] = (),
    started: int | None = None,
    after: tuple[str, ...] = (),
) -> PlanJob:
    """A job; times in minutes, the spread in ms."""
    return PlanJob(
        id=name,
        shapes=(Shape(demand={"gpu": gpus}, duration_ms=run * MINUTE_MS),),
        release_ms=release * MINUTE_MS,
        deadline_ms=None if deadline is None else deadline * MINUTE_MS,
        started_ms=None if started is None else started * MINUTE_MS,
        spread_ms=spread,
        after=after,
    )


def test_both_lanes_carry_a_plan_out_alike() -> None:
    whole = made_up(2)
    runs = {one.id: one.run for one in make_plan(whole, advise=False).jobs if one.run is not None}

    slow, fast = (chances_of_lateness(whole, runs, execute=lane["late_in"]) for lane in (plain(), compiled()))

    assert slow == fast
