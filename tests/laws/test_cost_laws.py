"""Money adds up: classes to the row, rows to what was attributed, windows to the whole."""

from __future__ import annotations

import csv
import io
import re
from collections import defaultdict
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from zoneinfo import ZoneInfo

from hypothesis import given
from hypothesis import strategies as st

from doubles.cells import Cell, cells_of
from gpuyield.cli.show import as_csv, as_markdown
from gpuyield.cost.cents import split_whole
from gpuyield.cost.compute import compute_cost
from gpuyield.cost.document import cost_document
from gpuyield.cost.prices import PriceBook, price_book
from gpuyield.model.cost import Charge, Cost, NodeCost
from gpuyield.model.declaration import Declaration, Price, PriceBasis, RateRule, Sharing, SharingRule
from gpuyield.model.waterfall import ALLOCATED, GpuClass
from gpuyield.report.screens.cost import cost_answer
from gpuyield.report.tables import plain_columns
from gpuyield.units import HOUR_MS, Money, Window

HOURS = 6
WINDOW = Window(0, HOURS * HOUR_MS)
SPENT = r"(?m) (-?[\d,]+\.\d\d) +(?:-|\d)"
"""Money in a row, which has a number, or a dash, behind it."""
OWNERS = (None, "evals/evals/nightly", "evals/evals/weekly", "support/support/chat")


@st.composite
def cell(draw: st.DrawFn, flavors: tuple[str, ...] = ("h100", "a100")) -> Cell:
    owner = draw(st.sampled_from(OWNERS))
    classes = [one for one in GpuClass if (one in ALLOCATED) is (owner is not None)]
    return Cell(
        owner=owner,
        flavor=draw(st.sampled_from(flavors)),
        gpu_class=draw(st.sampled_from(classes)),
        gpu_ms=draw(st.integers(0, 8 * HOUR_MS)),
        from_ms=draw(st.integers(0, HOURS - 1)) * HOUR_MS,
        node=draw(st.sampled_from(("n1", "n2"))),
    )


@st.composite
def book_in(draw: st.DrawFn, window: Window = WINDOW) -> PriceBook:
    declared = []
    for flavor in ("h100", "a100"):
        steps = sorted(draw(st.sets(st.integers(1, HOURS - 1), max_size=2)))
        edges = [None, *(step * HOUR_MS for step in steps), None]
        for low, high in pairwise(edges):
            amount = Decimal(draw(st.integers(1, 2_000))) / 100
            money = Money(amount, "EUR")
            declared.append(Price(flavor=flavor, gpu_hour=money, from_ms=low, to_ms=high))
    nodes = [
        NodeCost(
            source="opencost",
            node="n1",
            flavor="h100",
            window=window,
            gpu_hours=Fraction(24),
            gpu_cost=Fraction(60),
            total_cost=Fraction(draw(st.integers(60, 100_000)), 7),
            currency="EUR",
            basis=PriceBasis.LIST,
        )
    ]
    rate = draw(st.sampled_from(RateRule))
    return price_book(declared, nodes, currency="EUR", rate=rate, window=window)


@st.composite
def charge(draw: st.DrawFn) -> Charge:
    """A charge or a credit of a bill, part of it perhaps outside the window."""
    first = draw(st.integers(-2, HOURS))
    amount = draw(st.fractions(min_value=-1_000, max_value=10_000, max_denominator=997))
    return Charge(
        window=Window(first * HOUR_MS, draw(st.integers(first + 1, HOURS + 3)) * HOUR_MS),
        amounts=dict.fromkeys(PriceBasis, amount),
        currency="EUR",
    )


THIRD = Charge(window=WINDOW, amounts=dict.fromkeys(PriceBasis, Fraction(1, 3)), currency="EUR")
bills = st.none() | st.lists(charge(), max_size=4).map(lambda some: [THIRD, *some])


def cost_of(
    cells: list[Cell],
    book: PriceBook,
    by: tuple[str, ...],
    window: Window = WINDOW,
    charges: list[Charge] | None = None,
) -> Cost:
    sharing = Sharing(unallocated=SharingRule.BY_ALLOCATED, rate=book.rate)
    declaration = Declaration(currency="EUR", sharing=sharing)
    return compute_cost(cells_of(cells), window=window, by=by, book=book, declaration=declaration, charges=charges)


splits = st.sampled_from([(), ("team",), ("team", "flavor"), ("namespace", "workload", "hour"), ("node",)])


