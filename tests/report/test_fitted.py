"""Tables within the width of a screen."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuyield.report.fitted import Lines, fitted
from gpuyield.report.tables import Cell, Column, Kind, Table, width_of
from gpuyield.units import parse_instant

START = parse_instant("2026-11-30T20:03:00Z")
WHY = "when evals/nightly-eval-1129-2 ends; before that there is no room for 2 GPUs"
JOBS = Table(
    title="Every job",
    columns=(
        Column("id", "job"),
        Column("gpus", "GPUs that it holds", Kind.COUNT),
        Column("start", "start", Kind.INSTANT),
        Column("cost", "cost, EUR", Kind.MONEY),
        Column("why", "why"),
    ),
    rows=(("search/finetune-7b-1129-2", 4, START, 5519.66, WHY), ("b", 2, None, 1, "")),
    total=("all", 6, None, 5520.66, ""),
)


def text_of(lines: Lines) -> str:
    return "\n".join([lines.title, *lines.heads, *lines.rows, *lines.total])


def shown(width: int) -> str:
    return text_of(fitted(JOBS, width))


def test_where_all_fits_nothing_is_broken() -> None:
    assert shown(160) == (
        "Every job\n"
        "job                         GPUs that it holds   start          cost, EUR   why\n"
        f"search/finetune-7b-1129-2                    4   30 Nov 20:03    5,519.66   {WHY}\n"
        "b                                            2   -                   1.00\n"
        "all                                          6   -               5,520.66"
    )


def test_headings_go_over_two_lines_and_long_texts_over_several() -> None:
    assert shown(100) == (
        "Every job\n"
        "                           GPUs that                   cost,\n"
        "job                         it holds  start              EUR  why\n"
        "search/finetune-7b-1129-2          4  30 Nov 20:03  5,519.66  when evals/nightly-eval-1129-2 ends;\n"
        "                                                              before that there is no room for 2\n"
        "                                                              GPUs\n"
        "b                                  2  -                 1.00\n"
        "all                                6  -             5,520.66"
    )


@pytest.mark.parametrize("width", [100, 80, 60, 40, 30])
def test_nothing_is_lost_and_no_number_broken_at_any_width(width: int) -> None:
    lines = fitted(JOBS, width)

    assert all(width_of(line) <= width for line in (*lines.heads, *lines.rows, *lines.total))
    words = [word.removesuffix(":") for word in text_of(lines).split()]
    for word in ("search/finetune-7b-1129-2", "5,519.66", "5,520.66", "20:03", "GPUs", "holds", *WHY.split()):
        assert word in words, word


CELLS: dict[Kind, st.SearchStrategy[Cell]] = {
    Kind.TEXT: st.text(st.sampled_from("ab 本-/"), max_size=60),
    Kind.COUNT: st.integers(0, 10**9),
    Kind.MONEY: st.decimals(0, 10**6, places=2),
    Kind.INSTANT: st.none() | st.integers(0, 4 * 10**12),
}


@st.composite
def tables(draw: st.DrawFn) -> Table:
    kinds = draw(st.lists(st.sampled_from(list(CELLS)), min_size=1, max_size=9))
    columns = [
        Column(f"c{at}", draw(st.sampled_from(["", "one", "two words", "no x"])), kind) for at, kind in enumerate(kinds)
    ]
    rows = draw(st.lists(st.tuples(*(CELLS[kind] for kind in kinds)), max_size=4))
    return Table(
        title="t", columns=(Column("n", "name"), *columns), rows=tuple((f"r{at}", *row) for at, row in enumerate(rows))
    )


@given(tables(), st.integers(20, 200))
def test_every_letter_of_every_cell_is_shown_within_the_width(table: Table, width: int) -> None:
    lines = fitted(table, width)

    assert all(width_of(line) <= width for line in (*lines.heads, *lines.rows))
    there = sorted(re.sub(r"\s", "", "".join(cell for row in table.texts() for cell in row)))
    left = sorted(re.sub(r"\s", "", "".join(lines.rows)))
    for letter in set(there):
        assert left.count(letter) >= there.count(letter)
