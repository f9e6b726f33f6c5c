"""Capacity over time: a step function of integer milliseconds."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from itertools import pairwise

BEGINNING = -(10**17)
FOREVER = 10**17


class Steps:
    """`(from_ms, amount)` pairs in order, each holding until the next; 0 before the first, the last holds forever."""

    __slots__ = ("_sums", "amounts", "times")

    def __init__(self, steps: Iterable[tuple[int, int]]) -> None:
        times, amounts = [BEGINNING], [0]
        for at_ms, amount in steps:
            times.append(at_ms)
            amounts.append(amount)
        self.times, self.amounts = times, amounts
        self._sums = [0]
        for at in range(1, len(times)):
            self._sums.append(self._sums[-1] + amounts[at - 1] * (times[at] - times[at - 1]))

    @classmethod
    def constant(cls, amount: int) -> Steps:
        """The same amount at every instant."""
        return cls([(BEGINNING + 1, amount)])

    def plus(self, amount: int, from_ms: int, to_ms: int) -> Steps:
        """The same with `amount` more in `[from_ms, to_ms)`."""
        cuts = sorted({*self.times[1:], from_ms, to_ms})
        return Steps((at, self.at(at) + (amount if from_ms <= at < to_ms else 0)) for at in cuts)

    def at(self, at_ms: int) -> int:
        """The amount at an instant."""
        return self.amounts[max(0, bisect_right(self.times, at_ms) - 1)]

    def integral(self, from_ms: int, to_ms: int) -> int:
        """Amount x ms over `[from_ms, to_ms)`."""
        return self._up_to(to_ms) - self._up_to(from_ms)

    def pieces(self, from_ms: int, to_ms: int) -> Iterator[tuple[int, int, int]]:
        """`(from, to, amount)` of each step that meets `[from_ms, to_ms)`, cut to it."""
        at = max(0, bisect_right(self.times, from_ms) - 1)
        while at < len(self.times) and self.times[at] < to_ms:
            end = self.times[at + 1] if at + 1 < len(self.times) else FOREVER
            low, high = max(from_ms, self.times[at]), min(to_ms, end)
            if low < high:
                yield low, high, self.amounts[at]
            at += 1

    def highest(self, from_ms: int, to_ms: int) -> int:
        """The largest amount in `[from_ms, to_ms)`; 0 where that is empty."""
        return max((amount for _, _, amount in self.pieces(from_ms, to_ms)), default=0)

    def lowest(self, from_ms: int, to_ms: int) -> int:
        """The smallest amount in `[from_ms, to_ms)`; 0 where that is empty."""
        return min((amount for _, _, amount in self.pieces(from_ms, to_ms)), default=0)

    def rises(self) -> list[int]:
        """The instants after the origin at which the amount grows."""
        return [
            at
            for at, (before, after) in zip(self.times[1:], pairwise(self.amounts), strict=True)
            if after > before and at > 0
        ]

    def _up_to(self, at_ms: int) -> int:
        at = max(0, bisect_right(self.times, at_ms) - 1)
        return self._sums[at] + self.amounts[at] * (at_ms - self.times[at])


class Spans:
    """Disjoint spans in order, and how much of any span lies in them."""

    __slots__ = ("_edges", "_ends", "_lengths", "_starts")

    def __init__(self, spans: Iterable[tuple[int, int]]) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._lengths = [0]
        for low, high in spans:
            self._starts.append(low)
            self._ends.append(high)
            self._lengths.append(self._lengths[-1] + high - low)
        self._edges = sorted({*self._starts, *self._ends})

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return iter(zip(self._starts, self._ends, strict=True))

    @property
    def length_ms(self) -> int:
        """The length of all spans together."""
        return self._lengths[-1]

    def edges(self, from_ms: int, to_ms: int) -> list[int]:
        """The starts and ends in `[from_ms, to_ms]`."""
        return self._edges[bisect_left(self._edges, from_ms) : bisect_right(self._edges, to_ms)]

    def within(self, from_ms: int, to_ms: int) -> int:
        """How much of `[from_ms, to_ms)` lies in the spans."""
        return self._up_to(to_ms) - self._up_to(from_ms) if to_ms > from_ms else 0

    def after(self, at_ms: int) -> Iterator[tuple[int, int]]:
        """The spans that end after an instant."""
        for at in range(bisect_right(self._ends, at_ms), len(self._starts)):
            yield self._starts[at], self._ends[at]

    def _up_to(self, at_ms: int) -> int:
        at = bisect_left(self._starts, at_ms)
        return (
            self._lengths[at]
            if at == 0 or at_ms >= self._ends[at - 1]
            else (self._lengths[at] - (self._ends[at - 1] - at_ms))
        )


def fitting_spans(capacity: dict[str, Steps], demand: dict[str, int]) -> Spans:
    """Where, from the origin on, every resource holds the demand; neighbouring spans are joined."""
    cuts = sorted({0, *(at for name in demand for at in _times(capacity, name) if at > 0)})
    found: list[tuple[int, int]] = []
    for low, high in pairwise([*cuts, FOREVER]):
        if all(name in capacity and capacity[name].at(low) >= amount for name, amount in demand.items()):
            if found and found[-1][1] == low:
                found[-1] = (found[-1][0], high)
            else:
                found.append((low, high))
    return Spans(found)


def _times(capacity: dict[str, Steps], name: str) -> list[int]:
    return capacity[name].times if name in capacity else []
