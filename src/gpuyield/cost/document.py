"""The cost document (contracts, section 5): exact amounts divided and rounded once, so that printed parts add up.

The bill is rounded first, then attributed money is split into what was held and what nobody held, over the rows, and
each row over its classes (`cents.py`): in the document too classes sum to the row, rows to `attributed`, and
`attributed + residual` to `source_total`; and documents with other rows print the same totals.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any  # a JSON document

from gpuyield.cost.cents import RowCents, cents_of, class_cents, whole_cents
from gpuyield.model.cost import Cost, CostForm, CostRow, Key, UnitCost
from gpuyield.model.document import gaps_document, schema_name, window_document
from gpuyield.model.waterfall import GpuClass
from gpuyield.units import gpu_hours

PLACES = 2
UNIT_PLACES = 6


def cost_document(cost: Cost) -> dict[str, Any]:
    """The document of a cost; amounts are decimal strings beside the currency, unknown is null plus a gap."""
    cents = cents_of(cost)
    rows = [_row(row, found, cost.currency) for row, found in zip(cost.rows, cents.rows, strict=True)]
    return {
        "schema": schema_name("cost"),
        "window": window_document(cost.window),
        "basis": str(cost.basis),
        "currency": cost.currency,
        "sharing": {
            "idle": str(cost.sharing.idle),
            "unallocated": str(cost.sharing.unallocated),
            "rate": str(cost.sharing.rate),
        },
        "bill": _bill(cost),
        "by": list(cost.by),
        "rows": [*rows, *_rest(cost, cents.rest)],
        "total": _row(cost.total, cents.total, cost.currency),
        **_verified(cost.total),
        "cost_per_verified_outcome": _forms(cost.total, cost.currency),
        "gaps": gaps_document(cost.gaps),
    }


def printed_money(cost: Cost) -> list[tuple[Key, dict[GpuClass, Decimal | None]]]:
    """Money by class as the document prints it, of all (key empty) and of each row: parts that add up."""
    document = cost_document(cost)
    rows = [({}, document["total"]), *((row["key"], row) for row in document["rows"] if "part" not in row)]
    return [
        (key, {GpuClass(name): None if text is None else Decimal(text) for name, text in row["cost"].items()})
        for key, row in rows
    ]


def money_text(money: Fraction | None, places: int = PLACES) -> str | None:
    """An exact amount as a decimal string, half-even at `places`; None stays None."""
    return None if money is None else _text(_whole(money, places), places)


def _rest(cost: Cost, cents: int) -> list[dict[str, Any]]:
    """What GPU nodes cost beyond their GPUs, as a row of its own where there is any."""
    if not cost.bill.rest:
        return []
    amount = _text(cents, PLACES)
    key = dict.fromkeys(cost.by)
    return [{"key": key, "part": "rest_of_gpu_nodes", "total": amount, "cost": {"rest_of_gpu_nodes": amount}}]


def _row(row: CostRow, cents: RowCents | None, currency: str | None) -> dict[str, Any]:
    by_class = class_cents(row, cents)
    return {
        "key": dict(row.key),
        "gpu_ms": {str(leaf.gpu_class): leaf.gpu_ms for leaf in row.leaves if leaf.gpu_class in by_class},
        "gpu_h": gpu_hours(sum(leaf.gpu_ms for leaf in row.leaves)),
        "cost": {
            str(gpu_class): None if found is None else _text(found, PLACES) for gpu_class, found in by_class.items()
        },
        "total": None if cents is None else _text(cents.total, PLACES),
        "shared": money_text(row.shared),
        **_verified(row),
        "cost_per_verified_outcome": _forms(row, currency),
    }


def _bill(cost: Cost) -> dict[str, Any]:
    bill = cost.bill
    total = None if bill.source_total is None else whole_cents(bill.source_total)
    attributed = None if bill.attributed is None else whole_cents(bill.attributed)
    residual = None if total is None or attributed is None else total - attributed
    return {
        "source": bill.source,
        "source_total": None if total is None else _text(total, PLACES),
        "attributed": None if attributed is None else _text(attributed, PLACES),
        "residual": None if residual is None else _text(residual, PLACES),
        "tolerance": str(bill.tolerance),
        "reconciled": bill.is_reconciled,
    }


def _verified(row: CostRow) -> dict[str, Any]:
    found = row.verified
    if found is None:
        return {"verified": None, "verified_bounds": None}
    return {"verified": found.units, "verified_bounds": {"lo": found.lo, "hi": found.hi}}


def _forms(row: CostRow, currency: str | None) -> dict[str, Any]:
    return {str(form): _unit(row.per_outcome[form], currency) for form in CostForm}


def _unit(unit: UnitCost, currency: str | None) -> dict[str, Any]:
    return {
        "value": money_text(unit.value, UNIT_PLACES),
        "lo": money_text(unit.lo, UNIT_PLACES),
        "hi": money_text(unit.hi, UNIT_PLACES),
        "currency": currency,
        "reason": unit.reason,
    }


def _whole(money: Fraction, places: int) -> int:
    shifted: int = round(money * Fraction(10) ** places)
    return shifted


def _text(whole: int, places: int) -> str:
    return f"{Decimal(whole).scaleb(-places):f}"
