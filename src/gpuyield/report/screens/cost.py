"""The answer of `gpuyield cost`: cost per verified outcome, and the reconciled bill."""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, Decimal
from typing import Any  # Documents are JSON.

from gpuyield.report.facts import Document
from gpuyield.report.tables import Cell, Column, Kind, Table

NOBODY = "(nobody)"

FORMS = ("allocated", "busy", "fully_loaded")
FORM_WORDS = {"allocated": "of all held time", "busy": "of busy time", "fully_loaded": "fully loaded"}


def unit_cost(cell: Any, currency: str) -> str | None:
    """`0.0042 EUR (0.0040-0.0045)`; None where it is not known."""
    if not isinstance(cell, dict) or cell.get("value") is None:
        return None
    shown = f"{small_money(Decimal(str(cell['value'])))} {currency}"
    low, high = cell.get("lo"), cell.get("hi")
    if low is not None and high is not None and low != high:
        shown += f" ({small_money(Decimal(str(low)))}-{small_money(Decimal(str(high)))})"
    return shown


def unit_cost_reason(cell: Any) -> str | None:
    """Why a unit cost is not known."""
    return str(cell["reason"]) if isinstance(cell, dict) and cell.get("value") is None and cell.get("reason") else None


def small_money(amount: Decimal) -> str:
    """Cents for what costs a unit or more, two significant digits (at least) for what costs less."""
    if amount == 0 or abs(amount) >= 1:
        return f"{amount.quantize(Decimal('0.01'), ROUND_HALF_EVEN):,}"
    places = -amount.adjusted() + 1
    return f"{amount.quantize(Decimal(1).scaleb(-max(2, places)), ROUND_HALF_EVEN):f}"


def key_words(key: Document) -> str:
    """A row's key as read."""
    return " / ".join(NOBODY if part is None else str(part) for part in key.values()) or "all"


def unit_table(cost: Document) -> Table:
    """Cost per verified outcome by key, in all three forms, or the reason why not."""
    currency = str(cost.get("currency") or "")
    rows: list[tuple[Cell, ...]] = []
    for row in cost["rows"]:
        forms = row.get("cost_per_verified_outcome") or {}
        reasons = [reason for form in FORMS if (reason := unit_cost_reason(forms.get(form)))]
        rows.append(
            (
                key_words(row["key"]),
                spent(row),
                row.get("verified"),
                *(unit_cost(forms.get(form), currency) for form in FORMS),
                reasons[0] if reasons else "",
            )
        )
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
    )


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
