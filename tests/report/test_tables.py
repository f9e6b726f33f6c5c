"""One table model, four forms of it."""

from __future__ import annotations

import csv
import io
from decimal import Decimal
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuyield.report.tables import (
    Cell,
    Column,
    Kind,
    Table,
    csv_text,
    format_cell,
    format_span,
    markdown_table,
    plain_columns,
    printable,
)
from gpuyield.units import HOUR_MS, parse_instant

COLUMNS = (Column("who", "who"), Column("gpu_ms", "GPU-hours", Kind.GPU_TIME), Column("money", "EUR", Kind.MONEY))


def table(*rows: tuple[Cell, ...]) -> Table:
    return Table(title="Held", columns=COLUMNS, rows=rows)


def test_people_read_hours_and_cents_and_a_dash_for_what_is_not_known() -> None:
    held = table(("evals", 1500 * HOUR_MS, Decimal("3735.005")), ("vision", 90_000, None))

    assert held.texts() == [["evals", "1,500", "3,735.00"], ["vision", "0.0", "-"]]


def test_plain_columns_line_up_without_trailing_space() -> None:
    held = table(("evals", 1500 * HOUR_MS, Decimal(1)), ("搜索", HOUR_MS, Decimal(20)))

    lines = plain_columns(held).splitlines()

    assert lines[0] == "Held"
    assert lines[2] == "  evals       1,500    1.00"
    assert lines[3] == "  搜索          1.0   20.00"
    assert all(line == line.rstrip() for line in lines)


def test_csv_carries_plain_values() -> None:
    rows = list(csv.reader(io.StringIO(csv_text(table(("evals", 5_400_001, Decimal("0.1234567")), ("x", None, None))))))

    assert rows == [["who", "gpu_ms", "money"], ["evals", "5400001", "0.1234567"], ["x", "", ""]]


@pytest.mark.parametrize("name", ["=1+1", "+1", "-1", "@sum", "\tx", "\rx"])
def test_a_name_that_a_spreadsheet_would_run_is_quoted(name: str) -> None:
    (_, row) = csv.reader(io.StringIO(csv_text(table((name, 1, Decimal(1)))), newline=""))

    assert row[0] == f"'{name}"


@given(st.text(max_size=40))
def test_csv_gives_back_every_name(name: str) -> None:
    read = list(csv.reader(io.StringIO(csv_text(table((name, 1, None))), newline="")))

    assert read[1][0].removeprefix("'") == name.removeprefix("'")


@given(st.text(max_size=40))
def test_no_name_breaks_out_of_its_markdown_cell(name: str) -> None:
    lines = markdown_table(table((name, 1, None))).splitlines()

    assert len(lines) == 3
    assert lines[2].replace("\\|", "").count("|") == 4


@given(st.text(max_size=40))
def test_no_name_carries_control_or_direction_characters_to_the_screen(name: str) -> None:
    shown = printable(name)

    assert len(shown) == len(name)
    assert not any(letter in shown for letter in "\x1b\x07\n\r\u202e\u2066\u200f")


def test_a_total_is_the_last_line_and_not_in_the_csv() -> None:
    summed = Table(title="", columns=COLUMNS, rows=(("a", HOUR_MS, None),), total=("all", HOUR_MS, None))

    assert plain_columns(summed).splitlines()[-1].startswith("  all") or "all" in plain_columns(summed)
    assert "all" not in csv_text(summed)


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (0.2004, Kind.RATIO, "20.0 %"),
        (Decimal("0.001"), Kind.RATIO, "0.1 %"),
        (parse_instant("2026-11-30T21:00:00Z"), Kind.INSTANT, "30 Nov 22:00"),
        (5_400_000, Kind.DURATION, "1 h 30 m"),
        (1_234, Kind.COUNT, "1,234"),
        (True, Kind.TEXT, "yes"),
    ],
)
def test_a_cell_is_read_by_its_kind(value: Cell, kind: Kind, text: str) -> None:
    assert format_cell(value, kind, zone=ZoneInfo("Europe/Berlin")) == text


@pytest.mark.parametrize(
    ("length_ms", "text"),
    [
        (0, "0s"),
        (800, "800ms"),
        (59_999, "1 m"),
        (3_600_000, "1 h"),
        (3_599_000, "59 m 59 s"),
        (273_600_000, "3 d 4 h"),
        (863_997_835, "10 d"),
        (20_998_000, "5 h 50 m"),
        (86_399_000, "1 d"),
        (-60_000, "-1 m"),
    ],
)
def test_a_span_has_at_most_two_units_the_second_rounded(length_ms: int, text: str) -> None:
    assert format_span(length_ms) == text
