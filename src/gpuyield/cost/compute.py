"""The reconciled bill, its rows, and cost per verified outcome. No I/O here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction

from gpuyield.cost.cents import NOBODYS
from gpuyield.cost.currency import Converter
from gpuyield.cost.focus import charged_in
from gpuyield.cost.prices import PriceBook
from gpuyield.cost.pricing import KeyValues, add_leaves, price_cells
from gpuyield.cost.sharing import shares
from gpuyield.cost.sources import cost_in
from gpuyield.cost.verified import verified_by_key
from gpuyield.model.cells import Cells
from gpuyield.model.cost import Bill, Charge, Cost, CostForm, CostLeaf, CostRow, UnitCost, Verified
from gpuyield.model.declaration import Declaration, RateRule
from gpuyield.model.evidence import Gap
from gpuyield.model.outcome import OutcomeResult
from gpuyield.model.waterfall import ALLOCATED, BUSY, GpuClass
from gpuyield.units import Window, merge_windows

TOLERANCE = Decimal("0.01")
NOT_BY_KEY = "outcomes are not known by this key"


def compute_cost(
    cells: Cells,
    *,
    window: Window,
    by: Sequence[str],
    book: PriceBook,
    declaration: Declaration,
    results: Iterable[OutcomeResult] | None = None,
    quotas: Mapping[str, int] | None = None,
    charges: Sequence[Charge] | None = None,
    tolerance: Decimal = TOLERANCE,
) -> Cost:
    """What the GPU time of a window cost, by key and class.

    `cells` are those of the accounting, cut at `book.edges(window)`. `results` None: no outcome source. `quotas` are
    GPUs by team, for sharing by quota. `charges` are those of the provider's bill, which then is the source's total
    (None: no bill is declared).
    """
    priced = price_cells(cells, window, by, book)
    keyed = sorted(priced.leaves.items(), key=_order)
    total = add_leaves([leaves for _, leaves in keyed])
    listed = list(results) if results is not None else None
    counted = verified_by_key(listed, window, by, cells.owners, declaration) if listed is not None else None
    whole = verified_by_key(listed, window, (), cells.owners, declaration) if listed is not None else None
    shared = shares(dict(keyed), by, declaration.sharing, quotas)
    rows = tuple(
        _row(dict(zip(by, key, strict=True)), leaves, shared.by_key[key], _counted(key, counted, listed), book.currency)
        for key, leaves in keyed
    )
    everything = add_money(total, NOBODYS)
    overall = _row({}, total, everything, _counted((), whole, listed), book.currency)
    if charges is None:
        bill, gaps = _bill(total, window, book, tolerance)
    else:
        bill, gaps = _billed(total, window, book, Converter(book.currency, declaration.rates), charges, tolerance)
    return Cost(
        window=window,
        by=tuple(by),
        basis=book.basis,
        currency=book.currency,
        sharing=declaration.sharing,
        bill=bill,
        total=overall,
        rows=rows,
        gaps=(*priced.gaps, *book.gaps, *gaps, *shared.gaps),
    )


def add_money(leaves: Iterable[CostLeaf], classes: Sequence[GpuClass]) -> Fraction | None:
    """Money of these classes; None where a part of it is not known."""
    found = [leaf.money for leaf in leaves if leaf.gpu_class in classes]
    known = [money for money in found if money is not None]
    return sum(known, Fraction(0)) if len(known) == len(found) else None


def unit_cost(money: Fraction | None, verified: Verified | None, currency: str | None, missing: str) -> UnitCost:
    """Money per verified outcome with its bounds, or the reason why there is none."""
    if money is None:
        return UnitCost(value=None, reason="a price is missing")
    if verified is None:
        return UnitCost(value=None, reason=missing)
    spent = f"{_cents(money)} {currency or ''}".strip()
    if verified.units == 0:
        waiting = f", {verified.hi:,} not judged yet" if verified.hi else ""
        return UnitCost(value=None, reason=f"no verified outcome, {spent} spent{waiting}")
    return UnitCost(value=money / verified.units, lo=money / verified.hi, hi=money / verified.lo)


def _row(
    key: Mapping[str, str | None],
    leaves: tuple[CostLeaf, ...],
    shared: Fraction | None,
    counted: tuple[Verified | None, str],
    currency: str | None,
) -> CostRow:
    verified, missing = counted
    if verified is None and not any(leaf.gpu_ms for leaf in leaves if leaf.gpu_class in ALLOCATED):
        missing = "nothing of it was held"
    allocated, busy = add_money(leaves, ALLOCATED), add_money(leaves, BUSY)
    loaded = None if allocated is None or shared is None else allocated + shared
    if allocated is not None and shared is None:
        unshared = UnitCost(value=None, reason="nobody's cost cannot be shared by the declared rule")
    else:
        unshared = unit_cost(loaded, verified, currency, missing)
    return CostRow(
        key=key,
        leaves=leaves,
        shared=shared,
        verified=verified,
        per_outcome={
            CostForm.FULLY_LOADED: unshared,
            CostForm.ALLOCATED: unit_cost(allocated, verified, currency, missing),
            CostForm.BUSY: unit_cost(busy, verified, currency, missing),
        },
    )


def _counted(
    key: KeyValues, counted: Mapping[KeyValues, Verified] | None, results: Sequence[OutcomeResult] | None
) -> tuple[Verified | None, str]:
    if results is None:
        return None, "no outcome source"
    if counted is None:
        return None, NOT_BY_KEY
    return counted.get(key), "no outcome of it is known"


def _bill(total: Sequence[CostLeaf], window: Window, book: PriceBook, tolerance: Decimal) -> tuple[Bill, list[Gap]]:
    attributed = add_money(total, tuple(GpuClass))
    stated = cost_in(book.nodes, window)
    gaps = []
    if stated is None:
        reason = (
            "The cost source leaves out a part of the window, so the bill cannot be reconciled."
            if book.nodes
            else f"No bill and no cost source of basis {book.basis}: what was spent rests on the declared prices alone."
        )
        gaps.append(Gap(reason=reason, where="bill", window=window))
    rest = Fraction(0)
    if stated is not None and book.rate is RateRule.GPU:
        rest = stated[0] - stated[1]
        attributed = None if attributed is None else attributed + rest
    return (
        Bill(
            source=book.nodes[0].source if book.nodes else None,
            source_total=stated[0] if stated else None,
            attributed=attributed,
            rest=rest,
            tolerance=tolerance,
        ),
        gaps,
    )


def _billed(
    total: Sequence[CostLeaf],
    window: Window,
    book: PriceBook,
    convert: Converter,
    charges: Sequence[Charge],
    tolerance: Decimal,
) -> tuple[Bill, list[Gap]]:
    """The provider's bill on the basis of the prices; its total is not known where it leaves out time."""
    found = list(charged_in(charges, window, book.basis))
    covered = merge_windows(here for one, _ in found if (here := one.window.cut(window)))
    gaps = []
    stated: Fraction | None = None
    if sum(one.length_ms for one in covered) < window.length_ms:
        reason = "The bill leaves out a part of the window, so it cannot be reconciled."
        gaps.append(Gap(reason=reason, where="bill", window=window))
    else:
        stated = sum(
            (amount * convert.factor(one.currency, one.window.from_ms, "The bill") for one, amount in found),
            Fraction(0),
        )
    attributed = add_money(total, tuple(GpuClass))
    bill = Bill(source="focus", source_total=stated, attributed=attributed, rest=Fraction(0), tolerance=tolerance)
    return bill, gaps


def _order(item: tuple[KeyValues, object]) -> tuple[tuple[bool, str], ...]:
    return tuple((value is None, value or "") for value in item[0])


def _cents(money: Fraction) -> str:
    return f"{Decimal(round(money * 100)) / 100:,.2f}"
