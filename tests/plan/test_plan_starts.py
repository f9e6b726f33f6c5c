"""No job waits without a reason, and the reason is said: a job that ends, a quota, a calendar, a run time."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import replace

import pytest

from gpuyield.model.document import canonical_bytes
from gpuyield.model.job import Capacity, PlanJob, PlanObjective, Problem, QueueQuota, ResourceQuota
from gpuyield.model.plan import Plan, Run
from gpuyield.plan import make_plan, plan_document, plan_inputs
from gpuyield.verify import check
from plan.small import UNIT_MS, job, problem, random_problem


def why(plan: Plan) -> dict[str, str]:
    return {one.id: one.why for one in plan.jobs}


def loads(given: Problem, plan: Plan) -> dict[tuple[str, int], int]:
    """What is held of each resource in each unit, counted unit by unit."""
    held: dict[tuple[str, int], int] = defaultdict(int)
    for one in plan.jobs:
        if one.run is not None:
            demand = next(entry for entry in given.jobs if entry.id == one.id).shapes[one.run.shape].demand
            for unit in range(one.run.start_ms // UNIT_MS, -(-one.run.end_ms // UNIT_MS)):
                for resource, amount in demand.items():
                    held[resource, unit] += amount
    return held


def could_start_a_unit_earlier(given: Problem, plan: Plan, one: PlanJob, run: Run) -> bool:
    ends = [ran.run.end_ms for ran in plan.jobs if ran.id in one.after and ran.run is not None]
    start = run.start_ms // UNIT_MS - 1
    if start * UNIT_MS < max([0, one.release_ms, *ends]):
        return False
    held = loads(given, plan)
    return all(
        held[resource, start] + amount <= amount_in(given.capacity, resource, start)
        for resource, amount in one.shapes[run.shape].demand.items()
    )


def amount_in(capacity: Capacity, resource: str, unit: int) -> int:
    return [0, *(there for at, there in capacity.steps[resource] if at <= unit * UNIT_MS)][-1]


@pytest.mark.parametrize("objective", [PlanObjective.ON_TIME, PlanObjective.MAKESPAN])
def test_no_job_could_start_earlier_with_the_others_where_they_are(objective: PlanObjective) -> None:
    looked = 0
    for seed in range(60):
        given = replace(random_problem(seed, most_jobs=8), objective=objective)
        plan = make_plan(given, seed=seed, advise=False)
        by_id = {one.id: one for one in given.jobs}
        for one in plan.jobs:
            entry = by_id[one.id]
            if one.run is None or entry.started_ms is not None or entry.pinned_ms is not None or one.run.parts:
                continue
            looked += 1
            assert not could_start_a_unit_earlier(given, plan, entry, one.run), (seed, one.id)
    assert looked > 100


def test_a_job_that_waits_for_a_calendar_is_told_when_it_changes() -> None:
    given = replace(
        problem(job("wide", 4, 2, deadline=9)), capacity=Capacity(steps={"gpu": ((0, 2), (3 * UNIT_MS, 8))})
    )

    assert why(make_plan(given)) == {"wide": "Starts at 21:03, when there are 8 GPUs instead of 2; it needs 4."}


def test_a_job_that_waits_for_the_first_gpu_is_told_of_one() -> None:
    given = replace(problem(job("one", 1, 2, deadline=9)), capacity=Capacity(steps={"gpu": ((0, 0), (3 * UNIT_MS, 1))}))

    assert why(make_plan(given)) == {"one": "Starts at 21:03, when there is 1 GPU instead of 0; it needs 1."}


def test_a_job_that_waits_for_a_calendar_behind_others_is_told_both() -> None:
    jobs = (job("long", 2, 9, deadline=9), job("wide", 2, 2, release=1, deadline=9))
    given = replace(problem(*jobs), capacity=Capacity(steps={"gpu": ((0, 2), (3 * UNIT_MS, 4))}))

    assert why(make_plan(given))["wide"] == (
        "Starts at 21:03, when there are 4 GPUs instead of 2; before that there is no room for 2 GPUs."
    )


def test_a_job_that_its_quota_holds_back_is_told_which_and_who_frees_it() -> None:
    queues = tuple(
        QueueQuota(queue=name, cohort="all", resources={"gpu": ResourceQuota(nominal=nominal, borrow=0)})
        for name, nominal in (("evals", 4), ("train", 8))
    )
    first, second = (replace(job(name, 4, 2, deadline=9), queue="evals") for name in ("a", "b"))
    other = replace(job("other", 1, 2, deadline=9), queue="train")
    given = replace(problem(first, second, other, gpus=16), quotas=queues)

    said = why(make_plan(given))

    assert (
        said["b"] == "Starts at 21:02, when a ends; before that there is no room for 4 GPUs within the quota of evals."
    )
    assert said["other"] == "Starts at 21:00, as early as it may."


def test_a_job_that_its_cohort_holds_back_is_told_so() -> None:
    resources = {"gpu": ResourceQuota(nominal=2)}
    queues = tuple(QueueQuota(queue=name, cohort="all", resources=resources) for name in ("evals", "train"))
    jobs = [replace(job(name, 3, 2, deadline=9), queue=queue) for name, queue in (("a", "evals"), ("b", "train"))]

    said = why(make_plan(replace(problem(*jobs, gpus=16), quotas=queues)))
    assert said["b"] == "Starts at 21:02, when a ends; before that there is no room for 3 GPUs within cohort all."

    said = why(make_plan(replace(problem(*jobs, gpus=4), quotas=queues)))
    room = "there is no room for 3 GPUs in all and within cohort all"
    assert said["b"] == f"Starts at 21:02, when a ends; before that {room}."


def test_of_a_running_job_the_end_that_is_expected_is_said() -> None:
    plan = make_plan(problem(replace(job("runs", 1, 4, deadline=9), started_ms=-2 * UNIT_MS)))

    assert why(plan)["runs"] == "Running since 20:58, until 21:02 by its run time; it is not moved."
    assert plan.job("runs").slack_ms == 7 * UNIT_MS


def test_how_much_time_a_job_has_left_that_overran_is_not_known_and_said_first() -> None:
    over = replace(job("over", 1, 1, deadline=9), started_ms=-2 * UNIT_MS)
    given = problem(over, job("a", 1, 1, deadline=9))

    plan = make_plan(given)

    assert plan.job("over").slack_ms is None
    [line] = [line for line in plan.explanation if "over" in line]
    assert line == (
        "over has by its run time ended before the plan starts, and holds nothing in it: leave it out or, if it still "
        "runs, give it a longer run time."
    )
    document = json.loads(json.dumps(plan_document(given, plan)))
    assert check(document, canonical_bytes(plan_inputs(given))).accepted


def test_without_deadlines_nobody_speaks_of_deadlines() -> None:
    plan = make_plan(problem(job("a", 1, 2), job("b", 1, 2)))

    assert plan.explanation == (
        "No job has a deadline; the plan says when each one runs.",
        "1 GPU suffices to run every job, none of which has a deadline; starting everything at once would take 2.",
    )
