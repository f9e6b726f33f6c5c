"""Jobs that may be paused: how to run one in several parts.

Each further part costs a restart: n parts are together (n - 1) x restart longer than the job. A part that is not longer
than a restart gains nothing and is never planned.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpuyield.plan.instance.board import Mode
from gpuyield.plan.instance.profile import Profile

Parts = tuple[tuple[int, int], ...]


def fewest_parts(
    profile: Profile, mode: Mode, not_before_ms: int, by_ms: int, restart_ms: int, *, begun_ms: int | None = None
) -> Parts | None:
    """As few parts as there are that end by an instant, the longest free spans first; None where no parts do.

    `begun_ms` is a fixed start: the first part begins then, before the origin perhaps.
    """
    if by_ms <= not_before_ms:
        return None
    spans = list(profile.spans(mode.demand, max(0, not_before_ms), by_ms))
    first: list[tuple[int, int]] = []
    if begun_ms is not None:
        if begun_ms >= 0 and (not spans or spans[0][0] > begun_ms):
            return None
        if begun_ms < 0 and spans and spans[0][0] <= 0:
            first = [(begun_ms, spans.pop(0)[1])]
        elif begun_ms < 0:
            first = [(begun_ms, 0)]
        else:
            first = [spans.pop(0)]
    return _taken(first, spans, mode.duration_ms, restart_ms)


def _taken(
    first: list[tuple[int, int]], spans: Sequence[tuple[int, int]], duration_ms: int, restart_ms: int
) -> Parts | None:
    """The first parts, and the longest of the spans that it takes beside them; the last one is cut where it ends."""
    taken = list(first)
    left = duration_ms - sum(high - low for low, high in first)
    for low, high in sorted(spans, key=lambda span: (span[0] - span[1], span)):
        if left <= 0:
            break
        gain = high - low - (restart_ms if taken else 0)
        if gain <= 0:
            return None
        taken.append((low, high))
        left -= gain
    if left > 0:
        return None
    taken.sort()
    low, high = taken[-1]
    taken[-1] = (low, high + left)
    return tuple(taken)


def earliest_parts(profile: Profile, mode: Mode, not_before_ms: int, by_ms: int, restart_ms: int) -> Parts | None:
    """The parts that end first: every free span that is longer than a restart is used; None where none end in time."""
    taken: list[tuple[int, int]] = []
    left = mode.duration_ms
    for low, high in profile.spans(mode.demand, max(0, not_before_ms), by_ms):
        cost = restart_ms if taken else 0
        if high - low >= left + cost:
            taken.append((low, low + left + cost))
            return tuple(taken)
        if high - low > restart_ms:
            taken.append((low, high))
            left -= high - low - cost
    return None
