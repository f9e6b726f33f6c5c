"""Kernel source: levelling. Jobs are taken out one by one and put where they cost least.

What a slot costs rises with its load: `prices[load]`, times the slot's own weight. Loads are of the `soft` resources;
whatever else a job demands has to fit as it is. Where running costs more than its `worth` a job is left out.

Source: negotiated congestion (McMurchie, Ebeling 1995), resource levelling (Burgess, Killebrew 1962).
"""

from __future__ import annotations

import numpy as np

from gpuyield.plan.kernel.fit import chance, first_short, hold, slot_down, slot_up, tick_of
from gpuyield.plan.kernel.serial import ready_at
from gpuyield.plan.kernel.table import FAR, Floats, Ints, Room, Runs, Table

CLOSE = 1e-9
"""Costs so near to each other are equal."""


def until_of(table: Table, runs: Runs, job: int) -> int:
    """The latest end that a job's limit and the jobs behind it leave."""
    until = int(table.limits[job])
    for at in range(table.first_after[job], table.first_after[job + 1]):
        other = table.after[at]
        if runs.modes[other] >= 0:
            until = min(until, runs.starts[other])
    return until


def is_waited_for(table: Table, runs: Runs, job: int) -> bool:
    """Whether something that runs waits for a job."""
    waited = False
    for at in range(table.first_after[job], table.first_after[job + 1]):
        waited = waited or runs.modes[table.after[at]] >= 0
    return waited


def others_fit(table: Table, room: Room, mode: int, soft: Ints, begin: int, end: int) -> bool:
    """Whether there is room for what a mode demands of resources that are not soft."""
    for at in range(table.first_demand[mode], table.first_demand[mode + 1]):
        which = table.resources[at]
        if not soft[which] and first_short(room, which, table.amounts[at], begin, end) >= 0:
            return False
    return True


def shift_load(table: Table, runs: Runs, job: int, load: Ints, soft: Ints, sign: int) -> None:
    """Add a job's run to the load of the soft resources, or take it away."""
    mode = runs.modes[job]
    begin, end = slot_down(table, max(0, runs.starts[job])), slot_up(table, runs.ends[job])
    for at in range(table.first_demand[mode], table.first_demand[mode + 1]):
        which, change = table.resources[at], sign * table.amounts[at]
        if soft[which]:
            row = load[which]
            for slot in range(begin, end):
                row[slot] += change


def touches(table: Table, runs: Runs, job: int, load: Ints, soft: Ints, above: int) -> bool:
    """Whether a run lies where the load of what it demands is above an amount."""
    mode = runs.modes[job]
    begin, end = slot_down(table, max(0, runs.starts[job])), slot_up(table, runs.ends[job])
    for at in range(table.first_demand[mode], table.first_demand[mode + 1]):
        which = table.resources[at]
        if soft[which]:
            row = load[which]
            for slot in range(begin, end):
                if row[slot] > above:
                    return True
    return False


def rises(
    table: Table,
    mode: int,
    soft: Ints,
    load: Ints,
    prices: Floats,
    weights: Floats,
    begin: int,
    end: int,
    costs: Floats,
) -> None:
    """What a mode would add to the cost of each slot of a span, into `costs`."""
    top = len(prices) - 1
    costs[begin:end] = 0.0
    for at in range(table.first_demand[mode], table.first_demand[mode + 1]):
        which, amount = table.resources[at], table.amounts[at]
        if soft[which]:
            row, own = load[which], weights[which]
            for slot in range(begin, end):
                now = row[slot]
                costs[slot] += (prices[min(top, now + amount)] - prices[min(top, now)]) * own[slot]


