"""The law behind the whole path, on many made-up clusters: on the grid equal, off the grid within the bounds."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

from e2e.path import (
    Scope,
    accounted,
    bounds_by_scope,
    busy_bounds_by_workload,
    by_class,
    collected,
    differences,
    held_by_uid,
    scopes,
)
from e2e.path import busy_by_workload as busy_found_by_workload
from e2e.truth import (
    allocated_ms,
    busy_and_slack_by_workload,
    busy_by_workload,
    has_exact_end,
    true_waterfall,
)
from gpuyield.demo.api import serving
from gpuyield.demo.cluster import Scenario
from gpuyield.demo.exposition import all_series
from gpuyield.demo.scenario import make_scenario
from gpuyield.units import HOUR_MS

pytestmark = pytest.mark.slow_laws

END_MS = 1_750_032_000_000
SEEDS = range(24 if os.environ.get("GPUYIELD_LAWS") == "full" else 6)
SIZES = (1, 2, 4, 7, 8, 12, 16, 20, 32)


def _scenario(seed: int, *, grid: bool) -> Scenario:
    end_ms = END_MS + seed * 3_700_000
    return make_scenario(seed=seed, gpus=SIZES[seed % len(SIZES)], days=2, end_ms=end_ms, grid=grid)


@pytest.mark.parametrize("seed", SEEDS)
def test_on_the_grid_every_cluster_comes_out_equal(tmp_path: Path, seed: int) -> None:
    scenario = _scenario(seed, grid=True)

    with serving(all_series(scenario)) as url:
        ledger = collected(url, scenario.window, tmp_path / "ledger")
    found = by_class(accounted(ledger, scenario.window))

    assert differences(found, true_waterfall(scenario)) == []


@pytest.mark.parametrize("seed", SEEDS)
def test_off_the_grid_every_bound_contains_the_truth(tmp_path: Path, seed: int) -> None:
    scenario = _scenario(seed, grid=False)

    with serving(all_series(scenario)) as url:
        ledger = collected(url, scenario.window, tmp_path / "ledger")
    accounting = accounted(ledger, scenario.window)

    # Nobody knows what was there before the first scrape and after the last.
    hours = range(scenario.window.from_ms // HOUR_MS * HOUR_MS + HOUR_MS, scenario.window.to_ms - HOUR_MS, HOUR_MS)
    true: Counter[Scope] = Counter()
    for (team, hour), found in true_waterfall(scenario, all_seeing=True).items():
        for name, gpu_ms in found.items() if hour in hours else ():
            for scope in scopes(team, hour, name):
                true[scope] += gpu_ms
    bounds = bounds_by_scope(accounting, hours)
    wrong = {
        scope: (bounds.get(scope), true[scope])
        for scope in {*bounds, *true}
        if not bounds.get(scope, (0, 0))[0] <= true[scope] <= bounds.get(scope, (0, 0))[1]
    }
    assert wrong == {}


@pytest.mark.parametrize("seed", SEEDS)
def test_off_the_grid_the_busy_time_of_every_workload_lies_within_its_bounds(tmp_path: Path, seed: int) -> None:
    scenario = _scenario(seed, grid=False)

    with serving(all_series(scenario)) as url:
        ledger = collected(url, scenario.window, tmp_path / "ledger")
    bounds = busy_bounds_by_workload(accounted(ledger, scenario.window))

    assert {
        workload: (bounds.get(workload), gpu_ms)
        for workload, gpu_ms in busy_by_workload(scenario).items()
        if not bounds.get(workload, (0, 0))[0] <= gpu_ms <= bounds.get(workload, (0, 0))[1]
    } == {}


@pytest.mark.parametrize("seed", SEEDS)
def test_off_the_grid_pods_and_long_workloads_are_right(tmp_path: Path, seed: int) -> None:
    scenario = _scenario(seed, grid=False)

    with serving(all_series(scenario)) as url:
        ledger = collected(url, scenario.window, tmp_path / "ledger")
    accounting = accounted(ledger, scenario.window)

    held, busy = held_by_uid(accounting, scenario.window), busy_found_by_workload(accounting)
    late = {
        uid: (held.get(uid), length_ms)
        for uid, length_ms in allocated_ms(scenario).items()
        if has_exact_end(scenario, uid) and abs(held.get(uid, 0) - length_ms) > 1_000
    }
    long = busy_and_slack_by_workload(scenario, at_least_ms=2 * HOUR_MS)
    off = {
        workload: (busy[workload], gpu_ms)
        for workload, (gpu_ms, slack) in long.items()
        if abs(busy[workload] - gpu_ms) > 0.005 * gpu_ms + slack
    }
    assert long
    assert (late, off) == ({}, {})
