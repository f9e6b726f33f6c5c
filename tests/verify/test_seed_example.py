from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from gpuyield.verify import check
from verify.brute import UNIT_MS as HOUR_MS
from verify.documents import moment
from verify.problems import seal
from verify.seed import due_at_one, due_at_two, five_hours

Made = tuple[dict[str, Any], dict[str, Any]]


@pytest.mark.parametrize("make", [due_at_two, due_at_one, five_hours])
def test_the_seed_example_is_accepted_and_all_its_claims_are_vouched_for(make: Callable[[], Made]) -> None:
    report = check(*seal(*make()))

    assert report.refused == ()
    assert report.accepted
    assert "status" in report.vouched
    assert [one.claim for one in report.not_rechecked] == [
        "explanation, jobs[].why, jobs[].moved_because, jobs[].p_late, seed, engine"
    ]


def test_the_proof_of_the_infeasible_seed_vouches_for_its_ways_out() -> None:
    report = check(*seal(*due_at_one()))

    assert {
        "gpus.gpu.needed",
        "gpus.gpu.lower_bound",
        "relaxations[0].irreducible",
        "relaxations[1]",
        "relaxations[2].irreducible",
    } <= set(report.vouched)


Change = Callable[[dict[str, Any], dict[str, Any]], None]


def _status(document: dict[str, Any], inputs: dict[str, Any]) -> None:
    document["status"] = "feasible"


def _unknown(document: dict[str, Any], inputs: dict[str, Any]) -> None:
    document.update(status="unknown", stopped_because="budget")


def _no_certificate(document: dict[str, Any], inputs: dict[str, Any]) -> None:
    document["certificate"] = None


def _a_word_for_a_proof(document: dict[str, Any], inputs: dict[str, Any]) -> None:
    document.update(certificate=None, proof={"by": "cp-sat", "claim": "infeasible", "bound": None})


def _more_forced(document: dict[str, Any], inputs: dict[str, Any]) -> None:
    certificate = document["certificate"]
    certificate["jobs"][0]["forced_gpu_ms"] += 1
    certificate["required_gpu_ms"] += 1


def _one_more_gpu(document: dict[str, Any], inputs: dict[str, Any]) -> None:
    document["certificate"]["extra_gpus"] = 5


def _more_capacity(document: dict[str, Any], inputs: dict[str, Any]) -> None:
    inputs["capacity"]["gpu"][0][1] = 8


def _later_deadline(document: dict[str, Any], inputs: dict[str, Any]) -> None:
    inputs["jobs"][0]["deadline_ms"] += HOUR_MS
    document["jobs"][0].update(deadline=moment(inputs, 4 * HOUR_MS), slack_s=7200)


def _fewer_needed(document: dict[str, Any], inputs: dict[str, Any]) -> None:
    document["gpus"]["gpu"].update(needed=6, lower_bound=None)
    document["bounds"] = []


def _floor_too_high(document: dict[str, Any], inputs: dict[str, Any]) -> None:
    document["gpus"]["gpu"].update(needed=None, lower_bound=9)


def _reducible(document: dict[str, Any], inputs: dict[str, Any]) -> None:
    document["relaxations"][0]["amount"] = 5


def _too_little_added(document: dict[str, Any], inputs: dict[str, Any]) -> None:
    document["relaxations"][0].update(amount=3, irreducible=None)


def _moved_too_little(document: dict[str, Any], inputs: dict[str, Any]) -> None:
    document["relaxations"][1]["jobs"][0]["by_s"] = 3599


def _dropped_too_few(document: dict[str, Any], inputs: dict[str, Any]) -> None:
    document["relaxations"][2].update(jobs=["c"], irreducible=None)


def _planned_without_room(document: dict[str, Any], inputs: dict[str, Any]) -> None:
    document["jobs"][2].update(
        status="planned", segments=[[moment(inputs, HOUR_MS), moment(inputs, 3 * HOUR_MS)]], slack_s=0
    )


@pytest.mark.parametrize(
    ("change", "claim"),
    [
        (_status, "status"),
        (_unknown, "status"),
        (_no_certificate, "status"),
        (_a_word_for_a_proof, "status"),
        (_more_forced, "status"),
        (_one_more_gpu, "status"),
        (_more_capacity, "status"),
        (_later_deadline, "status"),
        (_fewer_needed, "gpus.gpu.needed"),
        (_floor_too_high, "gpus.gpu.lower_bound"),
        (_reducible, "relaxations[0].irreducible"),
        (_too_little_added, "relaxations[0]"),
        (_moved_too_little, "relaxations[1]"),
        (_dropped_too_few, "relaxations[2]"),
        (_planned_without_room, "jobs: capacity is never exceeded"),
    ],
)
def test_a_false_change_of_the_infeasible_seed_is_refused_at_its_claim(change: Change, claim: str) -> None:
    document, inputs = copy.deepcopy(due_at_one())
    change(document, inputs)

    report = check(*seal(document, inputs))

    assert claim in [one.claim for one in report.refused]


def test_the_digest_is_of_exactly_the_bytes() -> None:
    document, data = seal(*due_at_two())

    report = check(document, data + b"\n")

    assert [one.claim for one in report.refused] == ["inputs_digest"]