def cheapest_slot(
    table: Table,
    room: Room,
    mode: int,
    ready: int,
    until: int,
    soft: Ints,
    load: Ints,
    prices: Floats,
    weights: Floats,
    best: float,
    dice: Ints,
    scratch: Floats,
) -> tuple[float, int]:
    """The least cost of a mode between two ticks and the slot in which it then starts; -1 where none is below `best`.

    Of equals one by chance. Costs are added up as a queue of two stacks (what is left of one span, what has come
    since): nothing is ever taken away from a sum, so a slot that is dear leaves no rounding behind.
    """
    slots = load.shape[1]
    length = table.lengths[mode]
    hard = False
    for at in range(table.first_demand[mode], table.first_demand[mode + 1]):
        hard = hard or not soft[table.resources[at]]
    last = min(until, tick_of(table, slots)) - length
    start = slot_up(table, ready) if ready < FAR else slots
    best_slot, ties = -1, 1
    if start >= slots or tick_of(table, start) > last:
        return best, best_slot
    costs, left = scratch[0], scratch[1]
    rises(table, mode, soft, load, prices, weights, start, slot_up(table, last + length), costs)
    end = slot_up(table, tick_of(table, start) + length)
    turn, come = start, 0.0
    while True:
        if start >= turn:
            turn, come, total = end, 0.0, 0.0
            for slot in range(end - 1, start - 1, -1):
                total += costs[slot]
                left[slot] = total
        cost = left[start] + come if start < turn else come
        if cost <= best + CLOSE and (not hard or others_fit(table, room, mode, soft, start, end)):
            if cost < best - CLOSE:
                best, best_slot, ties = cost, start, 1
            else:
                ties += 1
                if chance(dice, ties) == 0:
                    best_slot = start
        if tick_of(table, start + 1) > last:
            return best, best_slot
        start += 1
        after = slot_up(table, tick_of(table, start) + length)
        for slot in range(end, after):
            come += costs[slot]
        end = after


def sweep(
    table: Table,
    room: Room,
    runs: Runs,
    order: Ints,
    soft: Ints,
    load: Ints,
    prices: Floats,
    weights: Floats,
    worth: Floats,
    above: int,
    beside: bool,
    dice: Ints,
) -> int:
    """Move each job of an order to where it costs least; how many are left out.

    `above` >= 0 leaves alone what does not run where the load is above it. `beside`: not all resources are soft.
    """
    failed = 0
    scratch = np.empty((2, load.shape[1]))
    for number in range(len(order)):
        job = order[number]
        old_mode, old_start, old_end = runs.modes[job], runs.starts[job], runs.ends[job]
        if old_mode >= 0:
            if above >= 0 and not touches(table, runs, job, load, soft, above):
                continue
            shift_load(table, runs, job, load, soft, -1)
            if beside:
                hold(table, room, runs, job, -1)
        runs.modes[job] = -1
        ready, until = ready_at(table, runs, job), until_of(table, runs, job)
        best_cost, best_mode, best_slot = np.inf, -1, -1
        for mode in range(table.first_mode[job], table.first_mode[job + 1]):
            cost, slot = cheapest_slot(
                table, room, mode, ready, until, soft, load, prices, weights, best_cost, dice, scratch
            )
            if slot >= 0:
                best_cost, best_mode, best_slot = cost, mode, slot
        if best_mode < 0 or (best_cost > worth[job] and not is_waited_for(table, runs, job)):
            failed += 1
            if best_mode >= 0 or old_mode < 0:
                continue
            runs.modes[job], runs.starts[job], runs.ends[job] = old_mode, old_start, old_end
        else:
            runs.modes[job], runs.starts[job] = best_mode, tick_of(table, best_slot)
            runs.ends[job] = runs.starts[job] + table.lengths[best_mode]
        shift_load(table, runs, job, load, soft, 1)
        if beside:
            hold(table, room, runs, job, 1)
    return failed


def relieve(table: Table, room: Room, runs: Runs, order: Ints) -> int:
    """Give up jobs, first those that come first in the order, until there is room for the others; how many."""
    gone = 0
    for number in range(len(order)):
        job = order[number]
        if runs.modes[job] < 0:
            continue
        mode = runs.modes[job]
        begin, end = slot_down(table, max(0, runs.starts[job])), slot_up(table, runs.ends[job])
        short = False
        for at in range(table.first_demand[mode], table.first_demand[mode + 1]):
            short = short or first_short(room, table.resources[at], 0, begin, end) >= 0
        if short:
            hold(table, room, runs, job, -1)
            runs.modes[job] = -1
            gone += 1
    return gone


def follow(table: Table, room: Room, runs: Runs, order: Ints) -> int:
    """Give up what waits for jobs that do not run, in an order that precedence allows; how many."""
    gone = 0
    for number in range(len(order)):
        job = order[number]
        if runs.modes[job] >= 0 and ready_at(table, runs, job) > runs.starts[job]:
            hold(table, room, runs, job, -1)
            runs.modes[job] = -1
            gone += 1
    return gone


LEVELS = (until_of, is_waited_for, others_fit, shift_load, touches, rises, cheapest_slot, sweep, relieve, follow)
