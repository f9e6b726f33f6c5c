"""The answer of `gpuyield cost`: cost per verified outcome, and the reconciled bill."""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, Decimal
from typing import Any  # Documents are JSON.
from zoneinfo import ZoneInfo

from gpuyield.cost.compute import NOT_BY_KEY
from gpuyield.cost.document import cost_document
from gpuyield.model.cost import Cost
from gpuyield.report.answer import Answer, Next
from gpuyield.report.facts import Document
from gpuyield.report.screens.account import gap_notes, zone_of_gaps
from gpuyield.report.sentences import key_word, listed
from gpuyield.report.tables import Cell, Column, Kind, Table

FORMS = ("allocated", "busy", "fully_loaded")
FORM_WORDS = {"allocated": "of all held time", "busy": "of busy time", "fully_loaded": "fully loaded"}


def unit_cost(cell: Any, currency: str) -> str | None:
    """`0.0042 EUR (0.0040-0.0045)`; None where it is not known."""
    found = unit_cost_parts(cell, currency)
    return None if found is None else " ".join(part for part in found if part)


def unit_cost_parts(cell: Any, currency: str) -> tuple[str, str] | None:
    """The value, and its bounds in brackets (empty where there are none)."""
    if not isinstance(cell, dict) or cell.get("value") is None:
        return None
    low, high = cell.get("lo"), cell.get("hi")
    bounds = ""
    if low is not None and high is not None and low != high:
        bounds = f"({small_money(Decimal(str(low)))}-{small_money(Decimal(str(high)))})"
    return f"{small_money(Decimal(str(cell['value'])))} {currency}".rstrip(), bounds


def unit_cost_reason(cell: Any) -> str | None:
    """Why a unit cost is not known."""
    return str(cell["reason"]) if isinstance(cell, dict) and cell.get("value") is None and cell.get("reason") else None


def small_money(amount: Decimal) -> str:
    """Cents for what costs a unit or more, two significant digits (at least) for what costs less."""
    if amount == 0 or abs(amount) >= 1:
        return f"{amount.quantize(Decimal('0.01'), ROUND_HALF_EVEN):,}"
    places = -amount.adjusted() + 1
    return f"{amount.quantize(Decimal(1).scaleb(-max(2, places)), ROUND_HALF_EVEN):f}"


def row_words(row: Document) -> str:
    """Whose a row is, as read."""
    if "part" in row:
        return str(row["part"]).replace("_", " ").replace("gpu", "GPU")
    return key_words(row["key"])


def key_words(key: Document) -> str:
    """A row's key as read."""
    return " / ".join(key_word(name, part) for name, part in key.items()) or "all"


def unit_table(cost: Document) -> Table:
    """Cost per verified outcome by key, in all three forms, or the reason why not."""
    currency = str(cost.get("currency") or "")
    rows = [_unit_cells(row, row_words(row), spent(row)) for row in cost["rows"]]
    amounts = [spent(row) for row in cost["rows"]]
    known = [amount for amount in amounts if amount is not None]
    everything = sum(known, Decimal(0)) if len(known) == len(amounts) else None
    return Table(
        title=f"Cost per verified outcome, {currency}".rstrip(", "),
        columns=(
            Column("key", " / ".join(_names(cost)) or "who"),
            Column("spent", f"spent, {currency}".rstrip(", "), Kind.MONEY),
            Column("verified", "verified", Kind.COUNT),
            *(Column(f"per_verified_{form}", FORM_WORDS[form], Kind.NUMBER) for form in FORMS),
            Column("reason", "why not"),
        ),
        rows=tuple(rows),
        total=_unit_cells(cost, "all", everything) if len(rows) > 1 else None,
    )


def _unit_cells(found: Document, whose: str, money: Decimal | None) -> tuple[Cell, ...]:
    forms = found.get("cost_per_verified_outcome") or {}
    reasons = [reason for form in FORMS if (reason := unit_cost_reason(forms.get(form)))]
    costs = (unit_cost(forms.get(form), "") for form in FORMS)
    return whose, money, found.get("verified"), *costs, reasons[0] if reasons else ""


def spent(row: Document) -> Decimal | None:
    """The money of a row: the sum of its classes; None where one of them has no price."""
    total = Decimal(0)
    for amount in (row.get("cost") or {}).values():
        if amount is None:
            return None
        total += Decimal(str(amount["amount"] if isinstance(amount, dict) else amount))
    return total


def _names(cost: Document) -> list[str]:
    return list(next((row["key"] for row in cost["rows"]), {}))


def cost_answer(cost: Cost, *, zone: ZoneInfo, exit_code: int = 0) -> Answer:
    """Cost per verified outcome by key, then the bill."""
    document = cost_document(cost)
    return Answer(
        document=document,
        headline=(unit_finding(document) + ".", *bill_words(document)),
        tables=(unit_table(document),),
        csv=classes_table(document),
        notes=gap_notes(cost.gaps, zone=zone),
        next=(
            Next(command="gpuyield decide", why="what to change first"),
            Next(command="gpuyield report --out report.html", why="one page for all of it"),
        ),
        exit_code=exit_code,
        zone=zone_of_gaps(cost.gaps, zone),
    )


def unit_finding(cost: Document) -> str:
    """What a verified outcome costs, or why nobody can say."""
    currency = str(cost.get("currency") or "")
    known, reasons = [], []
    for row in cost["rows"]:
        cell = (row.get("cost_per_verified_outcome") or {}).get("allocated")
        shown = unit_cost(cell, currency)
        if shown:
            known.append(f"{key_words(row['key'])} {shown}")
        elif reason := unit_cost_reason(cell):
            reasons.append(reason)
    if known:
        return f"A verified outcome costs: {listed(known, most=3)}"
    if NOT_BY_KEY in reasons and (shown := unit_cost(cost["cost_per_verified_outcome"]["allocated"], currency)):
        return f"A verified outcome costs {shown}; outcomes do not tell their {listed(_names(cost))}"
    if not currency:
        return "Cost is not known: no prices are declared"
    if "no outcome source" in reasons:
        return "Cost per verified outcome is not known: no outcomes were imported"
    return "No outcome was verified, so its cost is not known"


def bill_words(cost: Document) -> tuple[str, ...]:
    """Whether the rows account for the bill."""
    bill = cost.get("bill") or {}
    if bill.get("source_total") is None:
        return ()
    if bill.get("attributed") is None:
        return (f"The source's {bill['source_total']} cannot be attributed: a price is missing.",)
    state = "reconciles with" if bill.get("reconciled") else "does not reconcile with"
    difference = f"difference {bill['residual']}, tolerance {bill['tolerance']}"
    return (f"The attributed {bill['attributed']} {state} the source's {bill['source_total']} ({difference}).",)


def classes_table(cost: Document) -> Table:
    """Money and GPU time of every class of every key: what goes into a spreadsheet."""
    names = _names(cost)
    rows: list[tuple[Cell, ...]] = []
    for row in cost["rows"]:
        times = row.get("gpu_ms") or {}
        for gpu_class, amount in row["cost"].items():
            money = None if amount is None else Decimal(str(amount))
            rows.append((*row["key"].values(), gpu_class, times.get(gpu_class), money, cost.get("currency")))
    return Table(
        title="",
        columns=(
            *(Column(name, name) for name in names),
            Column("class", "class"),
            Column("gpu_ms", "GPU-ms", Kind.GPU_TIME),
            Column("cost", "cost", Kind.MONEY),
            Column("currency", "currency"),
        ),
        rows=tuple(rows),
    )
