"""Kernel source: where a run fits, and taking it out of the room. Compiled, or run as it stands (see `lanes`)."""

from __future__ import annotations

from gpuyield.plan.kernel.table import BLOCK, FAR, Ints, Room, Runs, Table


def slot_down(table: Table, tick: int) -> int:
    """The slot that a tick lies in."""
    if tick < table.near:
        return tick
    return table.near + (tick - table.near) // table.ratio


def slot_up(table: Table, tick: int) -> int:
    """The first slot that begins at a tick or later."""
    if tick <= table.near:
        return tick
    return table.near + (tick - table.near + table.ratio - 1) // table.ratio


def tick_of(table: Table, slot: int) -> int:
    """Where a slot begins."""
    if slot <= table.near:
        return slot
    return table.near + (slot - table.near) * table.ratio


def last_short(room: Room, resource: int, amount: int, begin: int, end: int) -> int:
    """The last slot of a span with less than an amount free; -1 where there is none."""
    free, low = room.free[resource], room.low[resource]
    at = end - 1
    while at >= begin:
        block = at >> BLOCK
        edge = block << BLOCK
        if low[block] >= amount:
            at = edge - 1
            continue
        stop = max(edge, begin)
        while at >= stop:
            if free[at] < amount:
                return at
            at -= 1
    return -1


def first_short(room: Room, resource: int, amount: int, begin: int, end: int) -> int:
    """The first slot of a span with less than an amount free; -1 where there is none."""
    free, low = room.free[resource], room.low[resource]
    at = begin
    while at < end:
        block = at >> BLOCK
        edge = (block + 1) << BLOCK
        if low[block] >= amount:
            at = edge
            continue
        stop = min(edge, end)
        while at < stop:
            if free[at] < amount:
                return at
            at += 1
    return -1


def earliest(table: Table, room: Room, mode: int, ready: int, last: int) -> int:
    """The first slot at which a mode fits, starting from `ready` on and by `last` (ticks); -1 where there is none."""
    slots = room.free.shape[1]
    length = table.lengths[mode]
    low, high = table.first_demand[mode], table.first_demand[mode + 1]
    start = slot_up(table, ready)
    while start < slots:
        tick = tick_of(table, start)
        if tick > last:
            return -1
        end = slot_up(table, tick + length)
        if end > slots:
            return -1
        blocked = -1
        for at in range(low, high):
            short = last_short(room, table.resources[at], table.amounts[at], max(start, blocked + 1), end)
            blocked = max(blocked, short)
        if blocked < 0:
            return start
        start = blocked + 1
    return -1


def latest(table: Table, room: Room, mode: int, ready: int, last: int) -> int:
    """The last slot at which a mode fits, starting from `ready` on and by `last` (ticks); -1 where there is none."""
    slots = room.free.shape[1]
    length = table.lengths[mode]
    low, high = table.first_demand[mode], table.first_demand[mode + 1]
    start = slot_down(table, min(last, tick_of(table, slots) - length))
    while start >= 0:
        tick = tick_of(table, start)
        if tick < ready:
            return -1
        end = slot_up(table, tick + length)
        blocked = FAR
        for at in range(low, high):
            short = first_short(room, table.resources[at], table.amounts[at], start, min(end, blocked))
            if short >= 0:
                blocked = short
        if blocked == FAR:
            return start
        begin = tick_of(table, blocked) - length
        if begin < ready:
            return -1
        start = min(start - 1, slot_down(table, begin))
    return -1


def reserve(table: Table, room: Room, mode: int, start: int, end: int, sign: int) -> None:
    """Take what a mode demands out of a span of slots; `sign` -1 gives it back."""
    for at in range(table.first_demand[mode], table.first_demand[mode + 1]):
        change = table.amounts[at] * sign
        free, low = room.free[table.resources[at]], room.low[table.resources[at]]
        for slot in range(start, end):
            free[slot] -= change
        for block in range(start >> BLOCK, ((end - 1) >> BLOCK) + 1):
            begin, stop = block << BLOCK, min((block + 1) << BLOCK, free.shape[0])
            if start <= begin and stop <= end:
                low[block] -= change
            else:
                least = free[begin]
                for slot in range(begin + 1, stop):
                    least = min(least, free[slot])
                low[block] = least


def hold(table: Table, room: Room, runs: Runs, job: int, sign: int) -> None:
    """Take a job's run out of the room; `sign` -1 gives it back."""
    start, end = slot_down(table, max(0, runs.starts[job])), slot_up(table, runs.ends[job])
    if end > start:
        reserve(table, room, runs.modes[job], start, end, sign)


def hold_all(table: Table, room: Room, runs: Runs, jobs: Ints) -> None:
    """Take the runs of several jobs out of the room."""
    for at in range(len(jobs)):
        if runs.modes[jobs[at]] >= 0:
            hold(table, room, runs, jobs[at], 1)


def chance(dice: Ints, sides: int) -> int:
    """A whole number below `sides` (Lehmer's generator: the same in both lanes)."""
    dice[0] = dice[0] * 48_271 % 2_147_483_647
    return int(dice[0] % sides)


FIT = (
    slot_down,
    slot_up,
    tick_of,
    last_short,
    first_short,
    earliest,
    latest,
    reserve,
    hold,
    hold_all,
    chance,
)
