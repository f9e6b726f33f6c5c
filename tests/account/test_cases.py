"""Accounting cases that public reports show to be easy to get wrong (the numbers are those of the recorded cases)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from doubles.observations import Observations, at, span
from gpuyield.account import Accounting, account, summarise
from gpuyield.ledger.tables import Activity, RunKind
from gpuyield.model.waterfall import ALLOCATED, BUSY, UNALLOCATED, Account, GpuClass
from gpuyield.units import HOUR_MS, MINUTE_MS, Window

HOUR = span("10:00", "11:00")
NAN = float("nan")


def _of(seen: Observations, folder: Path, window: Window = HOUR) -> Accounting:
    return account(seen.ledger(folder / "ledger"), window=window)


def _sum(seen: Observations, folder: Path, window: Window = HOUR, by: tuple[str, ...] = ()) -> Account:
    return summarise(_of(seen, folder, window), by=by)


def _cards(found: Account, *classes: GpuClass) -> float:
    return found.waterfall.gpu_ms(*classes) / found.window.length_ms


def test_time_slices_are_parts_of_one_card_and_nobody_is_charged_all_of_its_activity(tmp_path: Path) -> None:
    seen = Observations()
    seen.node("node-a", HOUR, resources={"nvidia_com_gpu_shared": 8}, labels={"gpu.count": "1", "gpu.replicas": "8"})
    for name in ("p1", "p2", "p3"):
        seen.pod(name, HOUR, resource="nvidia_com_gpu_shared")
    seen.activity("GPU-1", [(HOUR.from_ms, HOUR.to_ms, 0.6)], pod="p1")

    found = _sum(seen, tmp_path, by=("workload",))

    assert found.waterfall.capacity_gpu_ms == HOUR_MS
    assert _cards(found, *ALLOCATED) == 0.375
    assert found.waterfall.gpu_ms(GpuClass.IDLE_HELD) == 0
    rows = {row.key["workload"]: row.waterfall for row in found.rows}
    assert [rows[name].gpu_ms(*ALLOCATED) for name in ("p1", "p2", "p3")] == [HOUR_MS // 8] * 3
    busy = [rows[name].leaf(GpuClass.UNVERIFIED) for name in ("p1", "p2", "p3")]
    assert all(leaf.evidence == "bounded" and leaf.lo == 0 and leaf.hi == HOUR_MS // 8 for leaf in busy[:1])
    assert all(leaf.gpu_ms < HOUR_MS // 8 for leaf in busy)


def test_copies_of_a_shared_cards_value_count_once(tmp_path: Path) -> None:
    seen = Observations()
    seen.node("node-a", HOUR, cards=1)
    seen.pod("p1", HOUR)
    for vgpu in range(4):
        seen.activity("GPU-1", [(HOUR.from_ms, HOUR.to_ms, 0.8)], pod=f"p{vgpu + 1}", vgpu=str(vgpu))

    found = _sum(seen, tmp_path)

    assert _cards(found, *BUSY) == 0.8


def test_different_values_of_one_moment_are_shares_of_the_card(tmp_path: Path) -> None:
    seen = Observations()
    seen.node("node-a", HOUR, cards=1)
    seen.pod("p1", HOUR)
    for vgpu, ratio in enumerate((0.5, 0.25, 0.05, 0.0)):
        seen.activity("GPU-1", [(HOUR.from_ms, HOUR.to_ms, ratio)], pod=f"p{vgpu + 1}", vgpu=str(vgpu))

    busy = _sum(seen, tmp_path).waterfall.leaf(GpuClass.UNVERIFIED)

    # The second in which it was bound and the interval after its last sample are not sure.
    assert (busy.lo, busy.gpu_ms) == ((HOUR_MS - 1_000 - MINUTE_MS) // 2, HOUR_MS * 8 // 10)


def test_cards_missing_from_the_scrape_are_not_idle_and_not_lost_from_capacity(tmp_path: Path) -> None:
    seen = Observations()
    seen.node("node-a", HOUR, cards=8)
    for number, ratio in enumerate((0.9, 0.7, 0.5)):
        seen.pod(f"p{number}", HOUR)
        seen.activity(f"GPU-{number}", [(HOUR.from_ms, HOUR.to_ms, ratio)], pod=f"p{number}")

    found = _sum(seen, tmp_path)

    assert (_cards(found, *ALLOCATED), _cards(found, *UNALLOCATED)) == (3, 5)
    assert _cards(found, *BUSY) == pytest.approx(2.1)
    assert found.waterfall.gpu_ms(GpuClass.IDLE_HELD) == 0


def test_mig_activity_counts_by_slices(tmp_path: Path) -> None:
    seen = Observations()
    resources = {"nvidia_com_mig_3g_40gb": 1, "nvidia_com_mig_1g_10gb": 2, "nvidia_com_gpu": 0}
    seen.node("node-a", HOUR, resources=resources, labels={"gpu.count": "1", "gpu.product": "NVIDIA-H100-80GB-HBM3"})
    seen.pod("a", HOUR, resource="nvidia_com_mig_3g_40gb")
    seen.pod("b", HOUR, resource="nvidia_com_mig_1g_10gb")
    steps = HOUR.from_ms, HOUR.to_ms
    seen.activity("GPU-1", [(*steps, 0.9)], pod="a", instance="1", profile="3g.40gb")
    seen.activity("GPU-1", [(*steps, 0.5)], pod="b", instance="7", profile="1g.10gb")
    seen.activity("GPU-1", [(*steps, 0.0)], instance="8", profile="1g.10gb")
    seen.activity("GPU-1", [(*steps, 0.0)], metric=Activity.GPU_UTIL)

    found = _sum(seen, tmp_path)

    assert found.waterfall.capacity_gpu_ms == HOUR_MS
    assert found.waterfall.gpu_ms(*ALLOCATED) == round(HOUR_MS * 4 / 7)
    assert _cards(found, *BUSY) == pytest.approx(3.2 / 7, abs=1e-4)


def test_a_node_of_slices_has_its_cards_although_it_offers_no_whole_one(tmp_path: Path) -> None:
    seen = Observations()
    seen.node(
        "node-a",
        HOUR,
        resources={"nvidia_com_gpu": 0, "nvidia_com_mig_1g_10gb": 7, "nvidia_com_mig_3g_40gb": 2},
        labels={"gpu.count": "2", "gpu.product": "NVIDIA-A100-SXM4-80GB"},
    )
    seen.pod("a", HOUR, resource="nvidia_com_mig_1g_10gb", devices=3)
    seen.pod("b", HOUR, resource="nvidia_com_mig_3g_40gb")

    found = _sum(seen, tmp_path)

    assert found.waterfall.capacity_gpu_ms == 2 * HOUR_MS
    assert _cards(found, *ALLOCATED) == pytest.approx(6 / 7, abs=1e-6)
    assert found.waterfall.gpu_ms(GpuClass.UNOBSERVED) == found.waterfall.gpu_ms(*ALLOCATED)


def test_a_profiling_measure_stuck_at_zero_is_no_idleness(tmp_path: Path) -> None:
    seen = Observations()
    seen.node("node-a", HOUR, cards=1)
    seen.pod("train-0", HOUR)
    seen.activity("GPU-1", [(HOUR.from_ms, HOUR.to_ms, 0.0)], pod="train-0")
    seen.activity("GPU-1", [(HOUR.from_ms, HOUR.to_ms, 0.99)], pod="train-0", metric=Activity.GPU_UTIL)

    found = _sum(seen, tmp_path)

    assert found.holders == ()
    assert _cards(found, *BUSY) == 0.99
    assert any("stuck at 0" in gap.reason for gap in found.gaps)


def test_a_value_that_cannot_be_true_is_a_gap_and_not_zero(tmp_path: Path) -> None:
    minutes = Window(at("10:00"), at("10:04"))
    seen = Observations()
    seen.node("node-a", HOUR, cards=1)
    seen.pod("a", HOUR)
    values = (0.40, 0.42, NAN, 0.38)
    steps = [(minutes.from_ms + n * 60_000, minutes.from_ms + (n + 1) * 60_000, v) for n, v in enumerate(values)]
    seen.activity("GPU-1", steps, pod="a")

    found = _sum(seen, tmp_path, window=minutes)

    assert found.waterfall.gpu_ms(GpuClass.UNOBSERVED) == 60_000
    assert found.waterfall.gpu_ms(*BUSY) == (40 + 42 + 38) * 600


def test_the_label_of_a_pod_that_has_ended_gives_it_nothing_more(tmp_path: Path) -> None:
    window = span("09:00", "11:00")
    seen = Observations()
    seen.node("node-a", window, cards=1)
    seen.pod("train-0", span("09:00", "10:00"), listed_until=at("11:00"))
    seen.pod("train-1", span("10:05", "11:00"))
    seen.activity("GPU-1", [(at("09:00"), at("10:00"), 0.9)], pod="train-0")
    seen.activity("GPU-1", [(at("10:00"), at("10:05"), 0.0), (at("10:05"), at("10:30"), 0.9)], pod="train-0")
    seen.activity("GPU-1", [(at("10:30"), at("11:00"), 0.9)], pod="train-1")

    found = _sum(seen, tmp_path, window=window, by=("workload",))

    rows = {row.key["workload"]: row.waterfall for row in found.rows}
    assert rows["train-0"].gpu_ms(*BUSY) == 54 * 60_000
    assert rows["train-1"].gpu_ms(*BUSY) == round(55 * 60_000 * 0.9)
    assert rows[None].gpu_ms(*UNALLOCATED) == 5 * 60_000


def test_finished_pods_hold_nothing_although_they_are_listed(tmp_path: Path) -> None:
    seen = Observations()
    before = span("08:00", "09:00")
    seen.node("node-a", span("08:00", "11:00"), cards=8)
    seen.pod("a", HOUR, devices=2)
    seen.pod("b", HOUR, devices=2)
    seen.pod("c", before, devices=2, listed_until=HOUR.to_ms)
    seen.pod("d", before, devices=2, listed_until=HOUR.to_ms, phase_after="Failed", times=False)

    found = _sum(seen, tmp_path)

    assert (_cards(found, *ALLOCATED), _cards(found, *UNALLOCATED)) == (4, 4)


def test_a_pod_that_was_never_placed_waits_and_holds_nothing(tmp_path: Path) -> None:
    seen = Observations()
    for node in ("node-a", "node-b", "node-c"):
        seen.node(node, HOUR, cards=8)
    seen.pod("small-0", HOUR, devices=4)
    for number in range(4):
        seen.waiting(f"big-{number}", HOUR, devices=64)

    found = _of(seen, tmp_path)

    assert _cards(summarise(found), *ALLOCATED) == 4
    assert sum(one.devices for one in found.pods.waiting) == 256
    assert _cards(summarise(found), GpuClass.FRAGMENTED) == 20


def test_init_containers_and_sidecars_count_as_kubernetes_counts_them(tmp_path: Path) -> None:
    seen = Observations()
    seen.node("node-a", HOUR, cards=8)
    asked = {"a": [("i1", 2, 0)], "b": [("i1", 1, 0), ("i2", 1, 0)], "c": [("side", 1, 1)]}
    for pod, inits in asked.items():
        seen.pod(pod, HOUR)
        who: dict[str, Any] = {"namespace": "team-a", "pod": pod, "uid": f"uid-{pod}"}
        for container, devices, sidecar in inits:
            named: dict[str, Any] = {"container": container, "node": "node-a", **who}
            seen.run(RunKind.POD_INIT_REQUEST, HOUR, resource="nvidia_com_gpu", value=devices, **named)
            seen.run(RunKind.POD_SIDECAR, HOUR, value=sidecar, **named)

    found = _sum(seen, tmp_path, by=("workload",))

    held = {row.key["workload"]: row.waterfall.gpu_ms(*ALLOCATED) // HOUR_MS for row in found.rows}
    assert held == {"a": 2, "b": 1, "c": 2, None: 0}


def test_a_sidecar_whose_restart_policy_is_not_told_is_uncertain(tmp_path: Path) -> None:
    seen = Observations()
    seen.node("node-a", HOUR, cards=8)
    seen.pod("c", HOUR)
    seen.run(
        RunKind.POD_INIT_REQUEST,
        HOUR,
        namespace="team-a",
        pod="c",
        uid="uid-c",
        container="side",
        node="node-a",
        resource="nvidia_com_gpu",
    )

    found = _sum(seen, tmp_path)

    free = found.waterfall.leaf(GpuClass.NO_DEMAND)
    assert (free.lo, free.gpu_ms, free.evidence) == (6 * HOUR_MS, 7 * HOUR_MS, "bounded")
    held = [found.waterfall.leaf(one) for one in ALLOCATED]
    assert max(leaf.hi for leaf in held) == 2 * HOUR_MS


def test_two_pods_of_one_name_are_two_pods(tmp_path: Path) -> None:
    seen = Observations()
    seen.node("node-a", HOUR, cards=1)
    seen.pod("train", span("10:00", "10:20"), uid="u1")
    seen.pod("train", span("10:40", "11:00"), uid="u2")
    seen.activity("GPU-1", [(at("10:00"), at("10:20"), 0.5), (at("10:40"), at("11:00"), 1.0)], pod="train")

    found = _of(seen, tmp_path)

    assert [(one.uid, one.to_ms - one.from_ms) for one in found.pods.holdings] == [
        ("u1", 20 * 60_000),
        ("u2", 20 * 60_000),
    ]
    assert summarise(found).waterfall.gpu_ms(*BUSY) == 30 * 60_000
