"""Running and pinned jobs that do not fit beside each other are a mistake that names them, never jobs given up."""

from __future__ import annotations

from dataclasses import replace

from gpuyield.model.job import Capacity, PlanJob, PlanObjective, Problem, QueueQuota, ResourceQuota, Shape
from gpuyield.plan import clashes, make_plan
from plan.small import UNIT_MS, job, problem


def started(one: PlanJob, at: int) -> PlanJob:
    return replace(one, started_ms=at * UNIT_MS)


def pinned(one: PlanJob, at: int) -> PlanJob:
    return replace(one, pinned_ms=at * UNIT_MS)


def said(given: Problem) -> list[str]:
    return [str(one) for one in clashes(given)]


def test_pinned_jobs_that_clash_are_named_with_what_when_and_how_to_mend_it() -> None:
    given = problem(pinned(job("one", 3, 2), 0), pinned(job("two", 3, 2), 1), job("a", 1, 2, deadline=4))

    [line] = said(given)

    assert line == (
        "jobs one and two: they are pinned, never moved, and need 6 GPUs together at 21:01, where 4 exist. "
        "Move a pinned_start, or correct a run time or the capacity."
    )


def test_running_jobs_that_hold_more_than_exists_are_told_what_to_leave_out() -> None:
    given = problem(started(job("b", 3, 5), -1), started(job("a", 2, 5), -2), pinned(job("c", 1, 1), 9))

    [line] = said(given)

    assert line == (
        "jobs a and b: they run, never moved, and need 5 GPUs together at 21:00, where 4 exist. "
        "Leave out what has ended, or correct a run time, a started_at or the capacity."
    )


def test_each_span_that_is_overloaded_is_one_mistake() -> None:
    early = [pinned(job(f"early-{at}", 3, 2), at) for at in range(3)]
    late = [pinned(job(f"late-{at}", 4, 2), 9) for at in range(2)]

    assert [line.partition(":")[0] for line in said(problem(*early, *late))] == [
        "jobs early-0 and early-1",
        "jobs late-0 and late-1",
    ]


def test_what_no_plan_has_to_hold_at_that_instant_is_no_clash() -> None:
    other = PlanJob(
        id="either",
        shapes=tuple(Shape(demand={name: 4}, duration_ms=UNIT_MS) for name in ("gpu/a100", "gpu/h100")),
        pinned_ms=0,
    )
    fixed = replace(other, id="h100", shapes=other.shapes[1:])
    capacity = Capacity(steps={"gpu/a100": ((0, 4),), "gpu/h100": ((0, 4),)})

    assert not said(replace(problem(other, fixed), capacity=capacity))
    assert not said(problem(pinned(job("first", 4, 2), 0), pinned(job("then", 4, 2), 2)))
    assert not said(problem(pinned(job("fits", 3, 2), 0), replace(pinned(job("paused", 3, 2), 0), restart_ms=0)))
    assert not said(problem(pinned(job("fits", 3, 2), 0), pinned(job("wide", 9, 2), 0)))
    assert not said(problem(pinned(job("fits", 3, 2), 0), started(job("over", 3, 2), -2)))


def test_the_resource_that_is_to_be_counted_may_be_short() -> None:
    given = problem(pinned(job("one", 3, 2), 0), pinned(job("two", 3, 2), 1), objective=PlanObjective.FEWEST_GPUS)

    assert not said(given)
    assert make_plan(given).objective.value == 6


def test_a_clash_within_a_quota_names_the_queue() -> None:
    fixed = [replace(pinned(job(name, 2, 2), 0), queue="evals") for name in ("one", "two")]
    quota = QueueQuota(queue="evals", resources={"gpu": ResourceQuota(nominal=2)})

    [line] = said(replace(problem(*fixed, gpus=8), quotas=(quota,)))

    assert "need 4 GPUs of the quota of evals together at 21:00, where 2 exist." in line
