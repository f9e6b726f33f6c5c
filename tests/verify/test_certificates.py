"""Each kind of certificate on a problem that only it decides, and what makes it prove nothing."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from gpuyield.verify import Report, check
from verify.brute import UNIT_MS as HOUR_MS
from verify.problems import seal
from verify.seed import plan, planned, seed_inputs


def gangs(*widths: int, hours: int = 1, deadline_h: int = 2, **more: Any) -> dict[str, Any]:
    """Jobs a, b, c ... of these widths."""
    inputs = seed_inputs(deadline_h, names="abcdefgh"[: len(widths)], hours=hours, **more)
    for job, width in zip(inputs["jobs"], widths, strict=True):
        job["shapes"] = [{"flavor": None, "demand": {"gpu": width}, "duration_ms": hours * HOUR_MS}]
    return inputs


def refuted(inputs: dict[str, Any], certificate: dict[str, Any], *kept: tuple[str, int, int]) -> Report:
    """The report on a document that says infeasible by this certificate, and runs only the kept jobs."""
    runs = {name: (low, high) for name, low, high in kept}
    jobs = [
        planned(inputs, job["id"], runs[job["id"]])
        if job["id"] in runs
        else planned(inputs, job["id"], status="dropped")
        for job in inputs["jobs"]
    ]
    there = {"gpu": {"available": inputs["capacity"]["gpu"][0][1], "needed": None, "lower_bound": None}}
    document = plan(inputs, jobs, status="infeasible", stopped_because="proven", certificate=certificate, gpus=there)
    widths = {job["id"]: job["shapes"][0]["demand"]["gpu"] * job["shapes"][0]["duration_ms"] for job in inputs["jobs"]}
    share = sum(widths[name] for name in runs) / sum(widths.values())
    document["on_time"]["gpu_time"] = share
    return check(*seal(document, inputs))


def span(from_h: float, to_h: float) -> dict[str, Any]:
    return {"resource": "gpu", "from_ms": int(from_h * HOUR_MS), "to_ms": int(to_h * HOUR_MS)}


def test_gangs_that_never_fit_side_by_side_outlast_their_window() -> None:
    inputs = gangs(3, 3, 2)  # Two slots of 4 GPUs hold the area, and no two of them fit.
    certificate = {"kind": "wide-gangs", **span(0, 2), "jobs": [{"id": name} for name in "abc"]}

    report = refuted(inputs, certificate, ("a", 0, 1), ("b", 1, 2))

    assert report.refused == ()


def seven_pairs(gpus: int = 5) -> dict[str, Any]:
    """Seven jobs of 2 GPUs x 1 h in three hours: 14 GPU-hours, but only two run at once on 5 GPUs."""
    inputs = gangs(*[2] * 7, deadline_h=3)
    inputs["capacity"]["gpu"] = [[0, gpus]]
    return inputs


def idle_beside() -> dict[str, Any]:
    """Each pair counts as 1, so the three hours hold 6."""
    return {
        "kind": "dual-feasible",
        **span(0, 3),
        "worth": [[2, 1]],
        "held": 6 * HOUR_MS,
        "required": 7 * HOUR_MS,
        "jobs": [{"id": name, "forced": HOUR_MS} for name in "abcdefg"],
    }


SIX = [(name, at // 2, at // 2 + 1) for at, name in enumerate("abcdef")]


def test_gangs_that_leave_gpus_idle_beside_each_other_need_more_than_runs_side_by_side() -> None:
    report = refuted(seven_pairs(), idle_beside(), *SIX)

    assert report.refused == ()


@pytest.mark.parametrize(
    "changed",
    [
        {"held": 5 * HOUR_MS},
        {"held": 7 * HOUR_MS},
        {"required": 8 * HOUR_MS},
        {"worth": [[1, 1]]},
        {"worth": [[1, 1], [2, 2]]},
        {"worth": [[3, 1]]},
        {"worth": [[2, 1], [2, 2]]},
        {"worth": [[0, 1]]},
        {"to_ms": 4 * HOUR_MS},
        {"resource": "cpu"},
        {"jobs": [{"id": name, "forced": HOUR_MS} for name in "abcdefa"]},
        {"jobs": [{"id": name, "forced": HOUR_MS} for name in "abcdefx"]},
        {"jobs": [{"id": "a", "forced": 7 * HOUR_MS}]},
    ],
)
def test_a_worth_that_is_not_borne_out_proves_nothing(changed: dict[str, Any]) -> None:
    report = refuted(seven_pairs(), {**idle_beside(), **changed}, *SIX)

    assert [one.claim for one in report.refused] == ["status"]


def test_pairs_of_which_three_fit_side_by_side_prove_nothing() -> None:
    report = refuted(seven_pairs(gpus=6), idle_beside(), *SIX)

    assert [one.claim for one in report.refused] == ["status"]


def test_amounts_too_large_to_be_tried_are_refused_at_once() -> None:
    inputs = seven_pairs(gpus=10**9)
    for job in inputs["jobs"]:
        job["shapes"][0]["demand"]["gpu"] = 4 * 10**8

    report = refuted(inputs, {**idle_beside(), "worth": [[4 * 10**8, 1]]}, *SIX)

    assert "too large" in report.refused[0].reason


@pytest.mark.parametrize("widths", [(3, 2, 2), (2, 2, 2)])
def test_gangs_of_which_two_fit_prove_nothing(widths: tuple[int, ...]) -> None:
    inputs = gangs(*widths)
    certificate = {"kind": "wide-gangs", **span(0, 2), "jobs": [{"id": name} for name in "abc"]}

    report = refuted(inputs, certificate, ("a", 0, 1), ("b", 1, 2))

    assert [one.claim for one in report.refused] == ["status"]
    assert "fit side by side" in report.refused[0].reason


def test_gangs_prove_nothing_of_a_job_without_a_deadline() -> None:
    inputs = gangs(3, 3, 2)
    inputs["jobs"][2]["deadline_ms"] = None
    inputs["jobs"][1]["deadline_ms"] = HOUR_MS
    certificate = {"kind": "wide-gangs", **span(0, 2), "jobs": [{"id": name} for name in "abc"]}

    report = refuted(inputs, certificate, ("a", 0, 1), ("c", 1, 2))

    assert not report.accepted


BRANCHES = [
    {"split": "order", "first": "a", "second": "b"},
    {"split": "order", "first": "b", "second": "c"},
    {"closed": "impossible", "id": "c"},
    {"split": "order", "first": "a", "second": "c"},
    {"closed": "impossible", "id": "b"},
    {"closed": "impossible", "id": "b"},
    {"split": "order", "first": "a", "second": "c"},
    {"closed": "impossible", "id": "c"},
    {"split": "order", "first": "b", "second": "c"},
    {"closed": "impossible", "id": "a"},
    {"closed": "impossible", "id": "a"},
]
ORDERED = {"kind": "search", "branches": BRANCHES}


def test_orders_of_jobs_that_exclude_each_other_close_a_search() -> None:
    report = refuted(gangs(3, 3, 2), ORDERED, ("a", 0, 1), ("b", 1, 2))

    assert report.refused == ()


def test_an_order_is_no_split_where_both_may_run_at_once() -> None:
    report = refuted(gangs(2, 2, 2, 2, 2), {**ORDERED}, ("a", 0, 1), ("b", 0, 1), ("c", 1, 2), ("d", 1, 2))

    assert "may run at once" in report.refused[0].reason


def test_an_order_is_no_split_of_a_job_that_may_be_paused_around_the_other() -> None:
    inputs = gangs(3, 3, 2)
    inputs["jobs"][2]["restart_ms"] = 0

    report = refuted(inputs, ORDERED, ("a", 0, 1), ("b", 1, 2))

    assert "may be paused" in report.refused[0].reason


@pytest.mark.parametrize("gone", range(len(BRANCHES)))
def test_a_search_without_one_of_its_nodes_proves_nothing(gone: int) -> None:
    branches = [*BRANCHES[:gone], *BRANCHES[gone + 1 :]]

    report = refuted(gangs(3, 3, 2), {**ORDERED, "branches": branches}, ("a", 0, 1), ("b", 1, 2))

    assert [one.claim for one in report.refused] == ["status"]


def test_a_search_has_at_most_a_hundred_thousand_nodes() -> None:
    certificate = {"kind": "search", "branches": [{"closed": "impossible", "id": "a"}] * 100_001}

    report = refuted(gangs(3, 3, 2), certificate, ("a", 0, 1), ("b", 1, 2))

    assert "100000 nodes" in report.refused[0].reason


def test_splits_of_starts_on_a_grid_close_a_search() -> None:
    inputs = gangs(3, 3, 2)
    certificate = {
        "kind": "search",
        "grid_ms": HOUR_MS,
        "branches": [
            {"split": "start", "id": "a", "at_ms": HOUR_MS},
            {"split": "start", "id": "b", "at_ms": HOUR_MS},
            {"closed": "interval", **span(0, 1)},
            {"split": "start", "id": "c", "at_ms": HOUR_MS},
            {"closed": "interval", **span(0, 1)},
            {"closed": "interval", **span(1, 2)},
            {"split": "start", "id": "b", "at_ms": HOUR_MS},
            {"split": "start", "id": "c", "at_ms": HOUR_MS},
            {"closed": "interval", **span(0, 1)},
            {"closed": "interval", **span(1, 2)},
            {"closed": "interval", **span(1, 2)},
        ],
    }

    on_the_grid = refuted(inputs, certificate, ("a", 0, 1), ("b", 1, 2))
    without = refuted(inputs, {**certificate, "grid_ms": 1}, ("a", 0, 1), ("b", 1, 2))
    finer = copy.deepcopy(inputs)
    finer["jobs"][2]["release_ms"] = HOUR_MS // 2
    off_the_grid = refuted(finer, certificate, ("a", 0, 1), ("b", 1, 2))

    assert on_the_grid.refused == ()
    assert [one.claim for one in without.refused] == ["status"]
    assert "grid_ms does not divide" in off_the_grid.refused[0].reason


def test_a_start_is_no_split_of_a_job_that_need_not_run() -> None:
    inputs = gangs(3, 3, 2)
    inputs["jobs"].append({**inputs["jobs"][0], "id": "d", "deadline_ms": None})
    certificate = {
        "kind": "search",
        "branches": [
            {"split": "start", "id": "d", "at_ms": HOUR_MS},
            {"closed": "interval", **span(0, 2)},
            {"closed": "interval", **span(0, 2)},
        ],
    }

    report = refuted(inputs, certificate, ("a", 0, 1), ("b", 1, 2), ("d", 2, 3))

    assert "must run" in " ".join(one.reason for one in report.refused)


def test_a_cut_sees_what_no_interval_does() -> None:
    """Long jobs may hide in the middle hour, short ones may not: only both ends together are overloaded."""
    inputs = gangs(3, 2, 2, hours=1, deadline_h=3)
    inputs["jobs"][0]["shapes"][0]["duration_ms"] = 3 * HOUR_MS
    inputs["jobs"][1].update(deadline_ms=HOUR_MS)
    inputs["jobs"][2].update(release_ms=2 * HOUR_MS)
    inputs["capacity"]["gpu"] = [[0, 4], [HOUR_MS, 9], [2 * HOUR_MS, 4]]
    certificate = {
        "kind": "cut",
        "resource": "gpu",
        "windows": [[0, HOUR_MS], [2 * HOUR_MS, 3 * HOUR_MS]],
        "capacity_gpu_ms": 8 * HOUR_MS,
        "required_gpu_ms": 10 * HOUR_MS,
        "extra_gpus": 1,
        "jobs": [
            {"id": "a", "forced_gpu_ms": 6 * HOUR_MS},
            {"id": "b", "forced_gpu_ms": 2 * HOUR_MS},
            {"id": "c", "forced_gpu_ms": 2 * HOUR_MS},
        ],
    }

    report = refuted(inputs, certificate, ("b", 0, 1), ("c", 2, 3))
    overlapping = refuted(inputs, {**certificate, "windows": [[0, HOUR_MS], [0, HOUR_MS]]}, ("b", 0, 1), ("c", 2, 3))

    assert report.refused == ()
    assert not overlapping.accepted


@pytest.mark.parametrize(("restart_ms", "forced_h"), [(None, 2), (0, 1)])
def test_a_job_that_may_be_paused_is_forced_only_by_what_lies_outside(restart_ms: int | None, forced_h: int) -> None:
    """3 h of 2 GPUs between 0 and 5: in one piece 1 h of it lies in [2, 3) for sure; paused none of it does."""
    inputs = gangs(2, 2, 2, hours=3, deadline_h=4, restart_ms=restart_ms)
    certificate = {
        "kind": "interval",
        **span(1, 3),
        "capacity_gpu_ms": 8 * HOUR_MS,
        "required_gpu_ms": 3 * 4 * HOUR_MS,
        "extra_gpus": 2,
        "jobs": [{"id": name, "forced_gpu_ms": 4 * HOUR_MS} for name in "abc"],
    }

    report = refuted(inputs, certificate, ("a", 0, 3), ("b", 0, 3))

    assert report.accepted == (forced_h == 2)


PRICES = {"kind": "prices", "bucket_ms": HOUR_MS, "scale": 10**12}


def test_prices_bound_how_many_hard_jobs_can_be_met() -> None:
    """Every hour of a GPU costs 1/4: 4 GPUs x 2 h earn 2, and each job pays 3/4 of the 1 that it is worth: 2.75."""
    inputs = gangs(3, 3, 3)
    price = 10**12 // 4 // HOUR_MS
    certificate = {**PRICES, "prices": {"gpu": [price, price]}, "bound": "2"}

    report = refuted(inputs, certificate, ("a", 0, 1), ("b", 1, 2))

    assert report.refused == ()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"bound": "1"}, "These prices prove 2"),
        ({"bound": "3"}, "does not rule out"),
        ({"prices": {"gpu": [0, 0]}}, "These prices prove 3"),
        ({"prices": {"gpu": [-1, 5]}}, "out of range"),
        ({"prices": {"gpu": [1.5]}}, "not an integer"),
        ({"bucket_ms": 0}, "out of range"),
    ],
)
def test_prices_that_do_not_prove_their_bound_are_refused(change: dict[str, Any], reason: str) -> None:
    price = 10**12 // 4 // HOUR_MS
    certificate = {**PRICES, "prices": {"gpu": [price, price]}, "bound": "2", **change}

    report = refuted(gangs(3, 3, 3), certificate, ("a", 0, 1), ("b", 1, 2))

    assert reason in report.refused[0].reason


def test_a_preemptible_plan_is_checked_pause_by_pause() -> None:
    inputs = gangs(2, hours=2, deadline_h=5, restart_ms=HOUR_MS // 2)
    right = plan(inputs, [planned(inputs, "a", (0, 1), (2, 3.5))])
    short = plan(inputs, [planned(inputs, "a", (0, 1), (2, 3))])
    overlapping = plan(inputs, [planned(inputs, "a", (0, 1.5), (1, 2))])

    reports = [check(*seal(document, inputs)) for document in (right, short, overlapping)]

    assert [report.accepted for report in reports] == [True, False, False]
    assert "takes 7200 s" in reports[1].refused[0].reason
    assert "overlap" in reports[2].refused[0].reason


def test_a_job_without_a_deadline_is_dropped_only_for_want_of_room() -> None:
    inputs = gangs(3, 3, 1)
    inputs["jobs"][2]["deadline_ms"] = None
    runs = [planned(inputs, "a", (0, 1)), planned(inputs, "b", (1, 2)), planned(inputs, "c", status="dropped")]
    shares = {"on_time": {"weighted": 1.0, "jobs": 1.0, "gpu_time": 1.0}}
    objective = {"objective": {"name": "on-time", "value": 1.0, "bound": None, "gap": None}}

    roomy = check(*seal(plan(inputs, runs, **shares, **objective), inputs))
    inputs["capacity"]["gpu"] = [[0, 3], [2 * HOUR_MS, 0]]
    document = plan(inputs, runs, **shares, **objective)
    document["gpus"]["gpu"]["available"] = 3
    full = check(*seal(document, inputs))

    assert [one.claim for one in roomy.refused] == ["jobs: only hard deadlines are given up"]
    assert full.refused == ()
