"""Kernel source: an early end of everything, by breeding orders whose schedules are pushed back and forth.

Each order is placed job after job, as early as it fits; then from the last end back, as late as it fits; then forth
again. That never ends later. Every job has one length and demand, and there is always as much of each resource.

Source: two-point crossover of activity lists (Hartmann 1998); double justification (Valls, Ballestín, Quintanilla
2005).
"""

from __future__ import annotations

from typing import NamedTuple

from gpuyield.plan.kernel.fit import chance
from gpuyield.plan.kernel.table import FAR, Ints

SWAPS = 20
"""One of so many neighbours in an order changes places with the next."""


class Project(NamedTuple):
    """Jobs in slots: heads, lengths, latest starts on the longest path, demands, who waits for whom, what there is."""

    heads: Ints
    lengths: Ints
    lasts: Ints
    demands: Ints
    first_before: Ints
    before: Ints
    first_after: Ints
    after: Ints
    amounts: Ints


class Brood(NamedTuple):
    """Orders with their ends, the best starts so far with their end, and room to work in."""

    orders: Ints
    ends: Ints
    best: Ints
    best_end: Ints
    starts: Ints
    child: Ints
    keys: Ints
    free: Ints
    dice: Ints


def cleared(project: Project, free: Ints) -> None:
    """All is free."""
    for resource in range(free.shape[0]):
        for slot in range(free.shape[1]):
            free[resource, slot] = project.amounts[resource]


def fits_at(project: Project, free: Ints, job: int, slot: int) -> bool:
    """Whether a job's demand is free in one slot."""
    fits = True
    for resource in range(free.shape[0]):
        fits = fits and free[resource, slot] >= project.demands[job, resource]
    return fits


def held_from(project: Project, free: Ints, job: int, start: int) -> None:
    """Take a job's run out of what is free."""
    for resource in range(free.shape[0]):
        amount = project.demands[job, resource]
        if amount:
            for slot in range(start, start + project.lengths[job]):
                free[resource, slot] -= amount


def forth(project: Project, free: Ints, order: Ints, starts: Ints) -> int:
    """Place the jobs of an order as early as they fit; the last end."""
    cleared(project, free)
    end = 0
    for at in range(len(order)):
        job = order[at]
        start = project.heads[job]
        for place in range(project.first_before[job], project.first_before[job + 1]):
            other = project.before[place]
            start = max(start, starts[other] + project.lengths[other])
        slot = start
        while slot < start + project.lengths[job]:
            if not fits_at(project, free, job, slot):
                start = slot + 1
            slot += 1
        starts[job] = start
        end = max(end, start + project.lengths[job])
        held_from(project, free, job, start)
    return int(end)


def back(project: Project, free: Ints, order: Ints, starts: Ints, end: int) -> None:
    """Place the jobs from the last of an order to the first, as late as they fit before the end."""
    cleared(project, free)
    for at in range(len(order) - 1, -1, -1):
        job = order[at]
        stop = end
        for place in range(project.first_after[job], project.first_after[job + 1]):
            stop = min(stop, starts[project.after[place]])
        slot = stop - 1
        while slot >= stop - project.lengths[job]:
            if not fits_at(project, free, job, slot):
                stop = slot
            slot -= 1
        starts[job] = stop - project.lengths[job]
        held_from(project, free, job, starts[job])


def sorted_by(keys: Ints, order: Ints) -> None:
    """Sort an order by the keys of its jobs, equal ones as they were."""
    for at in range(1, len(order)):
        job, place = order[at], at - 1
        while place >= 0 and keys[order[place]] > keys[job]:
            order[place + 1] = order[place]
            place -= 1
        order[place + 1] = job


