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

    def price(self, flavor: str | None, node: str | None, at_ms: int) -> GpuPrice | None:
        """The price at an instant: that of the node before that of the flavor; None where there is none."""
        if flavor is None:
            return None
        found = [one for one in self._by_flavor.get(flavor, ()) if one.holds_at(at_ms)]
        of_node = [one for one in found if node is not None and one.node == node]
        of_flavor = [one for one in found if one.node is None]
        listed = of_node or of_flavor
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
        gaps=tuple(dict.fromkeys(gaps)),
        _by_flavor=_grouped(prices),
    )


def _converted(cost: NodeCost, currency: str | None, convert: Converter) -> NodeCost:
    factor = convert.factor(cost.currency, cost.window.from_ms, f"{cost.source} {cost.node}")
    return replace(
        cost, gpu_cost=cost.gpu_cost * factor, total_cost=cost.total_cost * factor, currency=currency or cost.currency
    )


def _stated_price(cost: NodeCost, rate: RateRule, declared: Sequence[GpuPrice]) -> tuple[GpuPrice | None, list[Gap]]:
    if cost.gpu_hours <= 0:
        if not cost.flavor:
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


def _grouped(prices: Sequence[GpuPrice]) -> dict[str, list[GpuPrice]]:
    grouped: dict[str, list[GpuPrice]] = defaultdict(list)
    for one in prices:
        grouped[one.flavor].append(one)
    return dict(grouped)
