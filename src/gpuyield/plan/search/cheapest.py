"""The cheapest plan: its bound, and for few jobs the cheapest choice of shapes that has a plan.

Source of the search: the k least sums of one entry from each row, taken from a heap.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction

from gpuyield.plan.case import Case
from gpuyield.plan.deadlines import QUICK_WORK, settled
from gpuyield.plan.instance.board import Mode
from gpuyield.plan.instance.budget import Budget
from gpuyield.plan.instance.completed import complete
from gpuyield.plan.instance.schedule import Placement, Schedule, meets_all
from gpuyield.plan.proof.exact import Answer

MOST_TASKS = 40
MOST_CHOICES = 2_000
CHEAPEST_WORK = 80_000

Costs = Mapping[tuple[int, int], Fraction]
"""What a task costs in a shape, by `(task, shape)`."""


def cost_of(costs: Costs, schedule: Schedule) -> Fraction:
    """What all runs of a schedule cost, restarts included."""
    return sum(
        (
            costs[at, one.mode.shape] * Fraction(one.length_ms, one.mode.duration_ms)
            for at, one in enumerate(schedule.placed)
            if one is not None
        ),
        start=Fraction(0),
    )


def least_cost(case: Case, costs: Costs) -> Fraction | None:
    """What no plan that runs every job in time is cheaper than: each job in its cheapest usable shape."""
    rows = _rows(case, costs)
    return sum((row[0][0] for row in rows), start=Fraction(0)) if all(rows) else None


def cheaper(case: Case, costs: Costs, best: Schedule, budget: Budget) -> Schedule:
    """A cheaper plan that runs every job and meets all hard deadlines, for few jobs; the given one without it."""
    rows = _rows(case, costs)
    if len(rows) > MOST_TASKS or not all(rows) or best.missing() or not meets_all(case.board, best):
        return best
    share = budget.share(CHEAPEST_WORK)
    for number, (cost, choice) in enumerate(_choices(rows)):
        if number >= MOST_CHOICES or cost >= cost_of(costs, best) or not share.spend(len(rows)):
            break
        found = _planned(case, choice, share)
        if found is not None and cost_of(costs, found) < cost_of(costs, best):
            best = found
    budget.settle(share)
    return best


def _rows(case: Case, costs: Costs) -> list[list[tuple[Fraction, Mode]]]:
    """Per task its usable modes, cheapest first."""
    return [
        sorted(
            ((costs[task.index, mode.shape], mode) for mode in case.windows.modes[task.index]),
            key=lambda entry: (entry[0], entry[1].shape),
        )
        for task in case.board.tasks
    ]


def _choices(rows: Sequence[Sequence[tuple[Fraction, Mode]]]) -> Iterator[tuple[Fraction, list[Mode]]]:
    """Choices of one mode each, the cheapest first."""
    least = sum((row[0][0] for row in rows), start=Fraction(0))
    waiting: list[tuple[Fraction, tuple[int, ...]]] = [(least, (0,) * len(rows))]
    while waiting:
        cost, places = heapq.heappop(waiting)
        yield cost, [row[place][1] for row, place in zip(rows, places, strict=True)]
        last = max((at for at, place in enumerate(places) if place), default=0)
        for at in range(last, len(rows)):
            if places[at] + 1 < len(rows[at]):
                more = rows[at][places[at] + 1][0] - rows[at][places[at]][0]
                heapq.heappush(waiting, (cost + more, (*places[:at], places[at] + 1, *places[at + 1 :])))


def _planned(case: Case, choice: Sequence[Mode], budget: Budget) -> Schedule | None:
    narrowed = case.with_modes([(mode,) for mode in choice])
    answer = settled(narrowed, narrowed.windows, range(len(choice)), budget, QUICK_WORK)
    if answer.answer is not Answer.PLAN:
        return None
    placed: dict[int, Placement] = answer.placed
    found = complete(narrowed, placed)
    return None if found.missing() else found
