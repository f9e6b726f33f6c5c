"""Prices of GPU time that bound the weight on time, as a certificate of kind `prices`.

Prices are sought by a subgradient with a running mean of what jobs use (the volume algorithm), then rounded to whole
numbers; the bound is worked out from these exactly, so rounding never makes it false.

Source: Lagrangian relaxation (Held, Karp 1970); volume algorithm (Barahona, Anbil 2000).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import gcd, lcm
from typing import TYPE_CHECKING, Any  # A certificate is JSON.

import numpy as np

from gpuyield.plan.instance.board import Mode
from gpuyield.plan.instance.budget import Budget
from gpuyield.plan.instance.profile import integral
from gpuyield.plan.kernel.lanes import Lane
from gpuyield.plan.kernel.search import SWIFT, lane_for
from gpuyield.plan.kernel.table import Floats, Ints
from gpuyield.plan.kernel.tariff import Shop
from gpuyield.units import MINUTE_MS

if TYPE_CHECKING:
    from gpuyield.plan.case import Case
    from gpuyield.plan.instance.schedule import Schedule

SCALE = 10**12
MOST_BUCKETS = 2_000
MOST_PAIRS = 100_000_000
"""Jobs times buckets; `verify` looks at twice as many."""
ROUNDS = 120
BATCH = 8_000
"""Jobs between two looks at whether to stop."""
MEAN = 0.1
"""What the newest round counts for in the mean of what is used."""
FIRST_STEP, STEP_UP, STEP_DOWN, PATIENCE = 0.1, 1.1, 0.66, 8
SAFE = 1 << 61


@dataclass(frozen=True, slots=True)
class Buyer:
    """A job that counts: its task, what it is worth, and when it has to end."""

    task: int
    weight: Fraction
    end_ms: int


@dataclass(frozen=True, slots=True)
class PriceBound:
    """No more weight than this; and the prices that show it."""

    weight: Fraction
    certificate: dict[str, Any]


def on_time_buyers(case: Case) -> list[Buyer]:
    """The jobs with a deadline or a due time, until the earlier of both."""
    found = []
    for task in case.board.tasks:
        ends = [end for end in (task.deadline_ms, task.due_ms) if end is not None]
        if ends:
            found.append(Buyer(task.index, Fraction(task.weight), min(ends)))
    return found


def hard_buyers(case: Case) -> list[Buyer]:
    """The jobs with a hard deadline, all of the same weight."""
    return [
        Buyer(task.index, Fraction(1), task.deadline_ms) for task in case.board.tasks if task.deadline_ms is not None
    ]


def price_bound(
    case: Case, buyers: Sequence[Buyer], wished: Schedule, reached: Fraction, budget: Budget, lane: Lane | None = None
) -> PriceBound | None:
    """The lowest bound found on the weight of the buyers that any plan has; None where nobody asks.

    `wished` is a plan: of equally cheap runs a job takes its own. `reached` is the weight that it has.
    """
    if not buyers:
        return None
    market = _Market(case, buyers, wished, lane or lane_for(len(buyers)))
    prices = market.search(float(reached), budget)
    return market.proven(prices)


class _Market:
    def __init__(self, case: Case, buyers: Sequence[Buyer], wished: Schedule, lane: Lane) -> None:
        self.case, self.buyers, self.lane = case, buyers, lane
        last = max(1, max(buyer.end_ms for buyer in buyers))
        most = max(1, min(MOST_BUCKETS, MOST_PAIRS // len(buyers)))
        self.bucket = (
            -(-max(-(-last // most), min(MINUTE_MS, last)) // MINUTE_MS) * MINUTE_MS if last > MINUTE_MS else last
        )
        self.count = -(-last // self.bucket)
        self.shop = self._shop()
        self.weights = np.array([float(buyer.weight) for buyer in buyers], dtype=np.float64)
        runs = [wished.placed[buyer.task] for buyer in buyers]
        self.wishes = np.array([-1 if one is None else one.start_ms for one in runs], dtype=np.int64)
        self.supply = self._supply()

    def _shop(self) -> Shop:
        heads, held = self.case.windows.heads, self.case.windows.held
        modes = [held[buyer.task] for buyer in self.buyers]
        flat = [mode for some in modes for mode in some]
        ends = []
        for buyer, some in zip(self.buyers, modes, strict=True):
            fixed = self.case.board.tasks[buyer.task].fixed_ms
            longest = max((mode.duration_ms for mode in some), default=0)
            ends.append(buyer.end_ms if fixed is None else min(buyer.end_ms, fixed + longest))
        return Shop(
            heads=np.array([heads[buyer.task] for buyer in self.buyers], dtype=np.int64),
            ends=np.array(ends, dtype=np.int64),
            first_mode=_starts([len(some) for some in modes]),
            lengths=np.array([mode.duration_ms for mode in flat], dtype=np.int64),
            first_demand=_starts([len(mode.demand) for mode in flat]),
            resources=np.array([which for mode in flat for which, _ in mode.demand], dtype=np.int64),
            amounts=np.array([amount for mode in flat for _, amount in mode.demand], dtype=np.int64),
            bucket=self.bucket,
        )

    def _supply(self) -> Ints:
        """What there is in each bucket, in units x ms; 0 in the one behind the last."""
        rows = []
        for steps in self.case.steps:
            edges = [at * self.bucket for at in range(self.count + 1)]
            until = [integral(steps, 0, edge) for edge in edges] if len(steps) > 1 else _constant(steps, edges)
            rows.append([after - before for before, after in pairwise(until)] + [0])
        return np.array(rows, dtype=np.int64)

    def search(self, reached: float, budget: Budget) -> Floats:
        """Good prices."""
        supply = self.supply.astype(np.float64)
        best_prices = self._first_prices()
        best, used = self._value(best_prices, supply)
        step, quiet = FIRST_STEP, 0
        for _ in range(ROUNDS):
            if best <= reached or not budget.spend(max(1, len(self.buyers) // SWIFT)):
                break
            slope = supply - used
            slope[(best_prices <= 0) & (slope > 0)] = 0.0
            norm = float((slope * slope).sum())
            if norm <= 0:
                break
            prices = np.maximum(0.0, best_prices - step * (best - reached) / norm * slope)
            prices[:, -1] = 0.0
            value, mine = self._value(prices, supply)
            used = MEAN * mine + (1 - MEAN) * used
            if value < best:
                if float((slope * (supply - mine)).sum()) > 0:
                    step = min(2.0, step * STEP_UP)
                best, best_prices, quiet = value, prices, 0
            else:
                quiet += 1
                if quiet >= PATIENCE:
                    step, quiet = step * STEP_DOWN, 0
        return best_prices

    def _first_prices(self) -> Floats:
        """A third of what the jobs that lost would pay, all over their windows."""
        prices = np.zeros((len(self.case.steps), self.count + 1), dtype=np.float64)
        shop = self.shop
        for at in np.flatnonzero(self.wishes < 0):
            for mode in range(shop.first_mode[at], min(shop.first_mode[at] + 1, shop.first_mode[at + 1])):
                low, high = shop.first_demand[mode], shop.first_demand[mode + 1]
                for place in range(low, high):
                    area = float(shop.amounts[place]) * float(shop.lengths[mode]) * (high - low)
                    row = prices[shop.resources[place]]
                    begin, end = max(0, shop.heads[at]) // self.bucket, shop.ends[at] // self.bucket + 1
                    row[begin:end] = np.maximum(row[begin:end], 0.3 * self.weights[at] / area)
        prices[:, -1] = 0.0
        return prices

    def _value(self, prices: Floats, supply: Floats) -> tuple[float, Floats]:
        sums = np.zeros_like(prices)
        sums[:, 1:] = np.cumsum(prices[:, :-1] * self.bucket, axis=1)
        used = np.zeros_like(prices)
        gained = self.lane["sell"](self.shop, prices, sums, self.weights, self.wishes, used, 0, len(self.buyers))
        return float(gained + (prices * supply).sum()), used

    def proven(self, prices: Floats) -> PriceBound | None:
        """The exact bound of the prices, rounded to whole numbers."""
        scale = SCALE
        while True:
            whole = np.rint(prices * scale)
            if self._fits(whole):
                break
            scale //= 10
            if scale < 1:
                return None
        rounded = whole.astype(np.int64)
        sums = np.zeros_like(rounded)
        sums[:, 1:] = np.cumsum(rounded[:, :-1] * self.bucket, axis=1)
        costs = np.zeros(len(self.buyers), dtype=np.int64)
        self.lane["least_costs"](self.shop, rounded, sums, costs)
        self._let_pause(rounded, costs)
        unit = lcm(*(buyer.weight.denominator for buyer in self.buyers))
        earned = sum(
            price * amount
            for row, there in zip(rounded.tolist(), self.supply.tolist(), strict=True)
            for price, amount in zip(row, there, strict=True)
            if price
        )
        earned *= unit
        step = 0
        for buyer, cost in zip(self.buyers, costs.tolist(), strict=True):
            worth = int(buyer.weight * unit)
            if cost < 0:
                continue
            step = gcd(step, worth)
            earned += max(0, worth * scale - cost * unit)
        bound = earned // scale
        bound = bound // step * step if step else 0
        weight = Fraction(bound, unit)
        return PriceBound(weight, self._certificate(rounded, scale, weight))

    def _let_pause(self, prices: Ints, costs: Ints) -> None:
        """The costs of jobs that may be paused, which run whenever it is cheapest (changed in place).

        The search for prices takes them to run in one piece: that only steers it.
        """
        tasks, windows = self.case.board.tasks, self.case.windows
        for at, buyer in enumerate(self.buyers):
            if tasks[buyer.task].job.restart_ms is not None and costs[at] >= 0:
                head = windows.heads[buyer.task]
                modes = [mode for mode in windows.held[buyer.task] if mode.duration_ms <= buyer.end_ms - head]
                costs[at] = min(self._cheapest_parts(prices, mode, head, buyer.end_ms) for mode in modes)

    def _cheapest_parts(self, prices: Ints, mode: Mode, head: int, end: int) -> int:
        """What the cheapest `duration` of a mode in a window costs; before the origin and behind all prices nothing."""
        edges = np.arange(self.count + 1, dtype=np.int64) * self.bucket
        spans = np.minimum(end, edges[1:]) - np.maximum(head, edges[:-1])
        inside = spans > 0
        rates = sum((amount * prices[which, : self.count] for which, amount in mode.demand), start=np.zeros_like(spans))
        order = np.argsort(rates[inside], kind="stable")
        spans, rates = spans[inside][order], rates[inside][order]
        left = mode.duration_ms - max(0, min(end, 0) - head) - max(0, end - max(head, int(edges[-1])))
        taken = np.diff(np.minimum(np.cumsum(spans), max(0, left)), prepend=0)
        return int((taken * rates).sum())

    def _fits(self, whole: Floats) -> bool:
        held = float(self.shop.amounts.max(initial=1))
        several = int(np.diff(self.shop.first_demand).max(initial=1))
        return bool(float(whole.sum(axis=1).max(initial=0)) * self.bucket * held * several < SAFE)

    def _certificate(self, rounded: Ints, scale: int, weight: Fraction) -> dict[str, Any]:
        prices = {}
        for name, row in zip(self.case.board.resources, rounded.tolist(), strict=True):
            while row and not row[-1]:
                row.pop()
            if row:
                prices[name] = row
        bound = format(weight.numerator, "d") if weight.denominator == 1 else _decimal(weight)
        return {"kind": "prices", "bucket_ms": self.bucket, "scale": scale, "prices": prices, "bound": bound}


def _decimal(weight: Fraction) -> str:
    """Exact: weights are decimals, so their denominators are products of 2 and 5."""
    digits = 0
    while weight.denominator != 1:
        weight, digits = weight * 10, digits + 1
    text = str(weight.numerator).zfill(digits + 1)
    return f"{text[:-digits]}.{text[-digits:]}"


def _starts(counts: Sequence[int]) -> Ints:
    found = np.zeros(len(counts) + 1, dtype=np.int64)
    np.cumsum(np.asarray(counts, dtype=np.int64), out=found[1:])
    return found


def _constant(steps: Sequence[tuple[int, int]], edges: Sequence[int]) -> list[int]:
    begin, amount = steps[0] if steps else (0, 0)
    return [amount * (max(edge, begin) - max(0, begin)) if edge > begin else 0 for edge in edges]
