"""`prices`: what capacity can earn at these prices bounds the weight that can be on time.

Any prices that are not negative prove a bound (weak Lagrangian duality): a plan's weight is at most what the sold
capacity earns plus what each job is worth beyond its cheapest allowed run.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from math import gcd, lcm
from typing import Any  # JSON has no narrower type than this.

from .problem import Job, Problem, Shape
from .question import Question
from .report import Refused
from .steps import FOREVER
from .values import decimal, field, items, record, whole

TOLERANCE = Fraction(1, 10**9)
_WHERE = "the certificate"
_MOST_WORK = 200_000_000
_MOST_SUMS = 50_000_000


def check(stated: dict[str, Any], question: Question) -> None:
    """The prices prove the stated bound, and the bound answers the question."""
    claimed = decimal(field(stated, "bound", _WHERE), f"{_WHERE}'s bound")
    tariff = _tariff(stated)
    problem = question.problem
    if question.weight_above is None:
        runs = [_Run(job=job, weight=Fraction(1), end_ms=job.deadline_ms) for job in _hard(problem)]
        _check_bound(claimed, tariff, question, runs)
        if claimed >= len(runs):
            raise Refused(f"A bound of {claimed} on {len(runs)} hard jobs does not rule out that all are met.")
        return
    runs = [_Run(job=job, weight=job.weight, end_ms=job.wanted_ms) for job in problem.jobs.values() if job.is_timed]
    _check_bound(claimed, tariff, question, runs)
    total = sum((run.weight for run in runs), start=Fraction(0))
    if claimed > (question.weight_above + TOLERANCE) * total:
        raise Refused(f"The certificate bounds the weight by {float(claimed):g} of {float(total):g}, no lower.")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    job: Job
    weight: Fraction
    end_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tariff:
    bucket_ms: int
    scale: int
    prices: dict[str, list[int]]

    @property
    def buckets(self) -> int:
        return max((len(one) for one in self.prices.values()), default=0)

    def of(self, demand: dict[str, int]) -> list[int]:
        """The price of a demand per ms, bucket by bucket."""
        named = [(amount, self.prices[name]) for name, amount in demand.items() if name in self.prices and amount]
        if not named:
            return []
        length = max(len(prices) for _, prices in named)
        return [sum(amount * prices[at] for amount, prices in named if at < len(prices)) for at in range(length)]


def _tariff(stated: dict[str, Any]) -> _Tariff:
    prices = record(field(stated, "prices", _WHERE), f"{_WHERE}'s prices")
    return _Tariff(
        bucket_ms=whole(field(stated, "bucket_ms", _WHERE), f"{_WHERE}'s bucket_ms", low=1),
        scale=whole(field(stated, "scale", _WHERE), f"{_WHERE}'s scale", low=1, high=10**18),
        prices={
            name: [
                whole(price, f"{_WHERE}'s prices.{name}[{at}]", low=0, high=10**30)
                for at, price in enumerate(items(listed, f"{_WHERE}'s prices.{name}"))
            ]
            for name, listed in prices.items()
        },
    )


def _hard(problem: Problem) -> list[Job]:
    return [job for job in problem.jobs.values() if job.deadline_ms is not None]


def _check_bound(claimed: Fraction, tariff: _Tariff, question: Question, runs: list[_Run]) -> None:
    if len(runs) * tariff.buckets > _MOST_WORK:
        raise Refused("The prices are too fine to be re-checked: jobs x buckets exceed 200,000,000.")
    unit = lcm(*(run.weight.denominator for run in runs))
    weights = [int(run.weight * unit) for run in runs]
    earned = _earned(tariff, question.problem) * unit
    till = _Till(tariff)
    kept: list[int] = []
    for run, weight in zip(runs, weights, strict=True):
        cheapest = _cheapest(till, question, run)
        if cheapest is not None and weight * tariff.scale > cheapest * unit:
            earned += weight * tariff.scale - cheapest * unit
            kept.append(weight)
        elif cheapest is not None:
            kept.append(weight)
    bound = earned // tariff.scale
    step = gcd(*kept)
    bound = bound // step * step if step else 0
    if claimed * unit >= bound:
        return
    if claimed * unit >= _largest_sum(kept, bound, step):
        return
    raise Refused(f"These prices prove {bound / unit:g}, not {float(claimed):g}.")


def _earned(tariff: _Tariff, problem: Problem) -> int:
    total = 0
    for name, prices in tariff.prices.items():
        steps = problem.capacity.get(name)
        if steps is None:
            continue
        for at, price in enumerate(prices):
            if price:
                total += price * steps.integral(at * tariff.bucket_ms, (at + 1) * tariff.bucket_ms)
    return total


class _Till:
    """Prices and their running sums for each demand, worked out once."""

    def __init__(self, tariff: _Tariff) -> None:
        self.tariff = tariff
        self._known: dict[tuple[tuple[str, int], ...], tuple[list[int], list[int]]] = {}

    def lists(self, demand: dict[str, int]) -> tuple[list[int], list[int]]:
        """Price per ms of each bucket, and what all buckets before it cost."""
        key = tuple(sorted(demand.items()))
        if key not in self._known:
            prices = self.tariff.of(demand)
            sums = [0, *accumulate(price * self.tariff.bucket_ms for price in prices)]
            self._known[key] = (prices, sums)
        return self._known[key]


def _cheapest(till: _Till, question: Question, run: _Run) -> int | None:
    """The price of the cheapest allowed run; None where none is allowed."""
    found: list[int] = []
    frame, job = question.frame, run.job
    head = frame.heads[job.id]
    for at in frame.shapes[job.id]:
        shape = job.shapes[at]
        if question.weight_above is None:
            last = frame.latest_start(job.id, shape)
        else:
            last = FOREVER if run.end_ms is None else run.end_ms - shape.duration_ms
            last = last if job.fixed_ms is None else min(last, job.fixed_ms)
        if last < head:
            continue
        if job.restart_ms is None:
            found.append(_cheapest_start(till, shape, head, last))
        else:
            end = FOREVER if run.end_ms is None else run.end_ms
            found.append(_cheapest_parts(till, shape, head, end))
    return min(found, default=None)


def _cheapest_start(till: _Till, shape: Shape, head: int, last: int) -> int:
    """The least over all starts; the price is linear in the start while neither end crosses a bucket's edge."""
    prices, sums = till.lists(shape.demand)
    bucket, duration, count = till.tariff.bucket_ms, shape.duration_ms, len(prices)
    if last >= count * bucket:
        return 0

    def until(at_ms: int) -> int:
        if at_ms <= 0:
            return 0
        at, rest = divmod(at_ms, bucket)
        return sums[count] if at >= count else sums[at] + prices[at] * rest

    found = [until(head + duration) - until(head), until(last + duration) - until(last)]
    over, rest = divmod(duration, bucket)
    first, final = max(0, head // bucket + 1), -(-last // bucket)
    if first < final:  # Starts on an edge; those whose end lies beyond the last bucket pay what is left of the sum.
        inside = min(final, max(first, count - over))
        found += _started_on_edges(prices, sums, first, inside, over, rest)
        if inside < final:
            found.append(sums[count] - sums[final - 1])
    first, final = max(over + 1, (head + duration) // bucket + 1), min(count + 1, -(-(last + duration) // bucket))
    if rest and first < final:
        found += _ended_on_edges(prices, sums, first, final, over, bucket - rest)
    return min(found)


def _started_on_edges(prices: list[int], sums: list[int], first: int, final: int, over: int, rest: int) -> list[int]:
    ends = zip(sums[first + over : final + over], prices[first + over : final + over], sums[first:final], strict=True)
    return [before + price * rest - begun for before, price, begun in ends]


def _ended_on_edges(prices: list[int], sums: list[int], first: int, final: int, over: int, into: int) -> list[int]:
    low, high = first - over - 1, final - over - 1
    return [
        ended - before - price * into
        for ended, before, price in zip(sums[first:final], sums[low:high], prices[low:high], strict=True)
    ]


def _cheapest_parts(till: _Till, shape: Shape, head: int, end: int) -> int:
    prices, _ = till.lists(shape.demand)
    bucket, left = till.tariff.bucket_ms, shape.duration_ms
    free = max(0, min(end, 0) - head) + max(0, end - max(head, len(prices) * bucket))
    left -= free
    low, high = max(0, head // bucket), min(len(prices), -(-end // bucket))
    pieces = sorted(
        (prices[at], min(end, (at + 1) * bucket) - max(head, at * bucket)) for at in range(low, max(low, high))
    )
    cost = 0
    for price, length in pieces:
        if left <= 0:
            break
        cost += price * min(left, length)
        left -= length
    return cost


def _largest_sum(weights: list[int], bound: int, step: int) -> int:
    """The largest sum of some weights up to `bound`; `bound` itself where that would take too long."""
    if not step or bound < 0:
        return 0
    width = bound // step
    if width * max(1, len(weights)) > _MOST_SUMS * 64:
        return bound
    sums = 1
    mask = (1 << (width + 1)) - 1
    for weight in weights:
        sums |= (sums << (weight // step)) & mask
    return (sums.bit_length() - 1) * step
