"""Free capacity over time as a step function over several resources: find the earliest fit, reserve, give back.

Exact integer milliseconds; no slot grid, so scaling time changes nothing.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from gpuyield.plan.instance.board import Mode, Steps

NEVER = 1 << 62
"""Later than any time of a problem."""


class Profile:
    """What is free of each resource from `times[k]` until `times[k + 1]`; the last piece holds forever."""

    __slots__ = ("free", "times")

    def __init__(self, steps: Sequence[Steps]) -> None:
        self.times: list[int] = sorted({-NEVER, 0, *(at for one in steps for at, _ in one)})
        self.free: list[list[int]] = [_amounts(one, self.times) for one in steps]

    def copy(self) -> Profile:
        """An independent copy."""
        twin = object.__new__(Profile)
        twin.times = self.times.copy()
        twin.free = [one.copy() for one in self.free]
        return twin

    def earliest(self, mode: Mode, not_before_ms: int, last_start_ms: int = NEVER) -> int | None:
        """The earliest start at which the mode fits, at or after `not_before_ms`; None where there is none."""
        if len(mode.demand) == 1:
            resource, amount = mode.demand[0]
            return self._earliest_of_one(self.free[resource], amount, mode.duration_ms, not_before_ms, last_start_ms)
        if len(mode.demand) == 2:
            return self._earliest_of_two(mode, not_before_ms, last_start_ms)
        times, free, count = self.times, self.free, len(self.times)
        start = not_before_ms
        at = bisect_right(times, start) - 1
        while start <= last_start_ms:
            end = start + mode.duration_ms
            look = at
            while look < count and times[look] < end:
                if any(free[resource][look] < amount for resource, amount in mode.demand):
                    break
                look += 1
            else:
                return start
            at = look + 1
            if at >= count:
                return None
            start = times[at]
        return None

    def _earliest_of_two(self, mode: Mode, not_before_ms: int, last_start_ms: int) -> int | None:
        """GPUs within one quota, as nearly every job of a cluster asks for: as `earliest`, without a loop over them."""
        (one, amount), (other, further) = mode.demand
        row, beside, times, count = self.free[one], self.free[other], self.times, len(self.times)
        duration_ms, start = mode.duration_ms, not_before_ms
        look = bisect_right(times, start) - 1
        while start <= last_start_ms:
            end = start + duration_ms
            while look < count and times[look] < end:
                if row[look] < amount or beside[look] < further:
                    break
                look += 1
            else:
                return start
            look += 1
            while look < count and (row[look] < amount or beside[look] < further):
                look += 1
            if look >= count:
                return None
            start = times[look]
        return None

    def _earliest_of_one(
        self, free: list[int], amount: int, duration_ms: int, not_before_ms: int, last_start_ms: int
    ) -> int | None:
        times, count = self.times, len(self.times)
        start = not_before_ms
        look = bisect_right(times, start) - 1
        while start <= last_start_ms:
            end = start + duration_ms
            while look < count and times[look] < end:
                if free[look] < amount:
                    break
                look += 1
            else:
                return start
            look += 1
            while look < count and free[look] < amount:
                look += 1
            if look >= count:
                return None
            start = times[look]
        return None

    def spans(self, demand: Iterable[tuple[int, int]], from_ms: int, to_ms: int) -> Iterator[tuple[int, int]]:
        """The spans inside one in which the demand is free without a break."""
        rows = [(self.free[resource], amount) for resource, amount in demand]
        low = None
        at = bisect_right(self.times, from_ms) - 1
        while at < len(self.times) and self.times[at] < to_ms:
            if all(row[at] >= amount for row, amount in rows):
                low = max(from_ms, self.times[at]) if low is None else low
            elif low is not None:
                yield low, self.times[at]
                low = None
            at += 1
        if low is not None:
            yield low, to_ms

    def fits(self, demand: Iterable[tuple[int, int]], start_ms: int, end_ms: int) -> bool:
        """Whether the demand is free all the time in a span."""
        low, high = bisect_right(self.times, start_ms) - 1, bisect_left(self.times, end_ms)
        return all(min(self.free[resource][low:high]) >= amount for resource, amount in demand)

    def reserve(self, demand: Iterable[tuple[int, int]], start_ms: int, end_ms: int, sign: int = 1) -> None:
        """Take the demand out of a span (`sign` -1 gives it back); what is free may become negative."""
        low, high = self._cut(start_ms), self._cut(end_ms)
        for resource, amount in demand:
            row, change = self.free[resource], sign * amount
            for at in range(low, high):
                row[at] -= change

    def lowest(self, resource: int) -> int:
        """The least that is free from the origin on."""
        return min(self.free[resource][bisect_left(self.times, 0) :])

    def _cut(self, at_ms: int) -> int:
        at = bisect_left(self.times, at_ms)
        if at == len(self.times) or self.times[at] != at_ms:
            self.times.insert(at, at_ms)
            for row in self.free:
                row.insert(at, row[at - 1])
        return at


def _amounts(steps: Steps, times: Sequence[int]) -> list[int]:
    amounts, at, current = [], 0, 0
    for time in times:
        while at < len(steps) and steps[at][0] <= time:
            current = steps[at][1]
            at += 1
        amounts.append(current)
    return amounts


def pieces(steps: Steps, from_ms: int, to_ms: int) -> Iterator[tuple[int, int, int]]:
    """`(from, to, amount)` over a span, 0 before the first step."""
    for (low, amount), (high, _) in pairwise([(from_ms, 0), *steps, (to_ms, 0)]):
        if max(low, from_ms) < min(high, to_ms):
            yield max(low, from_ms), min(high, to_ms), amount


def integral(steps: Steps, from_ms: int, to_ms: int) -> int:
    """Capacity over a span, in GPU-ms."""
    total = 0
    for at, (start, amount) in enumerate(steps):
        end = steps[at + 1][0] if at + 1 < len(steps) else to_ms
        total += amount * max(0, min(end, to_ms) - max(start, from_ms))
    return total


def most_between(steps: Steps, from_ms: int, to_ms: int) -> int:
    """The most there is at any instant of a span."""
    return max((amount for *_, amount in pieces(steps, from_ms, to_ms)), default=0)


def constant(steps: Steps, amount: int) -> Steps:
    """A constant amount in place of these steps, from the origin on (earlier where they begin earlier)."""
    return ((min(0, steps[0][0]) if steps else 0, amount),)


def with_added(steps: Steps, amount: int, from_ms: int, to_ms: int) -> Steps:
    """The steps with so much more in a span."""
    times = sorted({from_ms, to_ms, *(at for at, _ in steps)})
    base = _amounts(steps, times)
    raised = [(at, have + (amount if from_ms <= at < to_ms else 0)) for at, have in zip(times, base, strict=True)]
    return tuple(step for at, step in enumerate(raised) if not at or step[1] != raised[at - 1][1])
