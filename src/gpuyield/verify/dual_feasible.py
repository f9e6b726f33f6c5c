"""`dual-feasible`: jobs counted by what their width is worth need more of it in a span than can run side by side.

Source: dual feasible functions (Fekete, Schepers 2001), here with the worth that the listed jobs can really reach.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable
from typing import Any  # JSON has no narrower type than this.

from .interval import read_window
from .problem import Shape
from .question import Question
from .report import Refused
from .steps import Steps
from .values import field, items, record, text, whole

_WHERE = "the certificate"
_MOST_WORTH = 10**9
_MOST_FORCED = 10**30
_MOST_WORK = 5_000_000


class Worth:
    """What a width is worth: as much as the greatest of the listed widths that it reaches, 0 below the first."""

    __slots__ = ("widths", "worths")

    def __init__(self, rows: list[tuple[int, int]]) -> None:
        self.widths = [width for width, _ in rows]
        self.worths = [worth for _, worth in rows]

    def place(self, width: int) -> int:
        """The place of the greatest listed width that a width reaches; -1 below the first."""
        return bisect_right(self.widths, width) - 1

    def of(self, shape: Shape, resource: str) -> int:
        """What a shape is worth while it runs."""
        at = self.place(shape.demand.get(resource, 0))
        return 0 if at < 0 else self.worths[at]

    def most(self, jobs: Iterable[Iterable[int]], amount: int) -> list[int]:
        """By amount, up to the given one: the most that some jobs, each of one of its widths, are worth side by side.

        Raises:
            Refused: There is too much to be tried.
        """
        counts: Counter[int] = Counter()
        for widths in jobs:
            counts.update({self.place(width) for width in widths} - {-1})
        sizes = {at: _doubling(min(count, amount // self.widths[at])) for at, count in counts.items()}
        if (1 + sum(map(len, sizes.values()))) * amount > _MOST_WORK:
            raise Refused("The widths are too many, or the amount too large, to be tried.")
        best = [0] * (amount + 1)
        for at, several in sizes.items():
            for times in several:
                wide, more = times * self.widths[at], times * self.worths[at]
                for have in range(amount, wide - 1, -1):
                    best[have] = max(best[have], best[have - wide] + more)
        return best


def check(stated: dict[str, Any], question: Question) -> None:
    """The listed jobs must be worth more in `[from_ms, to_ms)` than what runs side by side can be."""
    if question.weight_above is not None:
        raise Refused("This kind of certificate says nothing about weight on time.")
    window = read_window(stated)
    resource = text(field(stated, "resource", _WHERE), f"{_WHERE}'s resource")
    worth = _worth(stated)
    names, required = _required(stated, question, resource, worth, window)
    held = _held(question, resource, worth, window, names)
    if _figure(stated, "required") != required:
        raise Refused(f"required is not the sum of the forced parts ({required}).")
    if _figure(stated, "held") < held:
        raise Refused(f"The span holds {held}, more than is said.")
    if required <= _figure(stated, "held"):
        raise Refused(f"The jobs are worth {required} in the span, and it holds {held}: nothing is proven.")


def _worth(stated: dict[str, Any]) -> Worth:
    rows: list[tuple[int, int]] = []
    for at, entry in enumerate(items(field(stated, "worth", _WHERE), f"{_WHERE}'s worth")):
        where = f"{_WHERE}'s worth[{at}]"
        pair = items(entry, where)
        if len(pair) != 2:
            raise Refused(f"{where} is not [width, worth].")
        least = whole(pair[0], where, low=rows[-1][0] + 1 if rows else 1)
        rows.append((least, whole(pair[1], where, low=0, high=_MOST_WORTH)))
    return Worth(rows)


def _required(
    stated: dict[str, Any], question: Question, resource: str, worth: Worth, window: tuple[int, int]
) -> tuple[list[str], int]:
    """The listed jobs, and the sum of their forced parts."""
    names: dict[str, int] = {}
    for at, entry in enumerate(items(field(stated, "jobs", _WHERE), f"{_WHERE}'s jobs")):
        part = record(entry, f"{_WHERE}'s jobs[{at}]")
        name = text(field(part, "id", f"{_WHERE}'s jobs[{at}]"), f"{_WHERE}'s jobs[{at}].id")
        if name in names or name not in question.problem.jobs:
            raise Refused(f'{_WHERE} lists "{name[:60]}", which is {"listed twice" if name in names else "no job"}.')
        where = f"{_WHERE}'s jobs[{name[:60]}].forced"
        claimed = whole(field(part, "forced", where), where, low=0, high=_MOST_FORCED)
        shown = max(
            min(
                (worth.of(shape, resource) * frame.overlap(name, shape, *window) for shape in frame.usable(name)),
                default=0,
            )
            for frame in question.frames
        )
        if claimed > shown:
            raise Refused(f'{claimed} of "{name[:60]}" are said to be forced into the span; {shown} are.')
        names[name] = claimed
    return list(names), sum(names.values())


def _held(question: Question, resource: str, worth: Worth, window: tuple[int, int], names: list[str]) -> int:
    """The most that the listed jobs can be worth in the span, instant by instant."""
    widths = [{shape.demand.get(resource, 0) for shape in question.frame.usable(name)} for name in names]
    steps = question.problem.capacity.get(resource, Steps([]))
    enough = sum(max(one, default=0) for one in widths)
    most = worth.most(widths, min(enough, steps.highest(*window)))
    return sum((high - low) * most[min(amount, len(most) - 1)] for low, high, amount in steps.pieces(*window))


def _figure(stated: dict[str, Any], name: str) -> int:
    return whole(field(stated, name, _WHERE), f"{_WHERE}'s {name}", low=0, high=_MOST_FORCED)


def _doubling(count: int) -> list[int]:
    """Numbers, some of which add up to any number up to `count` and none beyond: 1, 2, 4, ... and a rest."""
    found, size = [], 1
    while count > 0:
        found.append(min(size, count))
        count -= found[-1]
        size *= 2
    return found
