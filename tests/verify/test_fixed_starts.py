"""Fixed starts before the origin: no proof may rest on what is over, nor forget that such a job can be on time."""

from __future__ import annotations

from typing import Any

from gpuyield.verify import Report, check
from verify.brute import UNIT_MS as HOUR_MS
from verify.problems import seal
from verify.seed import plan, planned, seed_inputs


def inputs_of(*jobs: dict[str, Any]) -> dict[str, Any]:
    """Jobs a, b ... of 2 GPUs on 4; each dictionary replaces fields of one."""
    inputs = seed_inputs(8, names="abcdefgh"[: len(jobs)])
    for job, changed in zip(inputs["jobs"], jobs, strict=True):
        job.update(changed)
    return inputs


def shape(gpus: int, hours: int) -> dict[str, Any]:
    return {"shapes": [{"flavor": None, "demand": {"gpu": gpus}, "duration_ms": hours * HOUR_MS}]}


def infeasible(inputs: dict[str, Any], certificate: dict[str, Any], *kept: tuple[str, int, int]) -> Report:
    """The report on a document that says infeasible by this certificate and runs only the kept jobs."""
    runs = {name: (low, high) for name, low, high in kept}
    jobs = [
        planned(inputs, job["id"], runs[job["id"]])
        if job["id"] in runs
        else planned(inputs, job["id"], status="dropped")
        for job in inputs["jobs"]
    ]
    document = plan(inputs, jobs, status="infeasible", stopped_because="proven", certificate=certificate)
    return check(*seal(document, inputs))


def reasons(report: Report, claim: str) -> list[str]:
    return [one.reason for one in report.refused if one.claim == claim]


def test_jobs_that_were_over_by_the_origin_never_exclude_each_other() -> None:
    inputs = inputs_of(shape(3, 2) | {"started_ms": -5 * HOUR_MS}, shape(3, 3) | {"started_ms": -4 * HOUR_MS})
    order = {"split": "order", "first": "a", "second": "b"}
    certificate = {"kind": "search", "branches": [order, *[{"closed": "impossible", "id": "a"}] * 2]}

    report = infeasible(inputs, certificate, ("a", -5, -3))

    assert reasons(report, "status") == ['branches[0]: "a" and "b" may run at once.']


def test_an_impossible_job_that_nothing_hard_rests_on_proves_nothing() -> None:
    inputs = inputs_of(shape(6, 1) | {"deadline_ms": None}, {})
    certificate = {"kind": "impossible", "jobs": [{"id": "a", "reason": "too-wide", "need": 6, "have": 4}]}
    jobs = [planned(inputs, "a", status="impossible"), planned(inputs, "b", status="dropped")]
    document = plan(inputs, jobs, status="infeasible", stopped_because="proven", certificate=certificate)
    document["on_time"] = {"weighted": 0.0, "jobs": 0.0, "gpu_time": 0.0}

    report = check(*seal(document, inputs))

    assert "no deadline and no fixed start rests on" in " ".join(reasons(report, "status"))


def test_a_started_job_that_was_given_up_is_still_taken_to_have_been_able_to_end_in_time() -> None:
    """Four hours from three hours before the origin on end after one hour, in time: no tree may say that it misses."""
    inputs = inputs_of(shape(2, 4) | {"started_ms": -3 * HOUR_MS, "deadline_ms": 2 * HOUR_MS})
    tree = {
        "kind": "search",
        "branches": [
            {"split": "on-time", "id": "a"},
            {"closed": "impossible", "id": "a"},
            {"closed": "weight"},
        ],
    }
    document = plan(inputs, [planned(inputs, "a", status="dropped")], status="unknown", stopped_because="budget")
    document["objective"] = {"name": "on-time", "value": 0.0, "bound": 0.0, "gap": 0.0}
    document["on_time"] = {"weighted": 0.0, "jobs": 0.0, "gpu_time": 0.0}
    document["bounds"] = [{"claim": "objective.bound", "certificate": tree}]

    report = check(*seal(document, inputs))

    assert reasons(report, "objective.bound") == [
        'bounds[0] does not prove it: branches[1]: "a" still has a usable shape.'
    ]


def test_a_fixed_job_without_a_deadline_is_not_given_up_in_a_feasible_plan() -> None:
    pinned = shape(4, 2) | {"pinned_ms": 0, "deadline_ms": None}
    inputs = inputs_of(pinned, pinned)
    document = plan(inputs, [planned(inputs, "a", (0, 2)), planned(inputs, "b", status="dropped")], status="feasible")

    report = check(*seal(document, inputs))

    assert reasons(report, "status") == ["It is feasible, and a hard deadline is given up."]
