"""Spans that hold less than what is forced into them together: the cut of a maximum flow from jobs to time.

Jobs that may be paused run at any time in their window, so all can be met only if a flow from jobs to the pieces of
time between releases, deadlines and changes of capacity takes all their GPU time (restarts cost nothing in it). Where
it does not, the pieces on the source's side of the cut are the proof. Of a job in one piece the part that it must run
at certain times is taken out of the capacity, and the rest flows.
Source: preemptive scheduling as a flow (Horn 1974).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from gpuyield.model.plan import Certificate
from gpuyield.plan.instance.board import Board, Mode, Steps
from gpuyield.plan.instance.budget import Budget
from gpuyield.plan.instance.profile import integral
from gpuyield.plan.instance.windows import Windows
from gpuyield.plan.proof.flow import Flow
from gpuyield.plan.proof.overload import Forced

MOST_EDGES = 20_000
"""Beyond so many pairs of job and piece of time no flow is sought."""
EDGES_PER_WORK = 20
"""Pairs that are worth a placement of a job."""

Span = tuple[int, int]


def cut_certificate(
    board: Board, steps: Sequence[Steps], windows: Windows, by_resource: Sequence[Forced], budget: Budget
) -> Certificate | None:
    """The certificate of a resource whose forced jobs do not all flow; None where all do, or work is not enough."""
    for resource, forced in enumerate(by_resource):
        rows = [_Row.of(*one) for one in _fields(forced)]
        spans = _spans(rows, steps[resource], budget) if rows else []
        if spans:
            found = _certificate(board, steps[resource], windows, resource, spans)
            if found["required_gpu_ms"] > found["capacity_gpu_ms"]:
                return found
    return None


@dataclass(frozen=True, slots=True)
class _Row:
    """A job from the origin on: its window, the part of it that it surely runs, what else it needs, its demand."""

    window: Span
    sure: Span
    rest_ms: int
    demand: int

    @staticmethod
    def of(head: int, tail: int, duration: int, demand: int, paused: bool) -> _Row:
        """A job that runs before the origin as long as it may."""
        low, high = max(0, head), max(0, tail)
        if paused:
            return _Row((low, high), (low, low), max(0, duration - max(0, -head)), demand)
        sure = (max(0, tail - duration), max(0, head + duration))
        if sure[0] >= sure[1]:
            sure = (low, low)
        return _Row((low, high), sure, max(0, duration - max(0, -head)) - (sure[1] - sure[0]), demand)

    def time_in(self, low: int, high: int) -> int:
        """The time of a piece in which it may run beside the part that it surely runs."""
        inside = self.window[0] <= low and high <= self.window[1]
        return high - low if inside and not self.sure[0] <= low < self.sure[1] else 0


def _fields(forced: Forced) -> zip[tuple[int, int, int, int, bool]]:
    columns = (forced.heads, forced.tails, forced.durations, forced.demands, forced.paused)
    return zip(*(one.tolist() for one in columns), strict=True)


def _spans(rows: Sequence[_Row], steps: Steps, budget: Budget) -> list[Span]:
    """The pieces of time on the source's side of the least cut, neighbours joined; none where all flows."""
    last = max(row.window[1] for row in rows)
    cuts = {0, *(at for at, _ in steps if 0 < at < last), *(edge for row in rows for edge in (*row.window, *row.sure))}
    pieces = list(pairwise(sorted(cuts)))
    pairs = [
        (job, place, time)
        for job, row in enumerate(rows)
        for place, (low, high) in enumerate(pieces)
        if (time := row.time_in(low, high))
    ]
    if len(pairs) > MOST_EDGES or not budget.spend(len(pairs) // EDGES_PER_WORK):
        return []
    flow = Flow(2 + len(rows) + len(pieces))
    for job, row in enumerate(rows):
        flow.add(Flow.source, 2 + job, row.rest_ms * row.demand)
    for job, place, time in pairs:
        flow.add(2 + job, 2 + len(rows) + place, time * rows[job].demand)
    for place, (low, high) in enumerate(pieces):
        sure = sum(row.demand for row in rows if row.sure[0] <= low < row.sure[1])
        flow.add(2 + len(rows) + place, Flow.sink, max(0, integral(steps, low, high) - sure * (high - low)))
    if flow.fill() == sum(row.rest_ms * row.demand for row in rows):
        return []
    reached = flow.reached()[2 + len(rows) :]
    spans: list[Span] = []
    for (low, high), inside in zip(pieces, reached, strict=True):
        if inside and spans and spans[-1][1] == low:
            spans[-1] = (spans[-1][0], high)
        elif inside:
            spans.append((low, high))
    return spans


def _certificate(board: Board, steps: Steps, windows: Windows, resource: int, spans: Sequence[Span]) -> Certificate:
    """As `verify` reads it, with the exact forced parts; it proves nothing where these are no more than there is."""
    listed: dict[str, int] = {}
    for task in sorted(board.tasks, key=lambda task: task.job.id):
        amounts = [
            mode.amount(resource) * _overlap_ms(board, windows, task.index, mode, spans)
            for mode in windows.modes[task.index]
        ]
        if amounts and min(amounts) > 0:
            listed[task.job.id] = min(amounts)
    required = sum(listed.values())
    there = sum(integral(steps, low, high) for low, high in spans)
    length = sum(high - low for low, high in spans)
    return {
        "kind": "cut",
        "resource": board.resources[resource],
        "windows": [list(span) for span in spans],
        "capacity_gpu_ms": there,
        "required_gpu_ms": required,
        "extra_gpus": max(0, -(-(required - there) // length)),
        "jobs": [{"id": name, "forced_gpu_ms": amount} for name, amount in listed.items()],
    }


def _overlap_ms(board: Board, windows: Windows, at: int, mode: Mode, spans: Sequence[Span]) -> int:
    """The least time of a job in the spans together, whatever the plan."""
    task, head, tail, duration = board.tasks[at], windows.heads[at], windows.tails[at], mode.duration_ms
    if task.job.restart_ms is not None:
        return 0 if tail is None else max(0, duration - (tail - head - _within(spans, head, tail)))
    last = task.fixed_ms if task.fixed_ms is not None else None if tail is None else tail - duration
    if last is None:
        return 0
    edges = [edge for span in spans for edge in span]
    starts = {head, last, *edges, *(edge - duration for edge in edges)}
    return min(_within(spans, start, start + duration) for start in starts if head <= start <= last)


def _within(spans: Sequence[Span], from_ms: int, to_ms: int) -> int:
    return sum(max(0, min(high, to_ms) - max(low, from_ms)) for low, high in spans)
