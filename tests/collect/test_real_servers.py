"""Real servers of several generations, and the demo's API, give the same ledger to the millisecond."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from collect.conftest import Collector
from gpuyield.demo.api import serving
from gpuyield.demo.exposition import Dialect, Series, all_series
from gpuyield.demo.scenario import make_scenario
from gpuyield.ledger import Ledger
from gpuyield.ledger.tables import PRICES, RUNS, SAMPLES, SERIES
from gpuyield.units import DAY_MS, HOUR_MS, Window, parse_instant
from servers.session import Store

END_MS = parse_instant("2026-11-20T00:00:00Z")
DAY = Window(END_MS - DAY_MS, END_MS)


def made(*, grid: bool) -> list[Series]:
    dialect = Dialect(honor_labels=grid, sm_active=True, ksm_replicas=1 if grid else 2)
    return all_series(make_scenario(seed=11, gpus=8, days=1, end_ms=END_MS, grid=grid), dialect)


def assert_same(one: Ledger, other: Ledger) -> None:
    for table in (SAMPLES, SERIES, RUNS, PRICES):
        left, right = one.read(table), other.read(table)
        for name in table.columns:
            np.testing.assert_array_equal(left[name], right[name], err_msg=f"{table.name}.{name}")


@pytest.mark.parametrize("grid", [True, False], ids=["on-grid", "off-grid"])
def test_a_real_server_gives_the_ledger_that_the_demo_gives(
    grid: bool, tmp_path: Path, ledger: Ledger, store: Store, collected: Collector
) -> None:
    """Real servers know functions and the demo does not: what is rebuilt equals what is read in full."""
    plain = Ledger.create(tmp_path / "plain")
    url = store.holding(f"collect-{grid}", lambda: made(grid=grid))
    with serving(made(grid=grid)) as demo:
        collected(demo, plain, DAY)

    report = collected(url, ledger, DAY)

    assert report.product == ("Prometheus" if store.generation.is_prometheus else "VictoriaMetrics")
    assert len(ledger.read(SAMPLES)["series"]) > 10_000
    assert_same(ledger, plain)


@pytest.mark.parametrize("chunk_ms", [6 * HOUR_MS, HOUR_MS, 1_000_000])
def test_the_size_of_the_pieces_changes_nothing_on_a_real_server(
    chunk_ms: int, tmp_path: Path, ledger: Ledger, store: Store, collected: Collector
) -> None:
    pieces = Ledger.create(tmp_path / "pieces")
    url = store.holding("collect-False", lambda: made(grid=False))
    collected(url, ledger, DAY)

    collected(url, pieces, DAY, chunk_ms=chunk_ms)

    assert pieces.digest() == ledger.digest()
