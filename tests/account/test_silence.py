"""When sources fall silent: what is bridged, what is gone, what is not known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from doubles.observations import Observations, at, span
from gpuyield.account import account, summarise
from gpuyield.ledger.tables import RunKind
from gpuyield.model.waterfall import ALLOCATED, UNALLOCATED, Account, GpuClass
from gpuyield.units import HOUR_MS, MINUTE_MS, Window

WINDOW = span("10:00", "12:00")


def _account(seen: Observations, folder: Path, by: tuple[str, ...] = ()) -> Account:
    return summarise(account(seen.ledger(folder / "ledger"), window=WINDOW), by=by)


def test_silence_of_the_source_is_bridged_and_said_to_be(tmp_path: Path) -> None:
    seen = Observations()
    for part in (span("10:00", "10:40"), span("11:00", "12:00")):
        seen.node("node-a", part, cards=2)
        seen.run(RunKind.POD_REQUEST, part, namespace="a", pod="p", uid="u", node="node-a", resource="nvidia_com_gpu")
        seen.run(RunKind.POD_PHASE, part, namespace="a", pod="p", uid="u", detail="Running")
        seen.run(RunKind.POD_SCHEDULED, part, namespace="a", pod="p", uid="u", value=WINDOW.from_ms)

    found = _account(seen, tmp_path)

    assert found.waterfall.capacity_gpu_ms == 4 * HOUR_MS
    assert found.waterfall.gpu_ms(*ALLOCATED) == 2 * HOUR_MS
    unexplained = found.waterfall.leaf(GpuClass.UNEXPLAINED)
    assert (unexplained.gpu_ms, unexplained.evidence) == (20 * MINUTE_MS, "bounded")
    assert any("silent" in gap.reason and gap.window == span("10:40", "11:00") for gap in found.gaps)


def test_a_node_that_is_absent_while_others_answer_is_gone(tmp_path: Path) -> None:
    seen = Observations()
    seen.node("node-a", WINDOW, cards=1)
    for part in (span("10:00", "10:40"), span("11:00", "12:00")):
        seen.node("node-b", part, cards=1)

    found = _account(seen, tmp_path)

    assert found.waterfall.capacity_gpu_ms == 2 * HOUR_MS + 100 * MINUTE_MS


def test_no_activity_at_all_is_unobserved_and_not_idle(tmp_path: Path) -> None:
    seen = Observations()
    seen.node("node-a", WINDOW, cards=1)
    seen.pod("p", WINDOW)

    found = _account(seen, tmp_path)

    unobserved = found.waterfall.leaf(GpuClass.UNOBSERVED)
    assert (unobserved.gpu_ms, unobserved.evidence) == (2 * HOUR_MS, "unknown")
    assert found.waterfall.leaf(GpuClass.UNVERIFIED).hi == 2 * HOUR_MS
    assert any(gap.reason.startswith("No activity metric") for gap in found.gaps)


def test_nothing_collected_is_a_gap_and_no_capacity(tmp_path: Path) -> None:
    found = _account(Observations(), tmp_path)

    assert found.waterfall.capacity_gpu_ms == 0
    assert found.gaps


def test_without_pod_labels_the_cluster_total_is_right_and_the_split_is_bounded(tmp_path: Path) -> None:
    seen = Observations()
    seen.node("node-a", WINDOW, cards=2)
    for name, ratio in (("p", 0.9), ("q", 0.3)):
        seen.pod(name, WINDOW)
        seen.activity(f"GPU-{name}", [(WINDOW.from_ms, WINDOW.to_ms, ratio)])

    found = _account(seen, tmp_path, by=("workload",))

    assert found.waterfall.gpu_ms(GpuClass.UNVERIFIED) == 1.2 * 2 * HOUR_MS
    rows = {row.key["workload"]: row.waterfall.leaf(GpuClass.UNVERIFIED) for row in found.rows}
    assert rows["p"].evidence == "bounded"
    assert rows["p"].lo <= 0.3 * 2 * HOUR_MS <= 0.9 * 2 * HOUR_MS <= rows["p"].hi
    assert any("no pod label" in gap.reason for gap in found.gaps)


def test_held_time_on_a_node_that_is_not_ready_is_unobserved_and_free_time_unavailable(tmp_path: Path) -> None:
    seen = Observations()
    seen.node("node-a", WINDOW, cards=2)
    seen.run(RunKind.NODE_READY, span("10:00", "11:00"), node="node-a", value=1)
    seen.run(RunKind.NODE_READY, span("11:00", "12:00"), node="node-a", value=0)
    seen.pod("p", WINDOW)
    seen.activity("GPU-1", [(WINDOW.from_ms, WINDOW.to_ms, 1.0)], pod="p")

    found = _account(seen, tmp_path)

    assert found.waterfall.gpu_ms(GpuClass.UNOBSERVED) == HOUR_MS
    assert found.waterfall.gpu_ms(GpuClass.UNAVAILABLE) == HOUR_MS
    assert found.waterfall.gpu_ms(*UNALLOCATED) == HOUR_MS


def test_work_on_a_card_without_a_holder_is_bypassed_whole(tmp_path: Path) -> None:
    seen = Observations()
    seen.node("node-a", WINDOW, cards=1)
    seen.activity("GPU-1", [(at("10:00"), at("11:00"), 0.0), (at("11:00"), at("11:30"), 0.3)])
    seen.activity("GPU-1", [(at("11:30"), at("12:00"), 0.0)])

    found = _account(seen, tmp_path)

    assert found.waterfall.gpu_ms(GpuClass.BYPASSED) == 30 * MINUTE_MS
    assert found.waterfall.gpu_ms(GpuClass.NO_DEMAND) == 90 * MINUTE_MS


def test_edges_that_only_samples_tell_carry_one_interval_of_doubt(tmp_path: Path) -> None:
    seen = Observations()
    seen.node("node-a", WINDOW, cards=1)
    seen.pod("p", span("10:30", "11:00"), times=False)

    found = _account(seen, tmp_path)

    free = found.waterfall.leaf(GpuClass.NO_DEMAND)
    assert (free.lo, free.gpu_ms, free.hi) == (89 * MINUTE_MS, 90 * MINUTE_MS, 91 * MINUTE_MS)


def test_a_pod_pulling_its_image_holds_its_gpu_as_starting(tmp_path: Path) -> None:
    seen = Observations()
    seen.node("node-a", WINDOW, cards=1)
    seen.pod("p", WINDOW, running=WINDOW.to_ms)

    found = _account(seen, tmp_path)

    assert found.waterfall.gpu_ms(GpuClass.STARTING) == 2 * HOUR_MS


def test_a_window_that_begins_inside_a_sample_shares_it(tmp_path: Path) -> None:
    seen = Observations()
    seen.node("node-a", WINDOW, cards=1)
    seen.pod("p", WINDOW)
    seen.activity("GPU-1", [(WINDOW.from_ms, WINDOW.to_ms, 1 / 3)], pod="p")
    ledger = seen.ledger(tmp_path / "ledger")
    middle = at("11:00") + 12_345

    parts = [
        summarise(account(ledger, window=part)).waterfall.gpu_ms(GpuClass.UNVERIFIED)
        for part in (Window(WINDOW.from_ms, middle), Window(middle, WINDOW.to_ms))
    ]

    whole = summarise(account(ledger, window=WINDOW)).waterfall.gpu_ms(GpuClass.UNVERIFIED)
    assert sum(parts) == whole


def test_free_cards_that_a_suspended_job_waits_for_are_blocked_by_quota(tmp_path: Path) -> None:
    seen = Observations()
    seen.node("node-a", WINDOW, cards=4)
    job: dict[str, Any] = {"namespace": "team-a", "pod": "night"}
    seen.run(RunKind.JOB_SUSPENDED, span("10:00", "11:00"), **job)
    seen.run(RunKind.JOB_SUSPENDED, span("11:00", "12:00"), value=0, **job)
    seen.pod("night-0", span("11:00", "12:00"), devices=2, created=at("11:00"), owner=("Job", "night"))

    found = _account(seen, tmp_path)

    assert found.waterfall.gpu_ms(GpuClass.QUOTA_BLOCKED) == 2 * HOUR_MS
    assert found.waterfall.gpu_ms(GpuClass.NO_DEMAND) == 4 * HOUR_MS
