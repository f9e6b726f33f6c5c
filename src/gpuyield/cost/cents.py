"""Whole cents of a cost, so that every table made of the same money prints the same totals.

Attributed money is split once, whatever the rows are: what was held, what nobody held, and the rest of GPU nodes. Rows
share these, and classes share a row, by largest remainder.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from gpuyield.model.cost import Cost, CostRow
from gpuyield.model.waterfall import ALLOCATED, UNALLOCATED, GpuClass

NOBODYS = (GpuClass.UNAVAILABLE, *UNALLOCATED)
CENTS = 100


@dataclass(frozen=True, slots=True)
class RowCents:
    """Cents of a row: of what was held, and of what nobody held."""

    held: int
    nobodys: int

    @property
    def total(self) -> int:
        """All cents of it."""
        return self.held + self.nobodys


@dataclass(frozen=True, slots=True, kw_only=True)
class CostCents:
    """Cents of all, of each row in order, and of the rest of GPU nodes; None where money is not known."""

    total: RowCents | None
    rows: tuple[RowCents | None, ...]
    rest: int


def cents_of(cost: Cost) -> CostCents:
    """The cents of a cost: rows sum to the total, and total and rest to what is attributed."""
    held, nobodys = cost.total.money(*ALLOCATED), cost.total.money(*NOBODYS)
    if held is None or nobodys is None or cost.bill.attributed is None:
        rows = tuple(_alone(row) for row in cost.rows)
        return CostCents(total=_alone(cost.total), rows=rows, rest=whole_cents(cost.bill.rest))
    parts = [held * CENTS, nobodys * CENTS, cost.bill.rest * CENTS]
    held_cents, nobodys_cents, rest = split_whole(parts, whole_cents(cost.bill.attributed))
    total = RowCents(held_cents, nobodys_cents)
    return CostCents(total=total, rows=_rows(cost.rows, total), rest=rest)


def class_cents(row: CostRow, cents: RowCents | None) -> dict[GpuClass, int | None]:
    """Cents of each class of a row that has time or money; None where that is not known."""
    spent = [leaf for leaf in row.leaves if leaf.gpu_ms or leaf.money]
    if cents is None:
        return {leaf.gpu_class: None if leaf.money is None else whole_cents(leaf.money) for leaf in spent}
    found: dict[GpuClass, int | None] = {}
    for group, amount in ((NOBODYS, cents.nobodys), (ALLOCATED, cents.held)):
        inside = [leaf for leaf in spent if leaf.gpu_class in group]
        shares = split_whole([(leaf.money or Fraction(0)) * CENTS for leaf in inside], amount) if inside else []
        found |= {leaf.gpu_class: share for leaf, share in zip(inside, shares, strict=True)}
    return {leaf.gpu_class: found[leaf.gpu_class] for leaf in spent}


def split_whole(parts: Sequence[Fraction], total: int) -> list[int]:
    """Whole parts near `parts` that sum to `total` (largest remainder; ties to the earlier part)."""
    floors = [part.numerator // part.denominator for part in parts]
    missing = total - sum(floors)
    order = sorted(range(len(parts)), key=lambda at: (floors[at] - parts[at], at))
    for step in range(abs(missing)):
        if missing > 0:
            floors[order[step % len(order)]] += 1
        else:
            floors[order[-1 - step % len(order)]] -= 1
    return floors


def whole_cents(money: Fraction) -> int:
    """An amount in cents, half-even."""
    cents: int = round(money * CENTS)
    return cents


def _alone(row: CostRow) -> RowCents | None:
    held, nobodys = row.money(*ALLOCATED), row.money(*NOBODYS)
    if held is None or nobodys is None:
        return None
    return RowCents(*split_whole([held * CENTS, nobodys * CENTS], whole_cents(held + nobodys)))


def _rows(rows: Sequence[CostRow], total: RowCents) -> tuple[RowCents, ...]:
    held = [(row.money(*ALLOCATED) or Fraction(0)) * CENTS for row in rows]
    nobodys = [(row.money(*NOBODYS) or Fraction(0)) * CENTS for row in rows]
    if not any(one and other for one, other in zip(held, nobodys, strict=True)):
        shares = zip(_shared(held, total.held), _shared(nobodys, total.nobodys), strict=True)
        return tuple(RowCents(one, other) for one, other in shares)
    whole = split_whole([one + other for one, other in zip(held, nobodys, strict=True)], total.total)
    return tuple(
        RowCents(*split_whole([one, other], cents)) for one, other, cents in zip(held, nobodys, whole, strict=True)
    )


def _shared(parts: Sequence[Fraction], total: int) -> list[int]:
    """The parts that there are share the total; one of nothing gets nothing."""
    there = [at for at, part in enumerate(parts) if part]
    found = [0] * len(parts)
    for at, share in zip(there, split_whole([parts[at] for at in there], total) if there else [], strict=True):
        found[at] = share
    return found
