"""The seed example: one night, four GPUs. Golden documents, and what they say."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from gpuyield.declare.problem import read_problem
from gpuyield.model.document import canonical_bytes
from gpuyield.model.job import Problem
from gpuyield.plan import make_plan, plan_document, plan_inputs
from gpuyield.units import parse_instant
from gpuyield.verify import check

SEED = Path(__file__).parents[2] / "examples" / "seed"
CASES = ("jobs-0200", "jobs-0100", "jobs-5h")


def seed_problem(name: str) -> Problem:
    problem = read_problem(
        SEED / f"{name}.yaml",
        capacity=SEED / "capacity.json",
        now_ms=parse_instant("2026-11-30T20:00:00Z"),
        zone=ZoneInfo("Europe/Berlin"),
    )
    sources = tuple(replace(one, path=Path(one.path).name) for one in problem.sources)
    return replace(problem, sources=sources)


def answer(name: str) -> dict[str, Any]:
    problem = seed_problem(name)
    return plan_document(problem, make_plan(problem))


@pytest.mark.parametrize("name", CASES)
def test_the_seed_gives_the_golden_document_byte_for_byte(name: str) -> None:
    problem = seed_problem(name)

    document = plan_document(problem, make_plan(problem))

    golden = (SEED / f"{name}.plan.json").read_text()
    assert json.dumps(document, indent=2, ensure_ascii=False) + "\n" == golden
    assert canonical_bytes(plan_inputs(problem)) == (SEED / f"{name}.plan.inputs.json").read_bytes()


@pytest.mark.parametrize("name", CASES)
def test_verify_accepts_the_golden_document(name: str) -> None:
    document = json.loads((SEED / f"{name}.plan.json").read_text())

    report = check(document, (SEED / f"{name}.plan.inputs.json").read_bytes())

    assert not report.refused
    assert report.accepted


def test_due_at_two_four_gpus_are_needed_and_two_jobs_start_at_midnight() -> None:
    document = answer("jobs-0200")

    starts = [job["segments"][0][0] for job in document["jobs"]]
    assert starts == ["2026-11-30T21:00:00Z"] * 2 + ["2026-11-30T23:00:00Z"] * 2
    assert document["status"] == "optimal"
    assert document["gpus"]["gpu"] == {"available": 4, "needed": 4, "lower_bound": 4}
    assert document["peak_if_started_at_once"] == {"gpu": 8}
    assert any("starting everything at once would take 8" in one for one in document["explanation"])


def test_due_at_one_the_tightest_interval_is_the_hour_before_midnight() -> None:
    document = answer("jobs-0100")

    certificate = document["certificate"]
    assert document["status"] == "infeasible"
    assert (certificate["kind"], certificate["from_ms"], certificate["to_ms"]) == ("interval", 3_600_000, 7_200_000)
    assert (certificate["capacity_gpu_ms"], certificate["required_gpu_ms"]) == (4 * 3_600_000, 8 * 3_600_000)
    assert certificate["extra_gpus"] == 4
    assert document["gpus"]["gpu"] == {"available": 4, "needed": 8, "lower_bound": 8}
    assert document["explanation"][0] == (
        "Whatever the order, all four jobs must run between 23:00 and 00:00 (8 GPUs), and 4 exist: "
        "at least 4 GPUs more."
    )


def test_due_at_one_each_fix_is_named_and_nothing_less_does() -> None:
    document = answer("jobs-0100")

    added, moved, dropped = document["relaxations"]
    assert (added["kind"], added["amount"], added["resource"]) == ("add-gpus", 4, "gpu")
    assert (added["from"], added["to"]) == ("2026-11-30T22:00:00Z", "2026-11-30T23:00:00Z")
    assert moved["jobs"] == [{"id": "c", "by_s": 3600}, {"id": "d", "by_s": 3600}]
    assert dropped["jobs"] == ["c", "d"]
    assert [one["irreducible"] for one in document["relaxations"]] == [True, True, True]


def test_a_job_longer_than_its_window_is_impossible_by_name_and_first_in_the_explanation() -> None:
    document = answer("jobs-5h")

    assert document["status"] == "infeasible"
    assert document["jobs"][0]["status"] == "impossible"
    assert document["certificate"] == {
        "kind": "impossible",
        "jobs": [{"id": "a", "reason": "too-long", "need": 18_000, "have": 10_800}],
    }
    assert document["explanation"][0] == ("a is impossible: it takes 5h, and 3h are left until its deadline 01:00.")
    assert document["gpus"]["gpu"]["needed"] is None
