"""Kernel source: what each job would pay for its cheapest run, at a price per resource and bucket of time.

Times are exact milliseconds. `sums[resource, k]` is what holding one unit from 0 until the start of bucket k costs; the
last bucket, in which nothing costs, begins behind every end. With whole prices the costs are exact; with fractions they
steer the search for good prices.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias  # A price is whole or a fraction.

from numpy.typing import NDArray

from gpuyield.plan.kernel.table import FAR, Floats, Ints

Prices: TypeAlias = NDArray[Any]


class Shop(NamedTuple):
    """The jobs that pay: their windows, modes (CSR) and demands, and the width of a bucket; all in ms."""

    heads: Ints
    ends: Ints
    first_mode: Ints
    lengths: Ints
    first_demand: Ints
    resources: Ints
    amounts: Ints
    bucket: int


def paid_until(prices: Prices, sums: Prices, bucket: int, resource: int, at_ms: int) -> Any:
    """What one unit of a resource costs from 0 until an instant."""
    if at_ms <= 0:
        return sums[resource, 0]
    at = min(at_ms // bucket, prices.shape[1] - 1)
    return sums[resource, at] + prices[resource, at] * (at_ms - at * bucket)


def cost_of(shop: Shop, prices: Prices, sums: Prices, mode: int, start: int) -> Any:
    """What a mode costs from a start on."""
    total = sums[0, 0]
    for at in range(shop.first_demand[mode], shop.first_demand[mode + 1]):
        which, end = shop.resources[at], start + shop.lengths[mode]
        total += shop.amounts[at] * (
            paid_until(prices, sums, shop.bucket, which, end) - paid_until(prices, sums, shop.bucket, which, start)
        )
    return total


def from_edges(
    shop: Shop, prices: Prices, sums: Prices, mode: int, first: int, final: int, best: Any
) -> tuple[Any, int]:
    """The cheapest start on the edges `first` to `final` of buckets: its cost, if below `best`, and itself, else -1."""
    found = -1
    over, rest = shop.lengths[mode] // shop.bucket, shop.lengths[mode] % shop.bucket
    low, high = shop.first_demand[mode], shop.first_demand[mode + 1]
    if high == low + 1:
        amount, paid, price = shop.amounts[low], sums[shop.resources[low]], prices[shop.resources[low]]
        for edge in range(first, final):
            cost = amount * (paid[edge + over] + price[edge + over] * rest - paid[edge])
            if cost < best:
                best, found = cost, edge
        return best, found * shop.bucket if found >= 0 else -1
    for edge in range(first, final):
        cost = sums[0, 0]
        for at in range(low, high):
            which, end = shop.resources[at], edge + over
            cost += shop.amounts[at] * (sums[which, end] + prices[which, end] * rest - sums[which, edge])
        if cost < best:
            best, found = cost, edge
    return best, found * shop.bucket if found >= 0 else -1


def to_edges(shop: Shop, prices: Prices, sums: Prices, mode: int, first: int, final: int, best: Any) -> tuple[Any, int]:
    """The same for runs that end on an edge."""
    found = -1
    over, rest = shop.lengths[mode] // shop.bucket, shop.lengths[mode] % shop.bucket
    low, high, back = shop.first_demand[mode], shop.first_demand[mode + 1], shop.bucket - rest
    first = max(first, over + 1)
    if high == low + 1:
        amount, paid, price = shop.amounts[low], sums[shop.resources[low]], prices[shop.resources[low]]
        for edge in range(first, final):
            begin = edge - over - 1
            cost = amount * (paid[edge] - (paid[begin] + price[begin] * back))
            if cost < best:
                best, found = cost, edge
        return best, found * shop.bucket - shop.lengths[mode] if found >= 0 else -1
    for edge in range(first, final):
        cost, begin = sums[0, 0], edge - over - 1
        for at in range(low, high):
            which = shop.resources[at]
            cost += shop.amounts[at] * (sums[which, edge] - (sums[which, begin] + prices[which, begin] * back))
        if cost < best:
            best, found = cost, edge
    return best, found * shop.bucket - shop.lengths[mode] if found >= 0 else -1


def cheapest(shop: Shop, prices: Prices, sums: Prices, job: int, wish: int, best: Any) -> tuple[Any, int, int]:
    """The cheapest run of a job: cost, mode and start; mode -1 where it has none. Of equals the wished-for start.

    The cost is linear in the start while neither end crosses the edge of a bucket, so only such starts are tried.
    `best` is a cost above all.
    """
    best_mode, best_start = -1, -1
    bucket, head = shop.bucket, shop.heads[job]
    for mode in range(shop.first_mode[job], shop.first_mode[job + 1]):
        length = shop.lengths[mode]
        last = shop.ends[job] - length
        if last < head:
            continue
        for start in (min(max(wish, head), last), head, last):
            cost = cost_of(shop, prices, sums, mode, start)
            if cost < best:
                best, best_mode, best_start = cost, mode, start
        cost, start = from_edges(shop, prices, sums, mode, max(head, 0) // bucket + 1, (last - 1) // bucket + 1, best)
        if start >= 0:
            best, best_mode, best_start = cost, mode, start
        if length % bucket:
            first, final = (head + length) // bucket + 1, (last + length - 1) // bucket + 1
            cost, start = to_edges(shop, prices, sums, mode, first, final, best)
            if start >= 0:
                best, best_mode, best_start = cost, mode, start
    return best, best_mode, best_start


def sell(
    shop: Shop, prices: Floats, sums: Floats, weights: Floats, wishes: Ints, used: Floats, low: int, high: int
) -> float:
    """What the jobs from `low` to `high` gain over their cheapest runs; `used` grows by what they then hold (x ms)."""
    gained = 0.0
    bucket, count = shop.bucket, prices.shape[1]
    for job in range(low, high):
        cost, mode, start = cheapest(shop, prices, sums, job, wishes[job], 1e300)
        if mode < 0 or weights[job] <= cost:
            continue
        gained += weights[job] - cost
        end = start + shop.lengths[mode]
        for at in range(shop.first_demand[mode], shop.first_demand[mode + 1]):
            which, amount = shop.resources[at], shop.amounts[at]
            for block in range(max(0, start // bucket), min(count, (end - 1) // bucket + 1)):
                span = min(end, (block + 1) * bucket) - max(start, block * bucket)
                used[which, block] += amount * span
    return gained


def least_costs(shop: Shop, prices: Ints, sums: Ints, costs: Ints) -> None:
    """The exact cost of each job's cheapest run in whole prices; -1 where it has none."""
    for job in range(len(costs)):
        cost, mode, _ = cheapest(shop, prices, sums, job, -1, 4 * FAR)
        costs[job] = cost if mode >= 0 else -1


TARIFF = (paid_until, cost_of, from_edges, to_edges, cheapest, sell, least_costs)
