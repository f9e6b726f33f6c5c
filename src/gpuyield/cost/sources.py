"""Rows of a cost source as the ledger holds them, as exact values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any  # columns of the ledger

from gpuyield.model.cost import NodeCost
from gpuyield.model.declaration import PriceBasis
from gpuyield.units import Window, merge_windows


def node_costs(rows: Mapping[str, Sequence[Any]]) -> tuple[NodeCost, ...]:
    """What the rows of the table `prices` say, those of nothing or of no time left out."""
    names = ("source", "node", "flavor", "from_ms", "to_ms", "gpu_hours", "gpu_cost", "total_cost", "currency", "basis")
    found = []
    for values in zip(*(list(rows[name]) for name in names), strict=True):
        row = dict(zip(names, values, strict=True))
        gpu_cost, total = _amount(row["gpu_cost"]), _amount(row["total_cost"])
        if gpu_cost is None or total is None or int(row["to_ms"]) <= int(row["from_ms"]):
            continue
        found.append(
            NodeCost(
                source=str(row["source"]),
                node=str(row["node"]),
                flavor=str(row["flavor"]),
                window=Window(int(row["from_ms"]), int(row["to_ms"])),
                gpu_hours=_amount(repr(float(row["gpu_hours"]))) or Fraction(0),
                gpu_cost=gpu_cost,
                total_cost=total,
                currency=str(row["currency"]),
                basis=PriceBasis(str(row["basis"] or "list")),
            )
        )
    return tuple(found)


def cost_in(costs: Iterable[NodeCost], window: Window) -> tuple[Fraction, Fraction] | None:
    """(total, GPU part) of GPU nodes in a window, spans prorated; None where the source leaves time out."""
    listed = [one for one in costs if one.flavor or one.gpu_hours > 0]
    pieces = [(one, here) for one in listed if (here := one.window.cut(window))]
    covered = merge_windows(here for _, here in pieces)
    if sum(one.length_ms for one in covered) < window.length_ms or not pieces:
        return None
    total = gpu = Fraction(0)
    for one, here in pieces:
        part = Fraction(here.length_ms, one.window.length_ms)
        total += one.total_cost * part
        gpu += one.gpu_cost * part
    return total, gpu


def _amount(text: str) -> Fraction | None:
    try:
        found = Decimal(text)
    except InvalidOperation:
        return None
    return Fraction(found) if found.is_finite() else None
