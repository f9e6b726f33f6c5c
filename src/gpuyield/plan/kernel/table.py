"""What the kernel works on: plain arrays, in ticks of a slot grid.

Times are ticks. Slots are one tick wide up to `near` and `ratio` ticks beyond. Lengths and earliest starts are rounded
up, latest ends down, so a run that fits here fits in real time. The arrays after `first_*` are lists of lists: the part
of number k lies from `first[k]` to `first[k + 1]`.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Ints: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float64]

FAR = 1 << 60
"""Later than any tick."""

BLOCK = 6
"""Slots are summed up in blocks of 2 ** BLOCK."""


class Table(NamedTuple):
    """Jobs, their modes, what each mode demands, and who waits for whom."""

    heads: Ints
    wanted: Ints
    """Latest end that is on time; FAR where nothing is asked."""
    timely: Ints
    """The same, early enough for the jobs behind it as well."""
    limits: Ints
    """Latest end at all; FAR where nothing binds."""
    hard: Ints
    """1 where giving it up misses a deadline."""
    weights: Floats
    first_mode: Ints
    lengths: Ints
    preferences: Floats
    """By mode: of those that are on time the least is taken."""
    first_demand: Ints
    resources: Ints
    amounts: Ints
    first_before: Ints
    before: Ints
    first_after: Ints
    after: Ints
    near: int
    ratio: int


class Room(NamedTuple):
    """What is free by resource and slot, and the least of each block of slots."""

    free: Ints
    low: Ints


class Runs(NamedTuple):
    """Where the jobs run: start, end and mode; mode -1 where one does not run."""

    starts: Ints
    ends: Ints
    modes: Ints


def room_of(free: Ints) -> Room:
    """The room with its block minima; what lies beyond the last slot never stands in the way."""
    width = 1 << BLOCK
    blocks = -(-free.shape[1] // width)
    padded = np.full((free.shape[0], blocks * width), FAR, dtype=np.int64)
    padded[:, : free.shape[1]] = free
    return Room(free, np.ascontiguousarray(padded.reshape(free.shape[0], blocks, width).min(axis=2)))


def copy_of(runs: Runs) -> Runs:
    """An independent copy."""
    return Runs(runs.starts.copy(), runs.ends.copy(), runs.modes.copy())
