"""Prices of a GPU-hour that OpenCost found, against those that are declared: what is not the same is named."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from gpuyield.collect.opencost import NodeAsset
from gpuyield.cost.prices import PriceBook
from gpuyield.cost.suspects import DEFAULT_PRICE, LEAST_PRICE
from gpuyield.units import Window

_SAME = Fraction(1, 1000)
"""OpenCost's prices have 6 decimals and its costs 5: nearer than a thousandth is the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePrice:
    """Price of a GPU-hour on a node: OpenCost's, the declared one (None: not known), and what is doubtful."""

    node: str
    flavor: str | None
    opencost: Fraction | None
    declared: Fraction | None
    doubt: str | None


def node_prices(
    assets: Iterable[NodeAsset], flavors: Mapping[str, str | None], declared: PriceBook, window: Window
) -> tuple[NodePrice, ...]:
    """One for each node on which either side knows GPUs; `flavors` is by node."""
    cost: dict[str, Fraction] = defaultdict(Fraction)
    hours: dict[str, Fraction] = defaultdict(Fraction)
    for asset in assets:
        cost[asset.node] += Fraction(asset.gpu_cost or 0)
        hours[asset.node] += Fraction(asset.gpu_hours or 0)
    found = {node: cost[node] / hours[node] for node in cost if hours[node]}
    same = _one_price(found, flavors)
    prices = []
    for node in sorted({*found, *(node for node in cost if flavors.get(node))}):
        flavor, stated = flavors.get(node), found.get(node)
        ours = _mean(declared, flavor, window) if flavor else None
        doubt = _doubt(stated, ours) or (same if stated is not None and ours is None else None)
        prices.append(NodePrice(node=node, flavor=flavor, opencost=stated, declared=ours, doubt=doubt))
    return tuple(prices)


def _mean(book: PriceBook, flavor: str, window: Window) -> Fraction | None:
    """The declared price over the window, by time; None where it is not declared all the time."""
    edges = [window.from_ms, *book.edges(window), window.to_ms]
    total = Fraction(0)
    for begin, end in pairwise(edges):
        price = book.price(flavor, None, begin)
        if price is None:
            return None
        total += price.gpu_hour * (end - begin)
    return total / window.length_ms


def _doubt(stated: Fraction | None, ours: Fraction | None) -> str | None:
    if stated is None:
        return "OpenCost counts no GPUs on this node, so it states no price of one."
    if stated < LEAST_PRICE:
        return "Far below any card: most often no gpuLabel is set in OpenCost, so the card is priced like a core."
    if ours is not None and abs(stated - ours) > _SAME * ours:
        return f"The declared price is {_short(ours)}; ours is used."
    if ours is None and abs(stated - DEFAULT_PRICE) <= _SAME * DEFAULT_PRICE:
        return "That is OpenCost's default, and perhaps not your price."
    return None


def _one_price(found: Mapping[str, Fraction], flavors: Mapping[str, str | None]) -> str | None:
    """A sentence, where cards of different flavors all cost the same."""
    kinds = {flavors.get(node) for node in found if flavors.get(node)}
    if len(kinds) > 1 and len(set(found.values())) == 1:
        return "Every flavor has the same price here: OpenCost's custom pricing has one for all models."
    return None


def _short(price: Fraction) -> str:
    return f"{float(price):.4f}".rstrip("0").rstrip(".")
