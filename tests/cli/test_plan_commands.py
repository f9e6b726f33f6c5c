"""gpuyield plan, what-if and explain as a user meets them: pages, nodes, chances, reasons."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.console import Console

ORIGIN = ("--origin", "2026-12-01T00:00:00Z")


@pytest.fixture
def jobs(console: Console) -> Path:
    rows = [
        {"id": "a", "gpus": 6, "duration_s": 3600, "deadline": "within 2h"},
        {"id": "b", "gpus": 6, "duration_s": 3600, "deadline": "within 2h"},
        {"id": "c", "gpus": 4, "duration_s": 1800, "deadline": "within 3h"},
        {"id": "d", "gpus": 12, "quantiles": {"p50": 3600, "p70": 4000, "p90": 8000}, "deadline": "within 3h"},
    ]
    place = console.folder / "jobs.json"
    place.write_text(json.dumps(rows))
    capacity = {"origin": "2026-12-01T00:00:00Z", "nodes": [{"flavor": "h100", "gpus": 8, "count": 2}]}
    (console.folder / "capacity.json").write_text(json.dumps(capacity))
    return place


def test_a_plan_can_be_drawn_and_lies_beside_its_page(console: Console, jobs: Path) -> None:
    done = console.run("plan", "--jobs", jobs.name, "--capacity", "capacity.json", "--out", "plan.html")

    checked = console.run("verify", "plan.json")
    page = (console.folder / "plan.html").read_text()
    assert (done.code, checked.code) == (0, 0)
    assert "FIFO queue" in page
    assert (console.folder / "plan.inputs.json").is_file()


def test_a_plan_tells_which_job_finds_no_node_and_how_likely_one_is_late(console: Console, jobs: Path) -> None:
    console.run("plan", "--jobs", jobs.name, "--capacity", "capacity.json", "--out", "plan.json")

    stranded = console.run("explain", "c", "--document", "plan.json").out
    risky = console.run("explain", "d", "--document", "plan.json").out

    document = json.loads((console.folder / "plan.json").read_text())
    (placement,) = document["placement"]
    assert (placement["unplaced"], placement["spare_nodes"]) == (["c"], 1)
    assert "No h100 node has room for it at that time" in stranded
    chances = {job["id"]: job["p_late"] for job in document["jobs"]}
    assert chances["a"] is None
    assert 0 < chances["d"] < 0.3
    assert f"In {chances['d'] * 100:.0f} of 100 cases it would be late" in risky
    assert "d runs 1 Dec 01:00 to 1 Dec 02:06 on 12 GPUs, when a and b end" in risky


def test_what_if_moves_only_what_has_to_move_and_says_why(console: Console, jobs: Path) -> None:
    done = console.run("what-if", "--jobs", jobs.name, "--capacity", "capacity.json", "--gpus", "-4", "-o", "json")

    (change,) = done.document["changes"]
    assert change["id"] == "c"
    assert "there are fewer h100 GPUs" in change["because"]
    moved = {job["id"]: job["moved_because"] for job in done.document["after"]["jobs"]}
    assert {name for name, why in moved.items() if why} == {"c"}


def test_a_family_that_never_ran_gives_no_run_time(console: Console) -> None:
    (console.folder / "jobs.yaml").write_text("- {id: x, gpus: 1, family: nobody}\n")

    done = console.run("plan", "--jobs", "jobs.yaml", "--gpus", "8", *ORIGIN)

    assert done.code == 2
    assert "the run time is missing" in done.err


def test_a_due_time_is_shown_and_whether_it_is_kept(console: Console) -> None:
    rows = [
        {"id": "kept", "gpus": 4, "duration_s": 3600, "due": "2026-12-01T01:00:00Z", "weight": 2},
        {"id": "missed", "gpus": 4, "duration_s": 3600, "due": "2026-12-01T01:30:00Z"},
    ]
    (console.folder / "due.json").write_text(json.dumps(rows))

    screen = console.run("plan", "--jobs", "due.json", "--gpus", "4", *ORIGIN, "--out", "due.out.json").out

    explained = {name: console.run("explain", name, "--document", "due.out.json").out for name in ("kept", "missed")}
    assert "after due" in screen
    assert "Due 1 Dec 01:00, kept." in explained["kept"]
    assert "Due 1 Dec 01:30, ends 30 m after it." in explained["missed"]


def test_how_good_a_plan_is_by_its_objective_is_said(console: Console) -> None:
    rows = [{"id": name, "gpus": 4, "duration_s": 3600, "deadline": "within 90m"} for name in ("a", "b")]
    (console.folder / "two.json").write_text(json.dumps(rows))
    plan = ("plan", "--jobs", "two.json", *ORIGIN)

    tight = console.run(*plan, "--gpus", "4").out
    fast = console.run(*plan, "--gpus", "8", "--objective", "makespan").out

    assert "50.0 % of the weight is on time; no plan has more." in tight
    assert "All is done 1h after the start; no plan is faster." in fast


def test_a_status_is_not_given_an_impossible_job_as_its_reason(console: Console) -> None:
    rows = [{"id": "good", "gpus": 1, "duration_s": 60, "deadline": 3600}, {"id": "wide", "gpus": 9, "duration_s": 60}]
    (console.folder / "wide.json").write_text(json.dumps(rows))

    said = console.run("plan", "--jobs", "wide.json", *ORIGIN, "--gpus", "4").out.splitlines()

    assert said[:3] == [
        "optimal, without 1 job that can never run:",
        "wide is impossible: it needs 9 GPUs at once, and no more than 4 last long enough.",
        "The deadline is met.",
    ]
