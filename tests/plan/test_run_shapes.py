"""In which shapes, and for how long, the jobs of a cluster are planned."""

from __future__ import annotations

import pytest

from gpuyield.account import ObservedJob
from gpuyield.model.declaration import BatchFamily, Selector
from gpuyield.model.job import Capacity, Shape
from gpuyield.steps.past_runs import durations_of
from gpuyield.steps.promises import Promised, Promises
from gpuyield.steps.run_shapes import longest_runs, own_shape, usual_shapes, with_declared
from gpuyield.units import HOUR_MS, MINUTE_MS

CAPACITY = Capacity(steps={"gpu/a100": ((0, 4),), "gpu/h100": ((0, 8),)})
SEEN = Shape(flavor="h100", demand={"gpu/h100": 4}, duration_ms=2 * HOUR_MS)


def family(*, gpus: int | None = None, **durations_ms: int) -> BatchFamily:
    anywhere = durations_ms.pop("anywhere", None)
    selector = Selector(namespace="search")
    return BatchFamily(name="tune", selector=selector, gpus=gpus, duration_ms=anywhere, durations_ms=durations_ms)


def job(name: str, *, run_ms: int, ended: bool = True) -> ObservedJob:
    return ObservedJob(
        namespace="search",
        name=name,
        workload=name,
        team="search",
        gpus=4,
        flavor="h100",
        created_ms=0,
        started_ms=0,
        ended_ms=run_ms if ended else None,
        run_ms=run_ms,
    )


def of_family(*jobs: ObservedJob) -> Promises:
    return Promises(
        jobs={
            (one.namespace, one.name): Promised(
                workload=one.workload,
                team=one.team,
                family="tune",
                deadline=None,
                due=None,
                created_ms=0,
                completed_ms=None,
                deadline_ms=None,
                due_ms=None,
            )
            for one in jobs
        }
    )


def test_a_job_may_run_on_the_other_flavors_that_its_family_declares() -> None:
    slower = Shape(flavor="a100", demand={"gpu/a100": 4}, duration_ms=5 * HOUR_MS)

    assert with_declared(SEEN, family(gpus=2, h100=HOUR_MS, a100=5 * HOUR_MS), CAPACITY) == (SEEN, slower)
    assert with_declared(SEEN, family(anywhere=5 * HOUR_MS), CAPACITY) == (SEEN, slower)


def test_a_flavor_that_the_cluster_lacks_is_no_shape() -> None:
    assert with_declared(SEEN, family(b200=HOUR_MS), CAPACITY) == (SEEN,)


def test_what_was_never_seen_to_end_runs_as_declared() -> None:
    declared = Shape(flavor="h100", demand={"gpu/h100": 2}, duration_ms=HOUR_MS)

    assert with_declared(None, family(gpus=2, h100=HOUR_MS), CAPACITY) == (declared,)
    assert with_declared(None, family(h100=HOUR_MS), CAPACITY) == ()


def test_without_a_family_a_job_runs_as_it_was_seen() -> None:
    assert with_declared(SEEN, None, CAPACITY) == (SEEN,)
    assert with_declared(None, None, CAPACITY) == ()


def test_a_running_job_is_measured_by_the_runs_of_its_family_that_ended() -> None:
    jobs = (job("tune-1", run_ms=HOUR_MS), job("tune-2", run_ms=3 * HOUR_MS))
    running = job("tune-3", run_ms=9 * MINUTE_MS, ended=False)

    longest = longest_runs((*jobs, running), of_family(*jobs, running))

    assert longest == {"tune": 3 * HOUR_MS, "tune-1": HOUR_MS, "tune-2": 3 * HOUR_MS}


@pytest.mark.parametrize("minutes", [9, 600])
def test_the_time_that_a_running_job_has_run_so_far_is_no_run_time(minutes: int) -> None:
    ended = job("tune-1", run_ms=HOUR_MS)
    running = job("tune-2", run_ms=minutes * MINUTE_MS, ended=False)

    promises = of_family(ended, running)
    usual = usual_shapes((ended, running), promises, durations_of((ended, running), promises))

    assert own_shape(running) is None
    assert usual["tune"].duration_ms == HOUR_MS
    assert "tune-2" not in usual


def test_a_family_with_runs_enough_is_planned_for_as_long_as_most_of_them_took() -> None:
    jobs = tuple(job(f"tune-{at}", run_ms=at * HOUR_MS) for at in range(1, 10))
    promises = of_family(*jobs)

    usual = usual_shapes(jobs, promises, durations_of(jobs, promises))

    assert usual["tune"].duration_ms == durations_of(jobs, promises).families["tune"].planned_ms
    assert usual["tune"].duration_ms > 5 * HOUR_MS
