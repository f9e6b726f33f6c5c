"""Queue quotas are Kueue's: nominal and borrowed, lent inside a cohort; plans keep them and proofs rest on them."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import product
from typing import Any

import pytest

from gpuyield.errors import PlanError
from gpuyield.model.document import canonical_bytes, inputs_digest
from gpuyield.model.job import PlanJob, Problem, QueueQuota, ResourceQuota
from gpuyield.model.plan import Plan, PlanStatus
from gpuyield.plan import make_plan, plan_document, plan_inputs
from gpuyield.verify import check
from gpuyield.verify.report import Report
from plan.small import UNIT_MS, job, problem


def queue(name: str, nominal: int, *, cohort: str | None = "eu", **limits: int | None) -> QueueQuota:
    """A queue with a quota of `gpu`."""
    return QueueQuota(queue=name, cohort=cohort, resources={"gpu": ResourceQuota(nominal=nominal, **limits)})


def in_queue(name: str, one: PlanJob) -> PlanJob:
    return replace(one, queue=name)


def checked(asked: Problem, plan: Plan) -> Report:
    document = json.loads(json.dumps(plan_document(asked, plan)))
    return check(document, canonical_bytes(plan_inputs(asked)))


def starts(plan: Plan) -> dict[str, int | None]:
    return {one.id: None if one.run is None else one.run.start_ms // UNIT_MS for one in plan.jobs}


def test_a_queue_without_a_cohort_keeps_its_nominal_quota() -> None:
    jobs = [in_queue("a", job(name, 2, 1)) for name in ("x", "y")]
    asked = replace(problem(*jobs, gpus=8), quotas=(queue("a", 3, cohort=None),))

    plan = make_plan(asked)

    assert sorted(starts(plan).values(), key=str) == [0, 1]
    assert checked(asked, plan).accepted


def test_a_queue_borrows_what_its_cohort_does_not_use_up_to_its_limit() -> None:
    jobs = [in_queue("a", job(name, 1, 1)) for name in ("x", "y", "z")]
    asked = replace(problem(*jobs, gpus=8), quotas=(queue("a", 1, borrow=1), queue("b", 4)))

    plan = make_plan(asked)

    assert sorted(starts(plan).values(), key=str) == [0, 0, 1]
    assert checked(asked, plan).accepted


def test_what_a_queue_does_not_lend_stays_its_own() -> None:
    jobs = [in_queue("a", job(name, 1, 1, deadline=1)) for name in ("x", "y", "z")]
    asked = replace(problem(*jobs, gpus=8), quotas=(queue("a", 1), queue("b", 4, lend=1)))

    plan = make_plan(asked)

    assert plan.status is PlanStatus.INFEASIBLE
    assert plan.certificate is not None
    assert plan.certificate["resource"] == "lending/eu/b/gpu"
    assert any("of cohort eu without b" in one for one in plan.explanation)
    assert checked(asked, plan).accepted


def test_a_gpu_resource_outside_the_quota_of_a_queue_is_not_for_it() -> None:
    asked = replace(problem(in_queue("a", job("x", 1, 1, deadline=5))), quotas=(QueueQuota(queue="a", resources={}),))

    plan = make_plan(asked)

    assert plan.status is PlanStatus.INFEASIBLE
    assert plan.explanation[0] == (
        "x is impossible: it needs 1 GPU of the quota of a at once, and no more than 0 last long enough."
    )
    assert checked(asked, plan).accepted


def test_a_calendar_of_quotas_holds_jobs_back_until_there_is_quota() -> None:
    night = QueueQuota(queue="a", resources={"gpu": ResourceQuota(nominal=((0, 0), (3 * UNIT_MS, 2)))})
    asked = replace(problem(in_queue("a", job("x", 2, 1))), quotas=(night,))

    plan = make_plan(asked)

    assert starts(plan) == {"x": 3}
    assert "within the quota of a" in plan.job("x").why
    assert checked(asked, plan).accepted


def test_a_queue_without_quotas_and_odd_names_are_mistakes_all_at_once() -> None:
    asked = replace(
        problem(in_queue("nowhere", job("x", 1, 1))), quotas=(queue("a/b", 1), queue("a", -1), queue("a", 1))
    )

    with pytest.raises(PlanError) as raised:
        make_plan(asked)

    said = " ".join(one.what for one in raised.value.mistakes)
    assert all(part in said for part in ('"nowhere" has no quotas', '"a/b" has a "/"', "twice", "not between 0"))


def test_seven_lending_limits_in_one_cohort_are_too_many() -> None:
    asked = replace(problem(job("x", 1, 1)), quotas=tuple(queue(f"q{at}", 2, lend=1) for at in range(7)))

    with pytest.raises(PlanError, match="7 queues of cohort eu have a lending limit on gpu"):
        make_plan(asked)


def test_verify_refuses_a_plan_that_holds_more_than_a_quota() -> None:
    jobs = [in_queue("a", job(name, 2, 1)) for name in ("x", "y")]
    asked = replace(problem(*jobs, gpus=8), quotas=(queue("a", 3, cohort=None),))
    free = replace(asked, quotas=())
    document = plan_document(free, make_plan(free))
    inputs = plan_inputs(asked)
    document["inputs_digest"] = plan_document(asked, make_plan(asked))["inputs_digest"]

    report = check(json.loads(json.dumps(document)), canonical_bytes(inputs))

    assert any("quotas are kept" in str(one) for one in report.refused)


def test_the_status_under_random_quotas_is_that_of_trying_everything() -> None:
    for seed in range(120):
        asked = random_quotas(random.Random(f"quotas {seed}"))

        plan = make_plan(asked)

        truth = can_keep_all(asked)
        assert plan.status in ((PlanStatus.OPTIMAL, PlanStatus.FEASIBLE) if truth else (PlanStatus.INFEASIBLE,)), seed
        report = checked(asked, plan)
        assert report.accepted, (seed, report.refused)


def test_verify_refuses_every_plan_that_breaks_a_quota_when_starts_or_quotas_are_changed() -> None:
    broken = 0
    for seed in range(400):
        chance = random.Random(f"changed {seed}")
        asked = random_quotas(chance)
        plan = make_plan(asked, advise=False)
        if any(one.run is None for one in plan.jobs):
            continue
        document, begins = plan_document(asked, plan), starts(plan)
        moved, by = chance.choice(document["jobs"]), chance.choice([-1, 1, 2])
        begins[moved["id"]] = (begins[moved["id"]] or 0) + by
        _move(moved, by)
        if chance.random() < 0.5:
            asked = replace(asked, quotas=tuple(_smaller(one) for one in asked.quotas))
        document["inputs_digest"] = inputs_digest(canonical_bytes(plan_inputs(asked)))

        report = check(json.loads(json.dumps(document)), canonical_bytes(plan_inputs(asked)))

        if not keeps(asked, {name: at or 0 for name, at in begins.items()}):
            broken += 1
            assert not report.accepted, seed
    assert broken > 50


def _move(moved: dict[str, Any], by: int) -> None:
    shift = timedelta(minutes=by)
    moved["segments"] = [
        [(datetime.fromisoformat(at) + shift).strftime("%Y-%m-%dT%H:%M:%SZ") for at in segment]
        for segment in moved["segments"]
    ]
    moved["slack_s"] -= 60 * by


def _smaller(one: QueueQuota) -> QueueQuota:
    quota = one.resources["gpu"]
    assert isinstance(quota.nominal, int)
    nominal = max(0, quota.nominal - 1)
    lend = None if quota.lend is None else min(nominal, int(str(quota.lend)))
    return replace(one, resources={"gpu": replace(quota, nominal=nominal, lend=lend)})


def random_quotas(chance: random.Random) -> Problem:
    """Up to five jobs of three queues on four GPUs; every figure is small."""
    jobs = []
    for number in range(chance.randint(2, 5)):
        length, release = chance.randint(1, 2), chance.randint(0, 1)
        end = release + length + chance.randint(0, 2)
        one = job(f"j{number}", chance.randint(1, 2), length, release=release, deadline=end)
        jobs.append(in_queue(chance.choice("abc"), one))
    queues = []
    for name in "abc":
        nominal = chance.randint(0, 2)
        queues.append(
            queue(
                name,
                nominal,
                cohort=chance.choice(["eu", "eu", "eu", None]),
                lend=None if chance.random() < 0.4 else chance.randint(0, nominal),
            )
        )
    queues = [
        replace(one, resources={"gpu": replace(one.resources["gpu"], borrow=1)})
        if one.cohort and chance.random() < 0.4
        else one
        for one in queues
    ]
    return replace(problem(*jobs, gpus=4), quotas=tuple(queues))


def can_keep_all(asked: Problem) -> bool:
    """Whether some starts meet all deadlines, capacity and quotas: every combination is tried."""
    ranges = []
    for one in asked.jobs:
        assert one.deadline_ms is not None
        last = (one.deadline_ms - one.shapes[0].duration_ms) // UNIT_MS
        ranges.append(range(one.release_ms // UNIT_MS, last + 1))
    return any(keeps(asked, dict(zip((one.id for one in asked.jobs), each, strict=True))) for each in product(*ranges))


def keeps(asked: Problem, begins: Mapping[str, int]) -> bool:
    """Kueue's rule, unit by unit."""
    for unit in range(8):
        held: dict[str, int] = {}
        for one in asked.jobs:
            if begins[one.id] <= unit < begins[one.id] + one.shapes[0].duration_ms // UNIT_MS:
                assert one.queue is not None
                held[one.queue] = held.get(one.queue, 0) + one.shapes[0].demand["gpu"]
        if sum(held.values()) > 4:
            return False
        borrowed = lent = 0
        for one_queue in asked.quotas:
            quota, use = one_queue.resources["gpu"], held.get(one_queue.queue, 0)
            assert isinstance(quota.nominal, int)
            if one_queue.cohort is None:
                if use > quota.nominal:
                    return False
                continue
            if quota.borrow is not None and use > quota.nominal + int(str(quota.borrow)):
                return False
            lend = quota.nominal if quota.lend is None else int(str(quota.lend))
            borrowed += max(0, use - (quota.nominal - lend))
            lent += lend
        if borrowed > lent:
            return False
    return True
