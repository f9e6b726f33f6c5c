"""Kernel source: ruin and recreate. A late job and some that run in its window are taken out and placed anew.

Jobs lie in lists by the block of slots in which they start, so that neighbours in time are found at once. A move is
kept unless it misses a deadline that was met, gives up what ran, or has less weight on time; else it is undone.

Source: large neighbourhood search (Shaw 1998); ruin and recreate (Schrimpf et al. 2000).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpuyield.plan.kernel.fit import chance, hold, latest, slot_down, tick_of
from gpuyield.plan.kernel.levels import is_waited_for, until_of
from gpuyield.plan.kernel.serial import place, ready_at
from gpuyield.plan.kernel.table import BLOCK, FAR, Floats, Ints, Room, Runs, Table


class Whereabouts(NamedTuple):
    """Who runs where, to be found fast: jobs by block of their start, and the list of those that are late.

    `heads[block]`, `following[job]` and `leading[job]` are linked lists; `late[: counts[0]]` are the late jobs and
    `places[job]` where a job stands among them, -1 elsewhere. `loose[job]` says whether it may be moved.
    """

    heads: Ints
    following: Ints
    leading: Ints
    late: Ints
    places: Ints
    counts: Ints
    loose: Ints


def link(table: Table, runs: Runs, about: Whereabouts, job: int) -> None:
    """Note a job's run, and whether it is late."""
    late = table.wanted[job] < FAR
    if runs.modes[job] >= 0:
        late = late and runs.ends[job] > table.wanted[job]
        block = slot_down(table, runs.starts[job]) >> BLOCK
        first = about.heads[block]
        about.following[job], about.leading[job] = first, -1
        if first >= 0:
            about.leading[first] = job
        about.heads[block] = job
    place_in_list = about.places[job]
    if late and place_in_list < 0:
        about.places[job] = about.counts[0]
        about.late[about.counts[0]] = job
        about.counts[0] += 1
    elif not late and place_in_list >= 0:
        about.counts[0] -= 1
        last = about.late[about.counts[0]]
        about.late[place_in_list], about.places[last] = last, place_in_list
        about.places[job] = -1


def unlink(table: Table, runs: Runs, about: Whereabouts, job: int) -> None:
    """Forget a job's run."""
    if runs.modes[job] < 0:
        return
    after, before = about.following[job], about.leading[job]
    if after >= 0:
        about.leading[after] = before
    if before >= 0:
        about.following[before] = after
    else:
        about.heads[slot_down(table, runs.starts[job]) >> BLOCK] = after


def link_all(table: Table, runs: Runs, about: Whereabouts) -> None:
    """Note all runs of jobs that may be moved."""
    for job in range(len(about.loose)):
        if about.loose[job]:
            link(table, runs, about, job)


def gather(table: Table, runs: Runs, about: Whereabouts, first: int, group: Ints, size: int, dice: Ints) -> int:
    """Fill the group with a job and others that run about some instant of its window; how many they are."""
    group[0] = first
    count = 1
    low = slot_down(table, table.heads[first]) >> BLOCK
    until = min(table.wanted[first], table.limits[first])
    high = min(len(about.heads) - 1, slot_down(table, until) >> BLOCK) if until < FAR else len(about.heads) - 1
    center = low + chance(dice, max(1, high - low + 1))
    for reach in range(2 * len(about.heads)):
        block = center + (reach + 1) // 2 * (1 if reach % 2 else -1)
        if reach > 64 and reach > 8 * (high - low + 1):
            break
        if not 0 <= block < len(about.heads):
            continue
        job = about.heads[block]
        while job >= 0 and count < size:
            if job != first and chance(dice, 4) > 0:
                group[count] = job
                count += 1
            job = about.following[job]
        if count >= size:
            break
    return count


def rank(table: Table, group: Ints, keys: Floats, count: int, values: Floats, dice: Ints) -> None:
    """Sort a group by one of the list rules, or by chance; the first one often stays first."""
    rule, first = chance(dice, 6), group[0]
    for at in range(count):
        job = group[at]
        mode = table.first_mode[job]
        length = table.lengths[mode]
        noise = 0.7 + 0.6 * chance(dice, 1_000) / 1_000.0
        if rule == 0:
            keys[at] = min(table.wanted[job], FAR) - length
        elif rule == 1:
            keys[at] = -values[job] * noise
        elif rule == 2:
            keys[at] = chance(dice, 1_000_000)
        elif rule == 3:
            keys[at] = min(table.wanted[job], FAR)
        elif rule == 4:
            keys[at] = -table.amounts[table.first_demand[mode]] * noise
        else:
            keys[at] = -length * table.amounts[table.first_demand[mode]] * noise
    if chance(dice, 2) == 0:
        keys[0] = -np.inf
    for at in range(1, count):
        key, job = keys[at], group[at]
        to = at - 1
        while to >= 0 and (keys[to] > key or (keys[to] == key and group[to] > job and group[to] != first)):
            keys[to + 1], group[to + 1] = keys[to], group[to]
            to -= 1
        keys[to + 1], group[to + 1] = key, job


