"""Interval overload: the span into which more GPU time is forced than exists (energetic reasoning).

For a fixed left end `a` the forced time of a job up to `b` is a ramp: 0 until v, then slope 1 up to a height. The
sum over jobs is piecewise linear, so the worst `b` is one of its breakpoints: one sort per left end.
Source: energetic reasoning (Erschler, Lopez 1990); the ramp form follows from min(left shift, right shift).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import (
    Any,  # A certificate is JSON.
    TypeAlias,
)

import numpy as np
from numpy.typing import NDArray

from gpuyield.plan.instance.board import Board, Mode, Steps
from gpuyield.plan.instance.profile import integral
from gpuyield.plan.instance.windows import Windows

Ints: TypeAlias = NDArray[np.int64]

SCREENED_PAIRS = 1_500_000
"""Left ends x jobs that one screening looks at; beyond, they are sampled evenly, then ever finer about the worst."""
INT_LIMIT = 1 << 62


@dataclass(frozen=True, slots=True)
class Forced:
    """Jobs that must spend time on one resource: head, tail, duration, demand; `paused` = preemptible."""

    tasks: Ints
    heads: Ints
    tails: Ints
    durations: Ints
    demands: Ints
    paused: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.tasks)

    def only(self, keep: NDArray[np.bool_]) -> Forced:
        """Those that `keep` names."""
        return Forced(
            self.tasks[keep],
            self.heads[keep],
            self.tails[keep],
            self.durations[keep],
            self.demands[keep],
            self.paused[keep],
        )

    def demanding(self, demands: Ints) -> Forced:
        """The same with other demands."""
        return Forced(self.tasks, self.heads, self.tails, self.durations, demands, self.paused)


@dataclass(frozen=True, slots=True, order=True)
class Overload:
    """A span and what is missing in it at least; the greatest is the one to name: most extra, longest, earliest."""

    extra: int
    length_ms: int
    minus_from_ms: int

    @property
    def from_ms(self) -> int:
        """Where it begins."""
        return -self.minus_from_ms

    @property
    def to_ms(self) -> int:
        """Where it ends."""
        return self.from_ms + self.length_ms


def forced_jobs(board: Board, windows: Windows, resource: int) -> Forced:
    """The jobs that cannot avoid this resource, each with its least demand and its shortest usable duration."""
    rows: list[tuple[int, int, int, int, int, bool]] = []
    for task in board.tasks:
        modes = windows.modes[task.index]
        tail = windows.tails[task.index]
        demand = min((mode.amount(resource) for mode in modes), default=0)
        if not demand:
            continue
        duration = min(mode.duration_ms for mode in modes)
        head = windows.heads[task.index]
        paused = task.job.restart_ms is not None
        if task.fixed_ms is not None and head > task.fixed_ms:
            continue
        if task.fixed_ms is not None and not paused:
            tail = task.fixed_ms + duration
        if tail is None or tail <= 0:
            continue
        rows.append((task.index, head, tail, duration, demand, paused))
    table = np.array(rows, dtype=np.int64).reshape(-1, 6)
    tasks, heads, tails, durations, demands, pausable = (table[:, at] for at in range(6))
    return Forced(tasks, heads, tails, durations, demands, pausable.astype(np.bool_))


def tightest(forced: Forced, steps: Steps) -> Overload | None:
    """The span with most extra GPUs needed over these steps, then the longest, then the earliest; None without one.

    With empty steps (nothing exists) `extra` is a lower bound on a constant amount.
    """
    if not len(forced) or _too_large(forced, steps):
        return None
    lefts = _left_ends(forced, steps)
    allowed = max(16, SCREENED_PAIRS // len(forced))
    supply = _Supply(steps)
    if len(lefts) <= allowed:
        return max((found for a in lefts if (found := _worst_right_end(forced, supply, int(a)))), default=None)
    stride = -(-len(lefts) // allowed)
    best: tuple[Overload, int] | None = None
    looked = range(0, len(lefts), stride)
    while True:
        for at in looked:
            found = _worst_right_end(forced, supply, int(lefts[at]))
            if found and (best is None or found > best[0]):
                best = (found, at)
        if best is None or stride == 1:
            return best[0] if best else None
        middle, reach = best[1], stride
        stride = max(1, stride // 4)
        looked = range(max(0, middle - reach), min(len(lefts), middle + reach + 1), stride)


class _Supply:
    """Cumulative capacity from the first step on."""

    def __init__(self, steps: Steps) -> None:
        self.times = np.array([at for at, _ in steps], dtype=np.int64)
        self.amounts = np.array([amount for _, amount in steps], dtype=np.int64)
        widths = np.diff(self.times) * self.amounts[:-1] if len(steps) else np.zeros(0, dtype=np.int64)
        self.before = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(widths)])[: len(steps)]

    def until(self, ends: Ints) -> Ints:
        if not len(self.times):
            return np.zeros_like(ends)
        at = np.searchsorted(self.times, ends, side="right") - 1
        inside = np.maximum(at, 0)
        total = self.before[inside] + self.amounts[inside] * (ends - self.times[inside])
        return np.where(at < 0, 0, total)


def _left_ends(forced: Forced, steps: Steps) -> Ints:
    ends = np.concatenate(
        [
            forced.heads,
            forced.tails - forced.durations,
            forced.heads + forced.durations,
            np.array([0, *(at for at, _ in steps)], dtype=np.int64),
        ]
    )
    kept: Ints = np.unique(ends)
    inside: Ints = kept[(kept >= 0) & (kept < forced.tails.max())]
    return inside


def _ramps(forced: Forced, left: int) -> tuple[Ints, Ints]:
    """Where each job's forced time begins to grow, and how far it grows, for spans that start at `left`."""
    starts = np.maximum(forced.tails - forced.durations, left)
    heights = np.minimum(forced.durations, np.maximum(forced.heads + forced.durations - left, 0))
    if forced.paused.any():
        kept = np.maximum(forced.durations - np.maximum(left - forced.heads, 0), 0)
        starts = np.where(forced.paused, np.maximum(forced.tails - kept, left), starts)
        heights = np.where(forced.paused, np.minimum(kept, np.maximum(forced.tails - left, 0)), heights)
    return starts, heights


