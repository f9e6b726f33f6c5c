"""The ledger: days replaced whole, writers side by side, a digest that tells equal content."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from gpuyield.errors import DeclarationError
from gpuyield.ledger import Columns, Ledger
from gpuyield.ledger.tables import COVERAGE, SAMPLES, SCRAPES, SERIES

DAY, NEXT = "2026-11-10", "2026-11-11"

WRITER = """
import sys
from pathlib import Path
from gpuyield.ledger import Ledger
from gpuyield.ledger.tables import SAMPLES
ledger = Ledger.create(Path(sys.argv[1]))
number = int(sys.argv[2])
for turn in range(int(sys.argv[3])):
    def more(rows):
        mine = {"series": [number], "ts_ms": [turn], "value": [0.5]}
        return {name: [*rows[name].tolist(), *mine[name]] for name in mine}
    ledger.update_day(SAMPLES, "2026-11-10", more)
    print(turn, flush=True)
"""


def rows(*samples: tuple[int, int, float]) -> Columns:
    return {
        "series": [one[0] for one in samples],
        "ts_ms": [one[1] for one in samples],
        "value": [one[2] for one in samples],
    }


def test_a_missing_ledger_is_an_error_that_tells_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(DeclarationError, match="gpuyield collect"):
        Ledger.existing(tmp_path / "none")


def test_a_day_is_replaced_whole_and_others_stay(tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "ledger")
    ledger.replace_day(SAMPLES, DAY, rows((1, 5, 0.1), (1, 6, 0.2)))
    ledger.replace_day(SAMPLES, NEXT, rows((1, 7, 0.3)))

    ledger.replace_day(SAMPLES, DAY, rows((2, 5, 0.9)))

    found = ledger.read(SAMPLES)
    assert found["series"].tolist() == [2, 1]
    assert ledger.days(SAMPLES) == [DAY, NEXT]


def test_rows_come_back_in_the_tables_order_whatever_order_they_went_in(tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "ledger")

    ledger.replace_day(SAMPLES, DAY, rows((2, 1, 0.1), (1, 9, float("nan")), (1, 3, 0.5)))

    found = ledger.read(SAMPLES)
    assert list(zip(found["series"].tolist(), found["ts_ms"].tolist(), strict=True)) == [(1, 3), (1, 9), (2, 1)]
    assert np.isnan(found["value"][1])


def test_equal_content_has_an_equal_digest_and_other_content_another(tmp_path: Path) -> None:
    one, two = Ledger.create(tmp_path / "one"), Ledger.create(tmp_path / "two")
    one.replace_day(SAMPLES, DAY, rows((1, 1, 0.1), (2, 1, float("nan"))))
    two.replace_day(SAMPLES, NEXT, rows((9, 9, 0.9)))
    two.replace_day(SAMPLES, DAY, rows((2, 1, float("nan")), (1, 1, 0.1)))
    before = two.digest()

    two.replace_day(SAMPLES, NEXT, rows())

    assert one.digest() == two.digest() != before


def test_text_keeps_every_character(tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "ledger")
    odd = "größe 'quoted' \"double\" \n 日本 \\"
    row = {name: [odd] if kind == "text" else [7] for name, kind in SERIES.columns.items()}

    ledger.replace_day(SERIES, DAY, row)

    assert ledger.read(SERIES, columns=["pod"])["pod"].tolist() == [odd]


def test_an_empty_table_has_its_columns(tmp_path: Path) -> None:
    found = Ledger.create(tmp_path / "ledger").read(COVERAGE)

    assert {name: len(values) for name, values in found.items()} == dict.fromkeys(COVERAGE.columns, 0)


def test_vacuum_deletes_what_no_version_needs_and_nothing_else(tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "ledger")
    for turn in range(5):
        ledger.replace_day(SAMPLES, DAY, rows((1, turn, 0.1)))
        ledger.replace_day(SCRAPES, DAY, {"target": ["ksm"], "ts_ms": [turn]})
    before = ledger.digest()

    deleted = ledger.vacuum()

    assert deleted == 8
    assert ledger.digest() == before


def test_writers_of_one_day_side_by_side_lose_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "ledger"

    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(folder), str(number), "6"], stdout=subprocess.DEVNULL)
        for number in range(3)
    ]

    assert [one.wait() for one in writers] == [0, 0, 0]
    found = Ledger.existing(folder).read(SAMPLES)
    pairs = set(zip(found["series"].tolist(), found["ts_ms"].tolist(), strict=True))
    assert pairs == {(number, turn) for number in range(3) for turn in range(6)}


def test_what_was_acknowledged_is_there_after_a_kill(tmp_path: Path) -> None:
    folder = tmp_path / "ledger"
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(folder), "1", "1000"], stdout=subprocess.PIPE, text=True
    )
    assert writer.stdout is not None
    told = [int(writer.stdout.readline()) for _ in range(5)]

    writer.kill()
    told += [int(line) for line in writer.stdout.read().splitlines() if line]
    writer.wait()
    writer.stdout.close()

    found = Ledger.existing(folder).read(SAMPLES)
    assert set(told) <= set(found["ts_ms"].tolist())