def place_late(table: Table, room: Room, runs: Runs, job: int, until: int) -> bool:
    """Run a job as late as it fits while it is on time, ending by `until`, in its first mode."""
    ready = ready_at(table, runs, job)
    until = min(until, table.timely[job])
    if ready >= FAR or until >= FAR:
        return False
    mode = table.first_mode[job]
    slot = latest(table, room, mode, ready, until - table.lengths[mode])
    if slot < 0:
        return False
    runs.modes[job], runs.starts[job] = mode, tick_of(table, slot)
    runs.ends[job] = runs.starts[job] + table.lengths[mode]
    hold(table, room, runs, job, 1)
    return True


def worth_of(table: Table, runs: Runs, group: Ints, count: int, worth: Floats) -> None:
    """How many deadlines a group misses, how many of it do not run, its weight on time, how late the others are."""
    worth[:] = 0.0
    for at in range(count):
        job = group[at]
        if runs.modes[job] < 0:
            worth[0] -= table.hard[job]
            worth[1] -= 1.0
        elif runs.ends[job] <= table.wanted[job]:
            if table.wanted[job] < FAR:
                worth[2] += table.weights[job]
        else:
            worth[3] -= runs.ends[job] - table.wanted[job]


def breaks_chain(table: Table, runs: Runs, group: Ints, count: int) -> bool:
    """Whether something that runs waits for one of the group that does not."""
    broken = False
    for at in range(count):
        broken = broken or (runs.modes[group[at]] < 0 and is_waited_for(table, runs, group[at]))
    return broken


def is_worse(before: Floats, after: Floats, guard: bool) -> bool:
    """Whether what was reached is less: deadlines met (with `guard`), weight, jobs that run, little lateness."""
    if guard and after[0] != before[0]:
        return bool(after[0] < before[0])
    for at in (2, 1, 3):
        if after[at] != before[at]:
            return bool(after[at] < before[at])
    return False


def take_out(table: Table, room: Room, runs: Runs, about: Whereabouts, group: Ints, count: int) -> None:
    """Nothing of the group runs any more."""
    for at in range(count):
        job = group[at]
        if runs.modes[job] >= 0:
            hold(table, room, runs, job, -1)
            unlink(table, runs, about, job)
            runs.modes[job] = -1


def recreate(table: Table, room: Room, runs: Runs, group: Ints, count: int, backward: bool, by_end: bool) -> None:
    """Place a group in its order; what waits for others of it once they are placed."""
    for _ in range(count):
        placed = 0
        for at in range(count):
            job = group[at]
            if runs.modes[job] >= 0:
                continue
            until = min(table.limits[job], until_of(table, runs, job))
            late = backward and place_late(table, room, runs, job, until)
            if late or place(table, room, runs, job, until, by_end):
                placed += 1
        if placed == 0 or len(table.before) == 0:
            return


def repair(
    table: Table,
    room: Room,
    runs: Runs,
    about: Whereabouts,
    values: Floats,
    moves: int,
    most: int,
    guard: bool,
    dice: Ints,
) -> int:
    """So many moves; how many jobs were placed. `guard` keeps every deadline that is met; `values` is worth by area."""
    group, keys = np.empty(most, dtype=np.int64), np.empty(most, dtype=np.float64)
    old_starts, old_ends = np.empty(most, dtype=np.int64), np.empty(most, dtype=np.int64)
    old_modes = np.empty(most, dtype=np.int64)
    before, after = np.zeros(4), np.zeros(4)
    work = 0
    for _ in range(moves):
        if about.counts[0] == 0:
            return work
        first = about.late[chance(dice, about.counts[0])]
        count = gather(table, runs, about, first, group, 4 + chance(dice, most - 4), dice)
        worth_of(table, runs, group, count, before)
        rank(table, group, keys, count, values, dice)
        for at in range(count):
            job = group[at]
            old_starts[at], old_ends[at], old_modes[at] = runs.starts[job], runs.ends[job], runs.modes[job]
        take_out(table, room, runs, about, group, count)
        recreate(table, room, runs, group, count, chance(dice, 4) == 0, chance(dice, 4) == 0)
        work += count
        worth_of(table, runs, group, count, after)
        worse = breaks_chain(table, runs, group, count) or is_worse(before, after, guard)
        if worse:
            for at in range(count):
                if runs.modes[group[at]] >= 0:
                    hold(table, room, runs, group[at], -1)
            for at in range(count):
                job = group[at]
                runs.starts[job], runs.ends[job], runs.modes[job] = old_starts[at], old_ends[at], old_modes[at]
                if old_modes[at] >= 0:
                    hold(table, room, runs, job, 1)
        for at in range(count):
            link(table, runs, about, group[at])
    return work


REPAIR = (
    link,
    unlink,
    link_all,
    gather,
    rank,
    place_late,
    worth_of,
    breaks_chain,
    is_worse,
    take_out,
    recreate,
    repair,
)