def judged(project: Project, brood: Brood) -> int:
    """The end of the child's schedule, pushed back and forth; the child becomes the order of its starts."""
    order, starts, keys = brood.child, brood.starts, brood.keys
    end = forth(project, brood.free, order, starts)
    for job in range(len(order)):
        keys[job] = starts[job] + project.lengths[job]
    sorted_by(keys, order)
    back(project, brood.free, order, starts, end)
    for job in range(len(order)):
        keys[job] = starts[job]
    sorted_by(keys, order)
    end = forth(project, brood.free, order, starts)
    for job in range(len(order)):
        keys[job] = starts[job]
    sorted_by(keys, order)
    if end < brood.best_end[0]:
        brood.best_end[0] = end
        for job in range(len(order)):
            brood.best[job] = starts[job]
    return end


def drawn(project: Project, brood: Brood, spread: int) -> None:
    """A child by chance: of the jobs that wait for nothing more, the one that has to start first by a blurred clock."""
    count, waiting, keys = len(brood.child), brood.starts, brood.keys
    for job in range(count):
        waiting[job] = project.first_before[job + 1] - project.first_before[job]
        keys[job] = project.lasts[job] + chance(brood.dice, spread)
    for at in range(count):
        job, least = -1, FAR
        for one in range(count):
            if waiting[one] == 0 and keys[one] < least:
                job, least = one, keys[one]
        brood.child[at] = job
        waiting[job] = -1
        for place in range(project.first_after[job], project.first_after[job + 1]):
            waiting[project.after[place]] -= 1


def crossed(brood: Brood, mother: int, father: int) -> None:
    """A child with the mother's first jobs, then some in the father's order, the others in hers."""
    count, taken, child = len(brood.child), brood.keys, brood.child
    first, second = chance(brood.dice, count), chance(brood.dice, count)
    low, high = min(first, second), max(first, second)
    for job in range(count):
        taken[job] = 0
    at = 0
    for source, stop in ((mother, low), (father, high), (mother, count)):
        for place in range(count):
            job = brood.orders[source, place]
            if at < stop and not taken[job]:
                child[at] = job
                taken[job] = 1
                at += 1


def shaken(project: Project, brood: Brood) -> None:
    """A few neighbours change places, where the second does not wait for the first."""
    child = brood.child
    for at in range(len(child) - 1):
        if chance(brood.dice, SWAPS) == 0:
            one, other = child[at], child[at + 1]
            free = True
            for place in range(project.first_before[other], project.first_before[other + 1]):
                free = free and project.before[place] != one
            if free:
                child[at], child[at + 1] = other, one


def settled_in(brood: Brood, place: int, end: int) -> None:
    """The child takes a place in the brood."""
    brood.ends[place] = end
    for at in range(len(brood.child)):
        brood.orders[place, at] = brood.child[at]


def is_new(brood: Brood, end: int) -> bool:
    """Whether no order of the brood is the child's."""
    for place in range(len(brood.ends)):
        if brood.ends[place] == end:
            at = 0
            while at < len(brood.child) and brood.orders[place, at] == brood.child[at]:
                at += 1
            if at == len(brood.child):
                return False
    return True


def breed(project: Project, brood: Brood, first: int, children: int, floor: int, spread: int) -> int:
    """So many children from number `first` on, fewer once an end is the floor; how many there were.

    The first fill the brood; each later one takes the place of its worse parent unless it ends later.
    """
    size = len(brood.ends)
    for number in range(first, first + children):
        if brood.best_end[0] <= floor:
            return number - first
        if number < size:
            drawn(project, brood, 1 if number == 0 else spread)
            settled_in(brood, number, judged(project, brood))
            continue
        mother, father = chance(brood.dice, size), chance(brood.dice, size)
        crossed(brood, mother, father)
        shaken(project, brood)
        end = judged(project, brood)
        worse = father if brood.ends[father] >= brood.ends[mother] else mother
        if end <= brood.ends[worse] and is_new(brood, end):
            settled_in(brood, worse, end)
    return children


PROJECT = (
    chance,
    cleared,
    fits_at,
    held_from,
    forth,
    back,
    sorted_by,
    judged,
    drawn,
    crossed,
    shaken,
    settled_in,
    is_new,
    breed,
)
