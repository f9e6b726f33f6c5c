"""Levelling: spread jobs inside their windows so that the most held at once becomes as small as it gets.

Load is kept on a grid that is conservative (a job covers every slot that it touches), so the peak of the real runs
is never above the grid's. Each job in turn is taken out and put where the sum of (load / target) ** k grows least, k
rising from round to round.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpuyield.plan.instance.budget import Budget

SLOTS = 16_384
POWERS = (2, 4, 8, 16, 32, 64)


@dataclass(frozen=True, slots=True)
class Movable:
    """Jobs on one resource, each in one shape: earliest start, latest end, duration, demand (exact ms)."""

    heads: NDArray[np.int64]
    tails: NDArray[np.int64]
    durations: NDArray[np.int64]
    demands: NDArray[np.int64]


def level(jobs: Movable, target: int, budget: Budget) -> NDArray[np.int64]:
    """Starts that keep the load low, all windows kept; the more budget, the more rounds.

    `target` is the load to aim for, such as the lower bound.
    """
    slot = _slot_ms(jobs)
    origin = int(jobs.heads.min())
    firsts = -(-(jobs.heads - origin) // slot)
    lengths = -(-jobs.durations // slot)
    lasts = (jobs.tails - origin) // slot - lengths
    loose = lasts >= firsts
    count = int((jobs.tails.max() - origin) // slot) + 2
    load = np.zeros(count, dtype=np.float64)
    starts = jobs.heads.copy()
    for at in np.flatnonzero(~loose):
        low, high = _covered(int(jobs.heads[at]) - origin, int(jobs.durations[at]), slot)
        load[low:high] += jobs.demands[at]
    order = np.lexsort((-(jobs.durations * jobs.demands), lasts - firsts))
    order = order[loose[order]]
    places = np.full(len(starts), -1, dtype=np.int64)
    best, best_places = math.inf, places
    for power in POWERS:
        for at in order:
            if not budget.spend(1):
                break
            first, last, length = int(firsts[at]), int(lasts[at]), int(lengths[at])
            demand, place = float(jobs.demands[at]), int(places[at])
            if place >= 0:
                load[place : place + length] -= demand
            place = first + _cheapest(load[first : last + length], length, demand, target, power)
            load[place : place + length] += demand
            places[at] = place
        if (places[order] < 0).any():
            break
        peak = float(load.max())
        if peak < best:
            best, best_places = peak, places.copy()
        if budget.left <= 0:
            break
    chosen = best_places[order]
    if (chosen < 0).any():
        return starts
    starts[order] = origin + chosen * slot
    return starts


def _cheapest(load: NDArray[np.float64], length: int, demand: float, target: int, power: int) -> int:
    """The offset at which a job of this length adds least to the sum of (load / target) ** power."""
    cost = ((load + demand) / target) ** power - (load / target) ** power
    total = np.concatenate([np.zeros(1), np.cumsum(cost)])
    return int(np.argmin(total[length:] - total[:-length]))


def _covered(offset: int, duration: int, slot: int) -> tuple[int, int]:
    return offset // slot, -(-(offset + duration) // slot)


def _slot_ms(jobs: Movable) -> int:
    span = int(jobs.tails.max() - jobs.heads.min())
    step = math.gcd(*(int(one) for one in jobs.durations), *(int(one) for one in jobs.heads))
    step = math.gcd(step, *(int(one) for one in jobs.tails))
    coarse = -(-span // SLOTS)
    return max(1, step * -(-coarse // step) if step else coarse)


def peak(starts: Sequence[int] | NDArray[np.int64], ends: NDArray[np.int64], demands: NDArray[np.int64]) -> int:
    """The most held at once, exact."""
    times = np.concatenate([ends, np.asarray(starts)])
    changes = np.concatenate([-demands, demands])
    order = np.lexsort((changes, times))
    return int(np.cumsum(changes[order]).max(initial=0))