@given(st.lists(cell(), max_size=20), book_in(), splits, bills)
def test_printed_classes_sum_to_the_row_rows_to_attributed_and_with_the_residual_to_the_bill(
    cells: list[Cell], book: PriceBook, by: tuple[str, ...], charges: list[Charge] | None
) -> None:
    document = cost_document(cost_of(cells, book, by, charges=charges))

    for row in document["rows"]:
        assert sum(map(Decimal, row["cost"].values()), Decimal(0)) == Decimal(row["total"])
    bill = document["bill"]
    total = sum((Decimal(row["total"]) for row in document["rows"]), Decimal(0))
    assert total == Decimal(bill["attributed"])
    assert Decimal(bill["attributed"]) + Decimal(bill["residual"]) == Decimal(bill["source_total"])


@given(st.lists(cell(), min_size=1, max_size=20), book_in(), splits, bills)
def test_money_sums_to_what_was_attributed_in_every_format(
    cells: list[Cell], book: PriceBook, by: tuple[str, ...], charges: list[Charge] | None
) -> None:
    answer = cost_answer(cost_of(cells, book, by, charges=charges), zone=ZoneInfo("UTC"))

    attributed = Decimal(answer.document["bill"]["attributed"])
    rows = list(csv.DictReader(io.StringIO(as_csv(answer))))
    assert sum((Decimal(row["cost"]) for row in rows), Decimal(0)) == attributed
    for text in (as_markdown(answer).replace("|", " "), plain_columns(answer.tables[0])):
        spent = [Decimal(found.replace(",", "")) for found in re.findall(SPENT, text)]
        total = [spent.pop()] if len(spent) > 1 else [attributed]
        assert [sum(spent, Decimal(0)), *total] == [attributed, attributed]


@given(st.lists(cell(), max_size=20), book_in(), splits)
def test_every_split_into_rows_sums_to_price_times_time_of_each_cell(
    cells: list[Cell], book: PriceBook, by: tuple[str, ...]
) -> None:
    cost = cost_of(cells, book, by)

    one_by_one = Fraction(0)
    for one in cells:
        price = book.price(one.flavor, one.node, one.from_ms)
        assert price is not None
        one_by_one += price.gpu_hour * one.gpu_ms / HOUR_MS
    assert cost.total.total == one_by_one
    assert sum((row.total or Fraction(0) for row in cost.rows), Fraction(0)) == one_by_one


@given(st.lists(cell(), max_size=20), book_in(), st.integers(0, HOURS))
def test_cost_adds_up_over_any_split_of_the_window(cells: list[Cell], book: PriceBook, at_hour: int) -> None:
    at_ms = at_hour * HOUR_MS

    whole = cost_of(cells, book, ("team",))
    left = cost_of([one for one in cells if one.from_ms < at_ms], book, ("team",), Window(0, at_ms))
    right = cost_of([one for one in cells if one.from_ms >= at_ms], book, ("team",), Window(at_ms, WINDOW.to_ms))

    by_team: dict[str | None, Fraction] = defaultdict(Fraction)
    for row in (*left.rows, *right.rows):
        by_team[row.key["team"]] += row.total or 0
    assert {row.key["team"]: row.total for row in whole.rows} == dict(by_team)


@given(st.lists(cell(), min_size=1, max_size=20), book_in())
def test_what_is_shared_is_all_of_it_or_nothing(cells: list[Cell], book: PriceBook) -> None:
    cost = cost_of(cells, book, ("team",))

    free = cost.total.money(*(one for one in GpuClass if one.startswith("unallocated.")))
    shared = [row.shared for row in cost.rows]
    if None in shared:
        assert cost.total.gpu_ms(*ALLOCATED) == 0
    else:
        assert sum((one or Fraction(0) for one in shared), Fraction(0)) == free


@given(st.lists(cell(flavors=("h100", "h200")), max_size=20), book_in())
def test_a_missing_price_makes_exactly_what_rests_on_it_unknown(cells: list[Cell], book: PriceBook) -> None:
    cost = cost_of(cells, book, ("flavor",))

    for row in cost.rows:
        unknown = row.key["flavor"] == "h200" and row.gpu_ms(*GpuClass) > 0
        assert (row.total is None) is unknown


@given(
    st.lists(st.fractions(min_value=-1_000, max_value=1_000, max_denominator=1_000), min_size=1, max_size=12),
    st.integers(-3, 3),
)
def test_split_wholes_sum_to_the_total_and_stay_near_their_parts(parts: list[Fraction], off: int) -> None:
    total = round(sum(parts)) + off

    wholes = split_whole(parts, total)

    assert sum(wholes) == total
    assert all(abs(whole - part) <= 1 + abs(off) for whole, part in zip(wholes, parts, strict=True))
