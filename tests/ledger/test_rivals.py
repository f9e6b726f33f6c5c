from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest

from gpuyield.ledger import Ledger
from gpuyield.ledger.tables import SAMPLES


@pytest.mark.parametrize("first", [True, False], ids=["new-table", "table-with-another-day"])
def test_two_first_writers_of_a_day_leave_its_rows_once(first: bool, tmp_path: Path) -> None:
    rows = {"series": np.arange(50), "ts_ms": np.arange(50), "value": np.zeros(50)}
    ledger = Ledger.create(tmp_path)
    if not first:
        ledger.replace_day(SAMPLES, "2026-11-09", rows)
    together = threading.Barrier(2)
    errors: list[Exception] = []

    def write() -> None:
        together.wait()
        try:
            ledger.update_day(SAMPLES, "2026-11-10", lambda _: rows)
        except Exception as err:
            errors.append(err)

    rivals = [threading.Thread(target=write) for _ in range(2)]
    for one in rivals:
        one.start()
    for one in rivals:
        one.join()

    assert errors == []
    assert len(ledger.read(SAMPLES, days=["2026-11-10"])["series"]) == 50
