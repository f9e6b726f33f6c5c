"""What the oracle and the law of bounds once found wrong, each as a case small enough to count by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from doubles.observations import DAY, Observations, at, span
from gpuyield.account import account, summarise
from gpuyield.ledger.tables import RUNS, Activity, RunKind
from gpuyield.model.waterfall import ALLOCATED, BUSY, Account, GpuClass
from gpuyield.units import DAY_MS, HOUR_MS, MINUTE_MS, Window, day_name


def _account(seen: Observations, folder: Path, window: Window, *by: str) -> Account:
    return summarise(account(seen.ledger(folder / "ledger"), window=window), by=by)


def _minutes(found: Account, *classes: GpuClass) -> float:
    return found.waterfall.gpu_ms(*classes) / MINUTE_MS


def test_an_instance_that_is_all_of_a_card_is_observed(tmp_path: Path) -> None:
    window = span("10:00", "11:00")
    seen = Observations()
    resources = {"nvidia_com_gpu": 0, "nvidia_com_mig_7g_80gb": 1}
    seen.node("node-a", window, resources=resources, labels={"gpu.count": "1", "gpu.product": "NVIDIA-H100"})
    seen.pod("a", window, resource="nvidia_com_mig_7g_80gb")
    seen.activity("GPU-1", [(window.from_ms, window.to_ms, 0.5)], pod="a", instance="0", profile="7g.80gb")

    found = _account(seen, tmp_path, window)

    assert (_minutes(found, *BUSY), _minutes(found, GpuClass.UNOBSERVED)) == (30, 0)


def test_a_pod_deleted_at_once_ends_where_the_next_one_is_named_on_its_card(tmp_path: Path) -> None:
    window = span("10:00", "11:00")
    seen = Observations()
    seen.node("node-a", window, cards=2)
    seen.pod("old", Window(at("10:00"), at("10:30")), times=False)
    next_from = at("10:29") + 20_000
    seen.pod("new", Window(next_from, at("11:00")))
    seen.activity("GPU-1", [(at("10:00"), at("10:30"), 0.0)], pod="old")
    seen.activity("GPU-1", [(at("10:30"), at("11:00"), 1.0)], pod="new")
    seen.activity("GPU-2", [(at("10:00"), at("11:00"), 0.5)])

    found = _account(seen, tmp_path, window, "workload")

    rows = {row.key["workload"]: row.waterfall for row in found.rows}
    assert rows["old"].gpu_ms(*ALLOCATED) == next_from - at("10:00")
    assert rows["new"].gpu_ms(*BUSY) == 30 * MINUTE_MS


def test_a_silence_of_days_is_bridged_in_every_window_and_what_cards_measured_in_it_counts(tmp_path: Path) -> None:
    seen = Observations(every_ms=5 * MINUTE_MS)
    pod: dict[str, Any] = {"namespace": "a", "pod": "p", "uid": "u"}
    for begin in (DAY, DAY + 4 * DAY_MS):
        part = Window(begin, begin + 12 * HOUR_MS)
        seen.node("node-a", part, cards=1)
        seen.run(RunKind.POD_REQUEST, part, node="node-a", resource="nvidia_com_gpu", **pod)
        seen.run(RunKind.POD_PHASE, part, detail="Running", **pod)
    seen.activity("GPU-1", [(DAY, DAY + 4 * DAY_MS, 0.5)], pod="p", namespace="a")
    ledger = seen.ledger(tmp_path / "ledger")

    second = summarise(account(ledger, window=Window(DAY + DAY_MS, DAY + 2 * DAY_MS))).waterfall

    assert second.capacity_gpu_ms == DAY_MS
    assert second.gpu_ms(*BUSY) == DAY_MS // 2
    assert second.leaf(GpuClass.UNVERIFIED).evidence == "bounded"


def test_a_node_whose_samples_hold_for_less_than_others_is_bridged_all_the_same(tmp_path: Path) -> None:
    seen = Observations()
    for name in ("node-a", "node-b"):
        for part in (span("10:00", "11:00"), span("12:00", "14:00")):
            seen.node(name, part, cards=1)
    folder = seen.ledger(tmp_path / "ledger")
    rows = folder.read(RUNS, days=[day_name(DAY)])
    # Before this day's silence node-a was scraped twice as often for most of the day.
    rows["interval_ms"][rows["node"] == "node-a"] = 30_000
    folder.replace_day(RUNS, day_name(DAY), rows)

    found = summarise(account(folder, window=span("10:00", "13:00")), by=("node",))

    assert {row.key["node"]: row.waterfall.capacity_gpu_ms for row in found.rows} == {
        "node-a": 3 * HOUR_MS,
        "node-b": 3 * HOUR_MS,
    }


def test_a_shared_card_that_nobody_holds_is_bypassed_when_it_works(tmp_path: Path) -> None:
    window = span("10:00", "11:00")
    seen = Observations()
    labels = {"gpu.count": "1", "gpu.replicas": "4"}
    seen.node("node-a", window, resources={"nvidia_com_gpu_shared": 4}, labels=labels)
    seen.pod("p", span("10:00", "10:20"), resource="nvidia_com_gpu_shared")
    seen.activity("GPU-1", [(window.from_ms, window.to_ms, 0.5)])

    found = _account(seen, tmp_path, window)

    assert _minutes(found, GpuClass.BYPASSED) == 40
    assert _minutes(found, *ALLOCATED) == 5


def test_a_card_at_work_before_its_node_was_seen_is_bypassed_from_the_nodes_first_moment(tmp_path: Path) -> None:
    window = span("10:00", "11:00")
    seen = Observations()
    seen.node("node-a", Window(at("10:00") + 30_000, window.to_ms), cards=1)
    seen.activity("GPU-1", [(window.from_ms, window.to_ms, 0.5)])

    found = _account(seen, tmp_path, window)

    assert found.waterfall.gpu_ms(GpuClass.BYPASSED) == found.waterfall.capacity_gpu_ms


def test_a_lone_sample_holds_as_long_as_its_metrics_usually_do_on_that_day(tmp_path: Path) -> None:
    window = span("10:00", "11:00")
    seen = Observations(every_ms=2 * MINUTE_MS)
    seen.node("node-a", Window(window.from_ms, at("11:00", 1)), cards=2)
    seen.pod("p", window)
    seen.activity("GPU-1", [(at("10:10"), at("10:12"), 1.0)], pod="p")
    seen.activity("GPU-2", [(window.from_ms, window.to_ms, 0.0)])
    seen.every_ms = 10_000
    seen.activity("GPU-2", [(window.from_ms, window.to_ms, 0.0)], metric=Activity.GPU_UTIL)
    seen.activity("GPU-2", [(at("10:00", 1), at("11:00", 1), 0.0)])

    found = _account(seen, tmp_path, window)

    assert _minutes(found, *BUSY) == 2


def test_what_was_free_on_both_sides_of_a_silence_may_have_been_held(tmp_path: Path) -> None:
    window = span("10:00", "12:00")
    seen = Observations()
    for part in (span("10:00", "10:30"), span("11:30", "12:00")):
        seen.node("node-a", part, cards=1)

    found = _account(seen, tmp_path, window)

    unexplained = found.waterfall.leaf(GpuClass.UNEXPLAINED)
    assert (unexplained.lo, unexplained.gpu_ms, unexplained.evidence) == (0, HOUR_MS, "bounded")
    assert found.waterfall.leaf(GpuClass.UNVERIFIED).hi == HOUR_MS


def test_broken_cards_are_unavailable_from_some_time_within_one_interval(tmp_path: Path) -> None:
    window = span("10:00", "12:00")
    seen = Observations()
    seen.node("node-a", span("10:00", "11:00"), cards=4)
    seen.node("node-a", span("11:00", "12:00"), cards=4, allocatable=3)

    found = _account(seen, tmp_path, window)

    unavailable = found.waterfall.leaf(GpuClass.UNAVAILABLE)
    assert (unavailable.lo, unavailable.gpu_ms, unavailable.hi) == (HOUR_MS, HOUR_MS, HOUR_MS + MINUTE_MS)
