"""The money of the accounting's cells: price x GPU time, exact, by key and class. No I/O here."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from gpuyield.cost.prices import PriceBook
from gpuyield.errors import DeclarationError
from gpuyield.model.cells import CLASSES, Cells, Ints
from gpuyield.model.cost import CostLeaf
from gpuyield.model.evidence import Gap
from gpuyield.model.waterfall import GpuClass
from gpuyield.units import HOUR_MS, Window, format_instant

KeyValues = tuple[str | None, ...]

DIMENSIONS = ("team", "namespace", "family", "workload", "flavor", "node", "hour")


@dataclass(frozen=True, slots=True, kw_only=True)
class Priced:
    """Leaves by key, in the order of `GpuClass`, and the flavors without a price."""

    leaves: dict[KeyValues, tuple[CostLeaf, ...]]
    gaps: tuple[Gap, ...]


def price_cells(cells: Cells, window: Window, by: Sequence[str], book: PriceBook) -> Priced:
    """The money of each key and class; None where any part of it has no price.

    The cells must have been cut at `book.edges(window)`, so that each lies within one price. `by` may name any of
    `DIMENSIONS`; a value None is nobody's.

    Raises:
        DeclarationError: Another dimension.
    """
    columns = [_column(cells, dimension) for dimension in by]
    edges = np.asarray(book.edges(window), dtype=np.int64)
    piece = np.searchsorted(edges, cells.from_ms, side="right").astype(np.int64)
    groups = [*columns, cells.gpu_class, cells.flavor, cells.node, piece]
    first, sums = _grouped(groups, cells.gpu_ms)
    sums_by: dict[KeyValues, dict[GpuClass, tuple[int, Fraction | None]]] = defaultdict(dict)
    unpriced: dict[str | None, int] = defaultdict(int)
    starts = [window.from_ms, *edges.tolist()]
    for row, gpu_ms in zip(first.tolist(), sums.tolist(), strict=True):
        key = tuple(_value(cells, dimension, row) for dimension in by)
        flavor = _named(cells.flavors, int(cells.flavor[row]))
        price = book.price(flavor, _named(cells.nodes, int(cells.node[row])), starts[int(piece[row])])
        money = None if price is None else price.gpu_hour * gpu_ms / HOUR_MS
        if price is None and gpu_ms:
            unpriced[flavor] += gpu_ms
        gpu_class = CLASSES[int(cells.gpu_class[row])]
        had_ms, had = sums_by[key].get(gpu_class, (0, Fraction(0)))
        if gpu_ms == 0:
            money = Fraction(0)
        sums_by[key][gpu_class] = had_ms + gpu_ms, None if had is None or money is None else had + money
    leaves = {key: _leaves(found) for key, found in sums_by.items()}
    return Priced(leaves=leaves, gaps=tuple(_gap(flavor, gpu_ms, window) for flavor, gpu_ms in _sorted(unpriced)))


def add_leaves(listed: Sequence[Sequence[CostLeaf]]) -> tuple[CostLeaf, ...]:
    """The same classes of several keys together."""
    found: dict[GpuClass, tuple[int, Fraction | None]] = {}
    for leaves in listed:
        for leaf in leaves:
            gpu_ms, money = found.get(leaf.gpu_class, (0, Fraction(0)))
            total = None if money is None or leaf.money is None else money + leaf.money
            found[leaf.gpu_class] = gpu_ms + leaf.gpu_ms, total
    return _leaves(found)


def _leaves(found: dict[GpuClass, tuple[int, Fraction | None]]) -> tuple[CostLeaf, ...]:
    empty = (0, Fraction(0))
    return tuple(
        CostLeaf(gpu_class=one, gpu_ms=found.get(one, empty)[0], money=found.get(one, empty)[1]) for one in CLASSES
    )


def _column(cells: Cells, dimension: str) -> Ints:
    match dimension:
        case "flavor":
            return cells.flavor
        case "node":
            return cells.node
        case "hour":
            return cells.from_ms // HOUR_MS
        case "team" | "namespace" | "family" | "workload":
            names: list[str | None] = [getattr(owner, dimension) for owner in cells.owners]
            known = sorted({name for name in names if name is not None})
            codes: dict[str | None, int] = {None: -1, **{name: at for at, name in enumerate(known)}}
            lookup = np.asarray([*(codes[name] for name in names), -1], dtype=np.int64)
            return lookup[cells.owner]
    raise DeclarationError(
        f'"{dimension}" is nothing to split cost by.', where="--by", fix=f"Use {', '.join(DIMENSIONS)}."
    )


def _value(cells: Cells, dimension: str, row: int) -> str | None:
    match dimension:
        case "flavor":
            return _named(cells.flavors, int(cells.flavor[row]))
        case "node":
            return _named(cells.nodes, int(cells.node[row]))
        case "hour":
            return format_instant(int(cells.from_ms[row]) // HOUR_MS * HOUR_MS)
    owner = int(cells.owner[row])
    found: str | None = getattr(cells.owners[owner], dimension) if owner >= 0 else None
    return found


def _named(names: Sequence[str], at: int) -> str | None:
    return names[at] if at >= 0 else None


def _grouped(columns: Sequence[Ints], values: Ints) -> tuple[Ints, Ints]:
    """(a row of each group, the sum of its values), in order of the columns."""
    if not len(values):
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    order = np.lexsort([np.asarray(one) for one in reversed(columns)])
    changed = np.zeros(len(values), dtype=np.bool_)
    changed[0] = True
    for one in columns:
        ordered = np.asarray(one)[order]
        changed[1:] |= ordered[1:] != ordered[:-1]
    starts = np.flatnonzero(changed)
    sums = np.add.reduceat(np.asarray(values, dtype=np.int64)[order], starts)
    return order[starts].astype(np.int64), sums.astype(np.int64)


def _sorted(unpriced: dict[str | None, int]) -> list[tuple[str | None, int]]:
    return sorted(unpriced.items(), key=lambda one: (one[0] is None, one[0] or ""))


def _gap(flavor: str | None, gpu_ms: int, window: Window) -> Gap:
    if flavor is None:
        reason = "The flavor of these GPUs is not known, so neither is their price: their cost is not known, not 0."
    else:
        reason = f"No price for flavor {flavor}: its cost is shown as not known, not as 0. Add it under prices."
    return Gap(reason=reason, where="prices", window=window, gpu_ms=gpu_ms)
