"""A plan carried out with other run times than planned, again and again: how often each piece of work ends too late.

A piece starts once its planned start has come, what it waits for has ended, and enough is free; pieces are looked at
in the order given, and one that has to wait does not hold up those behind it. Nothing is planned anew.
"""

from __future__ import annotations

from typing import Any, TypeAlias  # The same source runs compiled, which knows arrays by their type alone.

import numpy as np

Ints: TypeAlias = Any


FAR = 1 << 62


def late_in(
    starts: Ints,
    lengths: Ints,
    demand: Ints,
    first_before: Ints,
    before: Ints,
    step_times: Ints,
    step_amounts: Ints,
    limits: Ints,
) -> Ints:
    """In how many samples each piece ends after its limit.

    `starts` are planned starts in rising order, `lengths` run times by sample and piece, `demand` by piece and
    resource; `before[first_before[k]:first_before[k + 1]]` are the pieces that piece k waits for; `step_amounts` is
    what exists of each resource from each of `step_times` on.
    """
    late = np.zeros(lengths.shape[1], dtype=np.int64)
    for sample in range(lengths.shape[0]):
        ends = ends_in(starts, lengths[sample], demand, first_before, before, step_times, step_amounts)
        late += ends > limits
    return late


def ends_in(
    starts: Ints, lengths: Ints, demand: Ints, first_before: Ints, before: Ints, step_times: Ints, step_amounts: Ints
) -> Ints:
    """When each piece ends in one sample; what never gets its turn ends far away."""
    pieces, resources = demand.shape
    ends = np.full(pieces, FAR, dtype=np.int64)
    held = np.zeros(resources, dtype=np.int64)
    ending = np.empty(pieces, dtype=np.int64)
    runs = 0
    waiting = np.empty(pieces, dtype=np.int64)
    waits = following = step = 0
    while following < pieces or waits > 0:
        now = starts[following] if following < pieces else FAR
        if runs > 0:
            now = min(now, ends[ending[0]])
        if waits > 0 and step + 1 < len(step_times):
            now = min(now, step_times[step + 1])
        if now == FAR:
            break
        while step + 1 < len(step_times) and step_times[step + 1] <= now:
            step += 1
        while runs > 0 and ends[ending[0]] <= now:
            runs = first_out(ending, ends, runs)
            take(held, demand, ending[runs], -1)
        while following < pieces and starts[following] <= now:
            waiting[waits] = following
            waits += 1
            following += 1
        kept = 0
        for place in range(waits):
            piece = waiting[place]
            ready = have_ended(now, ends, before, first_before[piece], first_before[piece + 1])
            if ready and has_room(demand, piece, held, step_amounts, step):
                take(held, demand, piece, 1)
                ends[piece] = now + lengths[piece]
                runs = last_in(ending, ends, runs, piece)
            else:
                waiting[kept] = piece
                kept += 1
        waits = kept
    return ends


def last_in(heap: Ints, key: Ints, size: int, item: Any) -> int:
    """Put an item into a binary heap of items by key, least first; how many it holds then."""
    at = size
    while at > 0 and key[heap[(at - 1) // 2]] > key[item]:
        heap[at] = heap[(at - 1) // 2]
        at = (at - 1) // 2
    heap[at] = item
    return size + 1


def first_out(heap: Ints, key: Ints, size: int) -> int:
    """Take the least item out of the heap, to the place behind it; how many it holds then."""
    least, item, left = heap[0], heap[size - 1], size - 1
    at = 0
    while 2 * at + 1 < left:
        child = 2 * at + 1
        if child + 1 < left and key[heap[child + 1]] < key[heap[child]]:
            child += 1
        if key[heap[child]] >= key[item]:
            break
        heap[at] = heap[child]
        at = child
    heap[at] = item
    heap[left] = least
    return left


def have_ended(now: int, ends: Ints, before: Ints, low: int, high: int) -> bool:
    """Whether all that a piece waits for has ended."""
    at = low
    while at < high and ends[before[at]] <= now:
        at += 1
    return at == high


def has_room(demand: Ints, piece: int, held: Ints, step_amounts: Ints, step: int) -> bool:
    """Whether enough is free for a piece; what it does not demand may be short."""
    for resource in range(len(held)):
        amount = demand[piece, resource]
        if amount > 0 and held[resource] + amount > step_amounts[step, resource]:
            return False
    return True


def take(held: Ints, demand: Ints, piece: Any, sign: int) -> None:
    """Take what a piece demands (`sign` -1: give it back)."""
    for resource in range(len(held)):
        held[resource] += sign * demand[piece, resource]


EXECUTION = (last_in, first_out, have_ended, has_room, take, ends_in, late_in)
"""The functions, each behind those that it calls."""
