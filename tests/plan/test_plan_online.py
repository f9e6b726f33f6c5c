"""The policy that decides from day to day, replayed on made-up work and against a second, obvious simulation."""

from __future__ import annotations

import numpy as np
import pytest

from gpuyield.plan.instance.profile import NEVER
from gpuyield.plan.online.day_by_day import (
    NOT_PAUSED,
    Active,
    Decision,
    EarliestDeadline,
    FirstCome,
    LeastSlack,
    Policy,
)
from gpuyield.plan.online.replay import Submitted, replay
from gpuyield.units import MINUTE_MS

POOL = 8


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("restart", [NOT_PAUSED, 2 * MINUTE_MS])
def test_the_pool_is_never_exceeded_and_what_may_not_be_paused_runs_through(seed: int, restart: int) -> None:
    jobs = made_up(seed, 60, restart)
    watched = Watched(LeastSlack(), POOL)

    found = replay(jobs, POOL, watched, tick_ms=MINUTE_MS)

    ended = found.end_ms < NEVER
    assert watched.most_held <= POOL
    assert (restart != NOT_PAUSED) or watched.paused == 0
    assert (found.end_ms[ended] >= jobs.submit_ms[ended] + jobs.run_ms[ended]).all()
    assert (found.end_ms[ended] <= jobs.deadline_ms[ended]).all()


@pytest.mark.parametrize("seed", range(6))
def test_first_come_first_served_is_what_a_plain_walk_through_the_minutes_gives(seed: int) -> None:
    jobs = made_up(seed, 40, NOT_PAUSED)

    found = replay(jobs, POOL, FirstCome(), tick_ms=MINUTE_MS)

    assert found.end_ms.tolist() == walked(jobs)


def test_a_job_with_less_slack_takes_the_place_of_one_that_may_be_paused() -> None:
    jobs = submitted([(8, 100, 0, 1_000), (8, 10, 5, 20)], 3 * MINUTE_MS)

    found = replay(jobs, POOL, LeastSlack(), tick_ms=MINUTE_MS)

    assert (found.end_ms // MINUTE_MS).tolist() == [113, 15]
    assert found.pauses == 1


def test_a_job_that_can_no_longer_end_in_time_is_given_up_and_holds_nothing() -> None:
    jobs = submitted([(8, 100, 0, 50), (8, 10, 0, 20)], NOT_PAUSED)

    found = replay(jobs, POOL, LeastSlack(), tick_ms=MINUTE_MS)

    assert found.end_ms.tolist() == [NEVER, 10 * MINUTE_MS]


def test_gpus_are_kept_for_small_jobs_after_some_were_lost_to_large_ones() -> None:
    policy = LeastSlack()
    for _ in range(9):
        policy.submitted(1, MINUTE_MS)
    policy.submitted(6, 100 * MINUTE_MS)
    lost = active([(1, 1, 0), (1, 1, 0), (1, 1, 0), (1, 1, 0)])
    large = active([(7, 100, 500)])

    before = policy.decide(0, POOL, large)
    policy.decide(0, POOL, lost)
    after = policy.decide(0, POOL, large)

    assert (before.start, after.start) == ((0,), ())


def test_a_job_wider_than_the_pool_holds_nobody_up() -> None:
    jobs = submitted([(9, 10, 0, None), (8, 10, 0, None)], NOT_PAUSED)

    found = replay(jobs, POOL, FirstCome(), tick_ms=MINUTE_MS)

    assert found.end_ms.tolist() == [NEVER, 10 * MINUTE_MS]


def test_the_same_jobs_give_the_same_decisions() -> None:
    jobs = made_up(3, 80, 2 * MINUTE_MS)

    first, second = (replay(jobs, POOL, LeastSlack(), tick_ms=MINUTE_MS) for _ in range(2))

    assert first.end_ms.tolist() == second.end_ms.tolist()


def test_earliest_deadline_first_never_starts_what_is_hopeless() -> None:
    jobs = made_up(1, 60, NOT_PAUSED)

    found = replay(jobs, POOL, EarliestDeadline(), tick_ms=MINUTE_MS)

    ended = found.end_ms < NEVER
    assert (found.end_ms[ended] <= jobs.deadline_ms[ended]).all()


class Watched:
    """A policy whose decisions are added up by hand."""

    def __init__(self, policy: Policy, pool: int) -> None:
        self.policy, self.pool, self.most_held, self.paused = policy, pool, 0, 0

    def submitted(self, gpus: int, run_ms: int) -> None:
        self.policy.submitted(gpus, run_ms)

    def decide(self, now_ms: int, pool: int, active: Active) -> Decision:
        decision = self.policy.decide(now_ms, pool, active)
        running = set(np.flatnonzero(active.running).tolist())
        assert running.isdisjoint(decision.start)
        assert running.issuperset(decision.pause)
        after = (running | set(decision.start)) - set(decision.pause) - set(decision.give_up)
        self.most_held = max(self.most_held, sum(int(active.gpus[at]) for at in after))
        self.paused += len(decision.pause)
        return decision


def walked(jobs: Submitted) -> list[int]:
    """First come, first served, minute by minute."""
    ends: dict[int, int] = {}
    for minute in range(20_000):
        now = minute * MINUTE_MS
        free = POOL - sum(int(jobs.gpus[at]) for at, end in ends.items() if end > now)
        for at in sorted(range(len(jobs.gpus)), key=lambda at: (int(jobs.submit_ms[at]), at)):
            if at not in ends and jobs.submit_ms[at] <= now and jobs.gpus[at] <= free:
                ends[at] = now + int(jobs.run_ms[at])
                free -= int(jobs.gpus[at])
        if len(ends) == len(jobs.gpus):
            break
    return [ends[at] for at in range(len(jobs.gpus))]


def made_up(seed: int, count: int, restart_ms: int) -> Submitted:
    chance = np.random.default_rng(seed)
    rows = []
    for _ in range(count):
        run = int(chance.integers(1, 40))
        at = int(chance.integers(0, 120))
        rows.append((int(chance.integers(1, POOL + 1)), run, at, at + int(run * chance.uniform(1, 5))))
    return submitted(rows, restart_ms)


def submitted(rows: list[tuple[int, int, int, int]] | list[tuple[int, int, int, None]], restart_ms: int) -> Submitted:
    """Rows of GPUs, run time, submission and deadline, in minutes."""
    return Submitted(
        gpus=np.array([row[0] for row in rows], dtype=np.int64),
        run_ms=np.array([row[1] * MINUTE_MS for row in rows], dtype=np.int64),
        submit_ms=np.array([row[2] * MINUTE_MS for row in rows], dtype=np.int64),
        deadline_ms=np.array([NEVER if row[3] is None else row[3] * MINUTE_MS for row in rows], dtype=np.int64),
        restart_ms=np.full(len(rows), restart_ms, dtype=np.int64),
    )


def active(rows: list[tuple[int, int, int]]) -> Active:
    """Waiting jobs: rows of GPUs, run time and deadline, in minutes."""
    jobs = submitted([(gpus, run, 0, deadline) for gpus, run, deadline in rows], NOT_PAUSED)
    return Active(
        gpus=jobs.gpus,
        run_ms=jobs.run_ms,
        left_ms=jobs.run_ms,
        deadline_ms=jobs.deadline_ms,
        restart_ms=jobs.restart_ms,
        running=np.zeros(len(rows), dtype=np.bool_),
    )
