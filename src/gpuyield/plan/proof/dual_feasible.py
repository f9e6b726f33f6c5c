"""Gangs that leave GPUs idle beside each other: more worth is forced into a span than can run side by side.

Worth takes the place of width. Three gangs of 8 do not fit on 20 GPUs, however little is forced in all: there a gang of
8 is worth 1, and at most 2 run at once. What widths are worth is tried from dual feasible functions; what the jobs that
there are can be worth side by side is worked out exactly.
Source: dual feasible functions (Fekete, Schepers 2001; rounding by the complement: Carlier, Clautiaux, Moukrim 2007).
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain

import numpy as np

from gpuyield.model.plan import Certificate
from gpuyield.plan.instance.board import Board, Mode, Steps
from gpuyield.plan.instance.budget import never
from gpuyield.plan.instance.profile import pieces
from gpuyield.plan.instance.windows import Windows
from gpuyield.plan.proof.overload import Forced, Ints, forced_worth, tightest

MOST_JOBS, MOST_AMOUNT, MOST_WIDTHS = 20_000, 10_000, 40
"""Beyond these no worth is tried."""
TRIED_JOBS, LEAST_TRIED = 40_000, 4
"""Jobs x worths that are tried on one resource, but so many worths at least."""
LEVELS = 3
"""Amounts, the greatest there are, to which worths are fitted."""


def dual_feasible(
    board: Board,
    steps: Sequence[Steps],
    windows: Windows,
    by_resource: Sequence[Forced],
    should_stop: Callable[[], bool] = never,
) -> Certificate | None:
    """The certificate of a resource on which some forced widths do not fit each other; None where none was found."""
    for resource, forced in enumerate(by_resource):
        if 2 <= len(forced) <= MOST_JOBS:
            found = _on(board, steps[resource], windows, resource, forced, should_stop)
            if found is not None:
                return found
    return None


def _on(
    board: Board,
    steps: Steps,
    windows: Windows,
    resource: int,
    forced: Forced,
    should_stop: Callable[[], bool],
) -> Certificate | None:
    widths, counts = np.unique(forced.demands, return_counts=True)
    levels = sorted({amount for *_, amount in pieces(steps, 0, int(forced.tails.max())) if amount}, reverse=True)
    if len(widths) > MOST_WIDTHS or not levels or levels[0] > MOST_AMOUNT:
        return None
    numbers = {int(width): int(count) for width, count in zip(widths, counts, strict=True)}
    left = max(LEAST_TRIED, TRIED_JOBS // len(forced))
    for worth in _worths([int(width) for width in widths], levels[:LEVELS]):
        most = side_by_side(numbers, worth, levels[0])
        if not any(worth[width] * level > int(most[level]) * width for width in worth for level in levels):
            continue
        worths = np.array([worth[int(width)] for width in widths], dtype=np.int64)
        demands = worths[np.searchsorted(widths, forced.demands)]
        kept = forced.demanding(demands).only(demands > 0)
        span = tightest(kept, tuple((at, int(most[min(amount, levels[0])])) for at, amount in steps))
        if span is not None:
            return _certificate(board, steps, windows, resource, worth, (span.from_ms, span.to_ms))
        left -= 1
        if not left or should_stop():
            return None
    return None


def side_by_side(numbers: Mapping[int, int], worth: Mapping[int, int], amount: int) -> Ints:
    """By amount, up to the given one: the most that jobs side by side are worth; `numbers` of each width."""
    most = np.zeros(amount + 1, dtype=np.int64)
    for width, number in numbers.items():
        left, times = min(number, amount // width), 1
        while left > 0 and worth[width]:
            taken = min(times, left)
            most[taken * width :] = np.maximum(most[taken * width :], most[: -taken * width] + taken * worth[width])
            left, times = left - taken, 2 * times
    return most


def _worths(widths: Sequence[int], levels: Sequence[int]) -> Iterator[dict[int, int]]:
    """What to try: each as widths by worth, none twice."""
    seen: set[tuple[int, ...]] = set()
    for worths in chain([list(widths)], _blocks(widths), *(_fitted(widths, level) for level in levels)):
        if any(worths) and tuple(worths) not in seen:
            seen.add(tuple(worths))
            yield dict(zip(widths, worths, strict=True))


def _blocks(widths: Sequence[int]) -> Iterator[list[int]]:
    """Whole blocks of one of the widths."""
    for block in reversed(widths):
        yield [width // block for width in widths]


def _fitted(widths: Sequence[int], level: int) -> Iterator[list[int]]:
    """Dual feasible functions of the share of an amount that a width is."""
    halves = [width for width in widths if 2 * width <= level]
    for least in halves:
        yield [level if width > level - least else width if width >= least else 0 for width in widths]
        yield [_by_complement(width, least, level) for width in widths]
    for parts in sorted({level // width for width in widths if width < level}):
        yield [_rounded(width, parts, level) for width in widths]


def _by_complement(width: int, least: int, level: int) -> int:
    """Below half: whole times the least; above it: what is left beside as few of these as there is room for."""
    if 2 * width > level:
        return 2 * (level // least - (level - width) // least)
    return level // least if 2 * width == level else 2 * (width // least)


def _rounded(width: int, parts: int, level: int) -> int:
    """The width as `parts + 1` parts of the amount, rounded down unless it is whole parts, over `parts`."""
    whole, rest = divmod((parts + 1) * width, level)
    return whole * level if rest else parts * width


def _certificate(
    board: Board,
    steps: Steps,
    windows: Windows,
    resource: int,
    worth: Mapping[int, int],
    window: tuple[int, int],
) -> Certificate | None:
    """As `verify` reads it, with the exact forced parts; None where these do not show it."""
    listed = sorted(worth)

    def reached(mode: Mode) -> int:
        """The greatest listed width that a mode reaches; 0 below the first."""
        at = bisect_right(listed, mode.amount(resource))
        return listed[at - 1] if at else 0

    forced = forced_worth(board, windows, lambda mode: worth.get(reached(mode), 0), *window)
    numbers = Counter(width for at in forced for width in {reached(mode) for mode in windows.modes[at]} - {0})
    most = side_by_side(numbers, worth, max(amount for *_, amount in pieces(steps, *window)))
    held = sum(int(most[amount]) * (high - low) for low, high, amount in pieces(steps, *window))
    required = sum(forced.values())
    if required <= held:
        return None
    return {
        "kind": "dual-feasible",
        "resource": board.resources[resource],
        "from_ms": window[0],
        "to_ms": window[1],
        "worth": [[width, worth[width]] for width in listed],
        "held": held,
        "required": required,
        "jobs": [
            {"id": board.tasks[at].job.id, "forced": amount}
            for at, amount in sorted(forced.items(), key=lambda item: board.tasks[item[0]].job.id)
        ],
    }
