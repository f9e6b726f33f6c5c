"""The price of a GPU-hour by flavor, node and instant: declared, else as a cost source states it.

A missing price is no price, never 0. Bases are never mixed, currencies never without a dated rate.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from gpuyield.cost.currency import Converter
from gpuyield.cost.suspects import suspicious
from gpuyield.model.cost import GpuPrice, NodeCost
from gpuyield.model.declaration import ExchangeRate, Price, PriceBasis, RateRule
from gpuyield.model.evidence import Gap
from gpuyield.units import Window

_PREFERRED = (PriceBasis.CONTRACTED, PriceBasis.EFFECTIVE, PriceBasis.BILLED, PriceBasis.LIST)


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceBook:
    """All prices of one basis in one currency, what a source states in it, and what is doubtful about them."""

    basis: PriceBasis
    currency: str | None
    rate: RateRule = RateRule.NODE
    prices: tuple[GpuPrice, ...] = ()
    nodes: tuple[NodeCost, ...] = ()
    gaps: tuple[Gap, ...] = ()
    _by_flavor: Mapping[str, Sequence[GpuPrice]] = field(default_factory=dict, repr=False, compare=False)
    _by_node: Mapping[str, Sequence[GpuPrice]] = field(default_factory=dict, repr=False, compare=False)

    def price(self, flavor: str | None, node: str | None, at_ms: int) -> GpuPrice | None:
        """The price at an instant: the declared one of the flavor, else what is stated for the node; None for neither.

        A node is known by its name, whatever flavor the cost source takes it for.
        """
        declared = [one for one in self._by_flavor.get(flavor or "", ()) if one.node is None and one.holds_at(at_ms)]
        listed = declared or [one for one in self._by_node.get(node or "", ()) if one.holds_at(at_ms)]
        return max(listed, key=lambda one: one.from_ms or 0) if listed else None

    def flavor_price(self, flavor: str, at_ms: int) -> Fraction | None:
        """One figure for a flavor: its own price, else the mean over the nodes that have one."""
        whole = self.price(flavor, None, at_ms)
        if whole:
            return whole.gpu_hour
        found = [one.gpu_hour for one in self._by_flavor.get(flavor, ()) if one.holds_at(at_ms)]
        return sum(found, Fraction(0)) / len(found) if found else None

    def edges(self, window: Window) -> tuple[int, ...]:
        """The instants inside a window at which a price changes: the accounting must be cut there."""
        found = {edge for one in self.prices for edge in (one.from_ms, one.to_ms) if edge is not None}
        return tuple(sorted(edge for edge in found if window.from_ms < edge < window.to_ms))


def price_book(
    declared: Iterable[Price],
    nodes: Iterable[NodeCost] = (),
    *,
    currency: str | None,
    rates: Iterable[ExchangeRate] = (),
    rate: RateRule = RateRule.NODE,
    basis: PriceBasis | None = None,
    window: Window,
) -> PriceBook:
    """The prices that hold in a window.

    Without a `basis` that of the declared prices is taken (contracted before effective, billed, list), else that of
    the cost source. A flavor with a declared price takes no other; the source's price is then held against it.

    Raises:
        DeclarationError: A price in another currency, and no rate for it.
    """
    listed, stated = list(declared), list(nodes)
    chosen = basis or _basis(listed, stated)
    reporting = currency or _currency(listed, stated)
    convert = Converter(reporting, tuple(rates))
    prices = [piece for one in listed if one.basis is chosen for piece in convert.pieces(one, window)]
    declared_here = tuple(prices)
    covered = {one.flavor for one in prices}
    inside = tuple(
        _converted(one, reporting, convert) for one in stated if one.basis is chosen and one.window.cut(window)
    )
    gaps: list[Gap] = []
    for one in inside:
        found, doubts = _stated_price(one, rate, declared_here)
        gaps.extend(doubts)
        if found and one.flavor not in covered:
            prices.append(found)
    return PriceBook(
        basis=chosen,
        currency=reporting,
        rate=rate,
        prices=tuple(prices),
        nodes=inside,
        gaps=_merged(gaps),
        _by_flavor=_grouped((one.flavor, one) for one in prices),
        _by_node=_grouped((one.node, one) for one in prices if one.node is not None),
    )


def _converted(cost: NodeCost, currency: str | None, convert: Converter) -> NodeCost:
    factor = convert.factor(cost.currency, cost.window.from_ms, f"{cost.source} {cost.node}")
    return replace(
        cost, gpu_cost=cost.gpu_cost * factor, total_cost=cost.total_cost * factor, currency=currency or cost.currency
    )


def _stated_price(cost: NodeCost, rate: RateRule, declared: Sequence[GpuPrice]) -> tuple[GpuPrice | None, list[Gap]]:
    if cost.gpu_hours <= 0:
        if not cost.flavor or any(one.flavor == cost.flavor for one in declared):
            return None, []
        reason = (
            f"{cost.source} counts no GPU on node {cost.node}, so it states no price for {cost.flavor}. "
            "Add it under prices."
        )
        return None, [Gap(reason=reason, where=f"{cost.source} {cost.node}", window=cost.window)]
    of_gpu = cost.gpu_cost / cost.gpu_hours
    usable, doubts = suspicious(cost, of_gpu, declared)
    if not usable:
        return None, doubts
    found = GpuPrice(
        flavor=cost.flavor,
        node=cost.node,
        from_ms=cost.window.from_ms,
        to_ms=cost.window.to_ms,
        gpu_hour=of_gpu if rate is RateRule.GPU else cost.total_cost / cost.gpu_hours,
        source=cost.source,
    )
    return found, doubts


def _basis(declared: Sequence[Price], nodes: Sequence[NodeCost]) -> PriceBasis:
    there = {one.basis for one in declared} or {one.basis for one in nodes}
    return next((one for one in _PREFERRED if one in there), PriceBasis.LIST)


def _currency(declared: Sequence[Price], nodes: Sequence[NodeCost]) -> str | None:
    there = {one.gpu_hour.currency for one in declared} or {one.currency for one in nodes if one.currency}
    return there.pop() if len(there) == 1 else None


def _grouped(prices: Iterable[tuple[str, GpuPrice]]) -> dict[str, list[GpuPrice]]:
    grouped: dict[str, list[GpuPrice]] = defaultdict(list)
    for name, one in prices:
        grouped[name].append(one)
    return dict(grouped)


def _merged(gaps: Iterable[Gap]) -> tuple[Gap, ...]:
    """The same doubt about the same place once, with the span from its first day to its last."""
    found: dict[tuple[str, str], Gap] = {}
    for gap in gaps:
        had = found.get((gap.reason, gap.where))
        if had and had.window and gap.window:
            span = Window(min(had.window.from_ms, gap.window.from_ms), max(had.window.to_ms, gap.window.to_ms))
            gap = replace(gap, window=span)
        found[gap.reason, gap.where] = gap
    return tuple(found.values())
