"""A provider's bill in FOCUS: what it says in total, and what our rows account for."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction

import pytest

from doubles.cells import Cell, cells_of
from gpuyield.cost.compute import compute_cost
from gpuyield.cost.document import cost_document
from gpuyield.cost.focus import read_charges
from gpuyield.cost.prices import price_book
from gpuyield.errors import DeclarationError
from gpuyield.model.cost import Charge, Cost
from gpuyield.model.declaration import Declaration, ExchangeRate, Price, PriceBasis
from gpuyield.model.waterfall import GpuClass
from gpuyield.units import DAY_MS, HOUR_MS, Money, Window, parse_instant

DAY = Window(parse_instant("2026-11-05T00:00:00Z"), parse_instant("2026-11-06T00:00:00Z"))
HEADER = (
    "ServiceName,BilledCost,EffectiveCost,ListCost,ContractedCost,ChargePeriodStart,ChargePeriodEnd,BillingCurrency"
)
FIVE_HOURS = Cell(owner="evals/evals/n", flavor="h100", gpu_class=GpuClass.UNVERIFIED, gpu_ms=5 * HOUR_MS)


def bill(*rows: str) -> tuple[Charge, ...]:
    return read_charges([f"{line}\n" for line in (HEADER, *rows)], file="bill.csv")


def row(
    billed: str, listed: str = "0", begin: str = "2026-11-05", end: str = "2026-11-06", currency: str = "EUR"
) -> str:
    return f"GPU,{billed},0,{listed},0,{begin}T00:00:00Z,{end}T00:00:00Z,{currency}"


def cost_of(charges: Sequence[Charge], *, basis: PriceBasis = PriceBasis.BILLED, rates: bool = False) -> Cost:
    price = Price(flavor="h100", gpu_hour=Money(Decimal(2), "EUR"), basis=basis)
    dated = (ExchangeRate(base="USD", quote="EUR", rate=Decimal("0.5"), at_ms=0, source="treasury"),) if rates else ()
    return compute_cost(
        cells_of([FIVE_HOURS]),
        window=DAY,
        by=("team",),
        book=price_book([price], currency="EUR", window=DAY, rates=dated),
        declaration=Declaration(currency="EUR", rates=dated),
        charges=charges,
    )


def test_the_bill_is_what_the_rows_account_for_and_a_rest() -> None:
    found = cost_document(cost_of(bill(row("6.05"), row("4.00"))))["bill"]

    assert found == {
        "source": "focus",
        "source_total": "10.05",
        "attributed": "10.00",
        "residual": "0.05",
        "tolerance": "0.01",
        "reconciled": True,
    }


def test_the_column_is_that_of_the_prices_basis() -> None:
    charges = bill(row("6.05", listed="20"))

    assert cost_document(cost_of(charges, basis=PriceBasis.LIST))["bill"]["source_total"] == "20.00"
    assert cost_document(cost_of(charges, basis=PriceBasis.BILLED))["bill"]["source_total"] == "6.05"


def test_a_charge_of_a_month_falls_evenly_on_its_days_and_a_credit_takes_away() -> None:
    charges = bill(row("300", begin="2026-11-01", end="2026-12-01"), row("-1"))

    assert cost_document(cost_of(charges))["bill"]["source_total"] == "9.00"


def test_another_currency_enters_by_its_dated_rate_only() -> None:
    charges = bill(row("20", currency="USD"))

    assert cost_document(cost_of(charges, rates=True))["bill"]["source_total"] == "10.00"
    with pytest.raises(DeclarationError, match=r"The bill is in USD"):
        cost_of(charges)


@pytest.mark.parametrize("charges", [(), bill(row("6.05", begin="2026-11-04", end="2026-11-05"))])
def test_a_bill_that_leaves_out_time_reconciles_nothing(charges: tuple[Charge, ...]) -> None:
    cost = cost_of(charges)

    assert (cost.bill.source_total, cost.bill.is_reconciled) == (None, None)
    assert [gap.where for gap in cost.gaps] == ["bill"]


def test_amounts_are_exact() -> None:
    (charge,) = bill(row("0.000000000000000001"))

    assert charge.amounts[PriceBasis.BILLED] == Fraction(1, 10**18)
    assert charge.window.length_ms == DAY_MS


def test_every_wrong_row_is_named_at_once_with_its_line() -> None:
    rows = (
        row("NaN"),
        row("1e400000000"),
        row("6.05", begin="2026-11-07"),
        row("1", currency="euro"),
        "GPU,1",
        row("x"),
    )

    with pytest.raises(DeclarationError) as caught:
        bill(row("1"), *rows)

    assert [one.where for one in caught.value.mistakes] == [f"bill.csv:{line}" for line in range(3, 9)]


def test_a_file_that_is_no_focus_bill_says_what_is_missing() -> None:
    with pytest.raises(DeclarationError, match=r"column ListCost, .* is missing"):
        read_charges(["date,BilledCost\n", "2026-11-05,1\n"], file="bill.csv")
    with pytest.raises(DeclarationError, match=r"column .* is missing"):
        read_charges([], file="bill.csv")
    with pytest.raises(DeclarationError, match=r"not CSV"):
        bill('GPU,"6.05,0')
