"""Kernel source: serial schedule generation, one job after another, each as early as it fits.

Source: serial schedule generation scheme (Kelley 1963).
"""

from __future__ import annotations

from gpuyield.plan.kernel.fit import earliest, hold, tick_of
from gpuyield.plan.kernel.table import FAR, Ints, Room, Runs, Table


def ready_at(table: Table, runs: Runs, job: int) -> int:
    """When all that a job waits for has ended; FAR where one of them does not run."""
    ready = int(table.heads[job])
    for at in range(table.first_before[job], table.first_before[job + 1]):
        other = table.before[at]
        if runs.modes[other] < 0:
            return FAR
        ready = max(ready, runs.ends[other])
    return ready


def place(table: Table, room: Room, runs: Runs, job: int, until: int, by_end: bool) -> bool:
    """Run a job as early as it fits, ending by `until`; of its modes that are on time the preferred one.

    With `by_end`, and where none is on time, the one that ends first.
    """
    ready = ready_at(table, runs, job)
    if ready >= FAR:
        return False
    best_mode, best_slot, best_end, best_cost = -1, -1, FAR, 0.0
    for mode in range(table.first_mode[job], table.first_mode[job + 1]):
        length = table.lengths[mode]
        slot = earliest(table, room, mode, ready, until - length)
        if slot < 0:
            continue
        end = tick_of(table, slot) + length
        cost = 0.0 if by_end else table.preferences[mode]
        timely, was_timely = end <= table.timely[job], best_end <= table.timely[job]
        if best_mode < 0 or (timely and not was_timely):
            better = True
        elif timely == was_timely:
            better = end < best_end if not timely else (cost, end) < (best_cost, best_end)
        else:
            better = False
        if better:
            best_mode, best_slot, best_end, best_cost = mode, slot, end, cost
    if best_mode < 0:
        return False
    runs.modes[job] = best_mode
    runs.starts[job] = tick_of(table, best_slot)
    runs.ends[job] = best_end
    hold(table, room, runs, job, 1)
    return True


def serial(table: Table, room: Room, runs: Runs, order: Ints, by_end: bool, strict: bool) -> int:
    """Place the jobs of an order; how many were looked at (with `strict` it ends behind the first deadline missed)."""
    for at in range(len(order)):
        job = order[at]
        placed = place(table, room, runs, job, table.limits[job], by_end)
        if strict and not placed and table.hard[job]:
            return at
    return len(order)


SERIAL = (ready_at, place, serial)
