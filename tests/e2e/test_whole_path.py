"""Real servers hold a scenario; what is collected from them and accounted is what truly happened.

On the grid every figure is equal to the millisecond, whatever the chunk size. Off the grid (continuous starts and
ends, jittered and lost scrapes, a change of interval, a restart of Prometheus) the bounds contain the truth.
"""

from __future__ import annotations

from collections import Counter
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

from e2e.path import (
    accounted,
    bounds_by_class,
    busy_by_workload,
    by_class,
    collected,
    collected_once,
    differences,
    held_by_uid,
)
from e2e.truth import allocated_ms, busy_and_slack_by_workload, has_exact_end, totals, true_waterfall
from gpuyield.demo.api import serving
from gpuyield.demo.cluster import Scenario
from gpuyield.demo.exposition import Dialect, Series, all_series
from gpuyield.demo.scenario import make_scenario
from gpuyield.units import HOUR_MS, Window
from servers.session import Store

END_MS = 1_750_032_000_000
CHUNKS = {"6h": 6 * HOUR_MS, "1h": HOUR_MS, "1000s": 1_000_000}


@cache
def on_grid() -> Scenario:
    return make_scenario(seed=7, gpus=16, days=2, end_ms=END_MS)


@cache
def off_grid() -> Scenario:
    return make_scenario(seed=7, gpus=16, days=3, end_ms=END_MS, grid=False)


def _series_on_grid() -> list[Series]:
    return all_series(on_grid())


def _series_off_grid() -> list[Series]:
    return all_series(off_grid())


@pytest.mark.parametrize("chunk", CHUNKS)
def test_on_the_grid_every_hour_of_every_team_is_equal_to_the_millisecond(
    store: Store, tmp_path: Path, chunk: str
) -> None:
    scenario = on_grid()
    url = store.holding("on-grid", _series_on_grid)

    ledger = collected(url, scenario.window, tmp_path / "ledger", chunk_ms=CHUNKS[chunk])
    found = by_class(accounted(ledger, scenario.window))

    expected = true_waterfall(scenario)
    assert differences(found, expected) == []
    assert sum(totals(found).values()) == scenario.gpus * scenario.window.length_ms


def test_the_chunk_size_does_not_change_the_ledger(store: Store, tmp_path: Path) -> None:
    scenario = off_grid()
    url = store.holding("off-grid", _series_off_grid)

    digests = {
        collected(url, scenario.window, tmp_path / name, chunk_ms=chunk_ms).digest()
        for name, chunk_ms in (("6h", 6 * HOUR_MS), ("1h", HOUR_MS))
    }

    assert len(digests) == 1


@pytest.mark.parametrize(
    "gpu_class",
    ["busy", "underused", "idle_held", "unobserved", "starting", "unallocated", "bypassed", "unavailable"],
)
def test_off_the_grid_the_bounds_of_each_class_contain_the_truth(
    store: Store, tmp_path_factory: pytest.TempPathFactory, gpu_class: str
) -> None:
    scenario = off_grid()
    url = store.holding("off-grid", _series_off_grid)

    found = bounds_by_class(accounted(collected_once(url, scenario, tmp_path_factory), scenario.window))[gpu_class]

    truth = totals(true_waterfall(scenario, all_seeing=True))[gpu_class]
    assert found.lo <= truth <= found.hi
    assert found.lo <= found.gpu_ms <= found.hi


def test_off_the_grid_what_a_pod_held_is_right_within_a_second(
    store: Store, tmp_path_factory: pytest.TempPathFactory
) -> None:
    scenario = off_grid()
    url = store.holding("off-grid", _series_off_grid)

    found = held_by_uid(accounted(collected_once(url, scenario, tmp_path_factory), scenario.window), scenario.window)

    expected = {uid: held for uid, held in allocated_ms(scenario).items() if has_exact_end(scenario, uid)}
    assert len(expected) > 20
    assert {uid: (found.get(uid), held) for uid, held in expected.items() if abs(found.get(uid, 0) - held) > 1000} == {}


def test_off_the_grid_busy_time_of_long_workloads_is_right_within_half_a_percent(
    store: Store, tmp_path_factory: pytest.TempPathFactory
) -> None:
    scenario = off_grid()
    url = store.holding("off-grid", _series_off_grid)

    found = busy_by_workload(accounted(collected_once(url, scenario, tmp_path_factory), scenario.window))

    expected = busy_and_slack_by_workload(scenario, at_least_ms=2 * HOUR_MS)
    assert len(expected) > 5
    wrong = {
        workload: (found.get(workload, 0), busy)
        for workload, (busy, slack) in expected.items()
        if abs(found.get(workload, 0) - busy) > 0.005 * busy + slack
    }
    assert wrong == {}


@pytest.mark.parametrize(
    "dialect",
    [Dialect(honor_labels=False), Dialect(sm_active=True), Dialect(ksm_replicas=2)],
    ids=["exported-labels", "sm-active", "two-replicas"],
)
def test_how_the_cluster_is_instrumented_changes_no_figure(tmp_path: Path, dialect: Dialect) -> None:
    scenario = on_grid()

    with serving(all_series(scenario, dialect)) as url:
        ledger = collected(url, scenario.window, tmp_path / "ledger")
    found = by_class(accounted(ledger, scenario.window))

    assert differences(found, true_waterfall(scenario)) == []


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_other_clusters_come_out_equal_through_the_demo_api(tmp_path: Path, seed: int) -> None:
    scenario = make_scenario(seed=seed, gpus=(4, 12, 24)[seed - 1], days=2, end_ms=END_MS + 5 * HOUR_MS)

    with serving(all_series(scenario)) as url:
        ledger = collected(url, scenario.window, tmp_path / "ledger")
    found = by_class(accounted(ledger, scenario.window))

    assert differences(found, true_waterfall(scenario)) == []


def test_a_window_split_anywhere_sums_to_the_whole(tmp_path: Path) -> None:
    scenario = on_grid()
    whole = scenario.window
    edges = [whole.from_ms, whole.from_ms + 7_777_777, whole.from_ms + 23 * HOUR_MS + 1, whole.to_ms]

    with serving(all_series(scenario)) as url:
        ledger = collected(url, whole, tmp_path / "ledger")
    parts: Counter[str] = Counter()
    for low, high in pairwise(edges):
        parts.update(totals(by_class(accounted(ledger, Window(low, high)))))

    assert parts == totals(true_waterfall(scenario))