def _worst_right_end(forced: Forced, supply: _Supply, left: int) -> Overload | None:
    starts, heights = _ramps(forced, left)
    live = heights > 0
    if not live.any():
        return None
    starts, heights, demands = starts[live], heights[live], forced.demands[live]
    more = supply.times[supply.times > left]
    points = np.concatenate([starts, starts + heights, more])
    slopes = np.concatenate([demands, -demands, np.zeros_like(more)])
    by_time = np.argsort(points, kind="stable")
    points, slopes = points[by_time], slopes[by_time]
    rates = np.cumsum(slopes)
    forced_until = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(rates[:-1] * np.diff(points))])
    there = supply.until(points) - supply.until(np.array([left], dtype=np.int64))
    lengths = points - left
    lacking = forced_until - there
    real = (lengths > 0) & (lacking > 0)
    if not real.any():
        return None
    lengths, lacking = lengths[real], lacking[real]
    extra = -(-lacking // lengths)
    most = extra.max()
    longest = int(lengths[extra == most].max())
    return Overload(int(most), longest, -left)


def _too_large(forced: Forced, steps: Steps) -> bool:
    """Whether 64 bits might not hold the sums."""
    far = max(int(forced.tails.max()), *(at for at, _ in steps), 1) if steps else max(int(forced.tails.max()), 1)
    far -= min(int(forced.heads.min()), *(at for at, _ in steps), 0) if steps else min(int(forced.heads.min()), 0)
    amount = int(forced.demands.astype(object).sum()) + max((amount for _, amount in steps), default=0)
    return far * amount >= INT_LIMIT


def overlap_ms(mode: Mode, head: int, tail: int, paused: bool, from_ms: int, to_ms: int) -> int:
    """The least time a job must spend in a span, whatever the plan, when run between head and tail."""
    duration = mode.duration_ms
    if paused:
        outside = max(0, min(from_ms, tail) - head) + max(0, tail - max(to_ms, head))
        return max(0, duration - outside)
    early = min(head + duration, to_ms) - max(head, from_ms)
    late = min(tail, to_ms) - max(tail - duration, from_ms)
    return max(0, min(early, late))


def forced_gpu_ms(board: Board, windows: Windows, resource: int, from_ms: int, to_ms: int) -> dict[int, int]:
    """Per task that must use the resource in a span: the least GPU time, exact."""
    return forced_worth(board, windows, lambda mode: mode.amount(resource), from_ms, to_ms)


def forced_worth(
    board: Board, windows: Windows, worth: Callable[[Mode], int], from_ms: int, to_ms: int
) -> dict[int, int]:
    """Per task the least worth x time in a span, exact, where a mode is worth so much while it runs; none of 0."""
    forced: dict[int, int] = {}
    for task in board.tasks:
        modes = windows.modes[task.index]
        if not modes:
            continue
        tail = windows.tails[task.index]
        parts = []
        for mode in modes:
            paused = task.job.restart_ms is not None
            end = tail if task.fixed_ms is None or paused else task.fixed_ms + mode.duration_ms
            if end is None:
                parts.append(0)
                continue
            head = windows.heads[task.index]
            parts.append(worth(mode) * overlap_ms(mode, head, end, paused, from_ms, to_ms))
        least = min(parts)
        if least > 0:
            forced[task.index] = least
    return forced


def interval_certificate(
    board: Board, steps: Sequence[Steps], windows: Windows, resource: int, from_ms: int, to_ms: int
) -> dict[str, Any]:
    """The span with its forced parts, as contracts.md 3 spells it; `extra_gpus` is 0 where nothing is missing."""
    forced = forced_gpu_ms(board, windows, resource, from_ms, to_ms)
    required = sum(forced.values())
    there = integral(steps[resource], from_ms, to_ms)
    return {
        "kind": "interval",
        "resource": board.resources[resource],
        "from_ms": from_ms,
        "to_ms": to_ms,
        "capacity_gpu_ms": there,
        "required_gpu_ms": required,
        "extra_gpus": max(0, -(-(required - there) // (to_ms - from_ms))),
        "jobs": [
            {"id": board.tasks[at].job.id, "forced_gpu_ms": amount}
            for at, amount in sorted(forced.items(), key=lambda item: board.tasks[item[0]].job.id)
        ],
    }
