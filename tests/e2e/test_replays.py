"""Public traces, replayed through real servers as an exporter would have told them, come out as they were."""

from __future__ import annotations

from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

from e2e.path import accounted, bounds_by_class, collected, collected_once, held_by_uid, true_class
from e2e.traces import STATE_EVERY_MS, Samples, duty_cycles, duty_scenario, duty_series, expected_duty, openb_scenario
from e2e.truth import allocated_ms, has_exact_end, totals, true_waterfall
from gpuyield.demo.cluster import Scenario
from gpuyield.demo.exposition import Series, all_series
from gpuyield.model.cells import CLASSES
from gpuyield.units import DAY_MS, Window
from servers.session import Store


@pytest.fixture(scope="module")
def traces(shared_data: Path) -> Path:
    folder = shared_data / "traces"
    if not folder.is_dir():
        pytest.skip("the public traces (../shared/data/traces) are not beside the repository")
    return folder


@cache
def openb(traces: Path) -> Scenario:
    day_s = DAY_MS // 1000
    return openb_scenario(traces, from_s=124 * day_s, to_s=126 * day_s)


def test_pods_of_a_gpu_cluster_hold_what_the_trace_says(
    store: Store, traces: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    scenario = openb(traces)
    url = store.holding("openb", lambda: _state(scenario))

    accounting = accounted(collected_once(url, scenario, tmp_path_factory), scenario.window)

    held, expected = held_by_uid(accounting, scenario.window), allocated_ms(scenario)
    exact = {uid for uid in expected if has_exact_end(scenario, uid)}
    assert len(exact) > 20
    assert len(expected) - len(exact) > 50
    assert {uid: held.get(uid) for uid in exact} == {uid: expected[uid] for uid in exact}
    assert all(abs(held.get(uid, 0) - length_ms) <= STATE_EVERY_MS for uid, length_ms in expected.items())


def test_all_cards_of_the_trace_are_accounted_and_nothing_is_called_idle_without_a_sample(
    store: Store, traces: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    scenario = openb(traces)
    url = store.holding("openb", lambda: _state(scenario))

    found = bounds_by_class(accounted(collected_once(url, scenario, tmp_path_factory), scenario.window))

    truth = totals(true_waterfall(scenario, all_seeing=True))
    assert sum(one.gpu_ms for one in found.values()) == scenario.gpus * scenario.window.length_ms
    assert found["unallocated"].lo <= truth["unallocated"] <= found["unallocated"].hi
    assert (found["busy"].gpu_ms, found["idle_held"].gpu_ms, found["underused"].gpu_ms) == (0, 0, 0)


def test_duty_cycles_of_a_serving_fleet_are_integrated_sample_by_sample(
    store: Store, traces: Path, tmp_path: Path
) -> None:
    samples = duty_cycles(traces)
    window = Window(1_662_858_720_000, 1_662_940_800_000)
    scenario = duty_scenario(samples, window)
    url = store.holding("duty", lambda: _by_name(scenario, samples))

    accounting = accounted(collected(url, window, tmp_path / "ledger"), window)

    found: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    cells = accounting.cells
    for owner, gpu_class, gpu_ms in zip(
        cells.owner.tolist(), cells.gpu_class.tolist(), cells.gpu_ms.tolist(), strict=True
    ):
        found[cells.owners[owner].workload][true_class(CLASSES[gpu_class])] += gpu_ms
    wrong = []
    for name in samples:
        for gpu_class, length_ms in expected_duty(samples[name], window).items():
            # Whole GPU-ms of each sample, where a third of 57 s may be rounded either way.
            if abs(found[f"worker-{name}"][gpu_class] - length_ms) > len(samples[name]):
                wrong.append((name, gpu_class, found[f"worker-{name}"][gpu_class], length_ms))
    assert wrong == []


def _state(scenario: Scenario) -> list[Series]:
    """Kube-state-metrics of the scenario, without an exporter."""
    return [one for one in all_series(scenario) if "DCGM" not in one.labels["__name__"]]


def _by_name(scenario: Scenario, samples: Samples) -> list[Series]:
    """Kube-state-metrics of the scenario, with the trace's own samples of the cards."""
    return sorted([*duty_series(samples), *_state(scenario)], key=lambda one: one.labels["__name__"])
