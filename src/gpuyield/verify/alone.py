"""What a job can do with all capacity to itself."""

from __future__ import annotations

from .frame import Frame
from .problem import Job, Problem, Shape
from .steps import FOREVER, Spans, Steps, fitting_spans


class Alone:
    """Answers for one problem; where a demand fits is worked out once."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self._spans: dict[tuple[tuple[str, int], ...], Spans] = {}

    def can_meet(self, job: Job, head_ms: int, end_ms: int | None) -> bool:
        """Some shape fits between head and end if nothing else runs."""
        end = FOREVER if end_ms is None else end_ms
        return any(self._fits(job, shape, head_ms, end) for shape in job.shapes)

    def _fits(self, job: Job, shape: Shape, head_ms: int, end_ms: int) -> bool:
        duration = shape.duration_ms
        if end_ms - head_ms < duration:
            return False
        spans = self.spans(shape)
        if job.fixed_ms is not None:
            if head_ms > job.fixed_ms:
                return False
            if job.restart_ms is None:
                first, last = max(0, job.fixed_ms), max(0, job.fixed_ms + duration)
                return spans.within(first, last) == last - first
        if job.restart_ms is None:
            return any(
                min(high, end_ms) - max(low, head_ms) >= duration for low, high in spans.after(head_ms) if low < end_ms
            )
        return self._fits_in_parts(job, spans, duration, head_ms, end_ms)

    def _fits_in_parts(self, job: Job, spans: Spans, duration: int, head_ms: int, end_ms: int) -> bool:
        return self._in_parts(job, spans, head_ms, end_ms) >= duration + min(0, head_ms)

    def _in_parts(self, job: Job, spans: Spans, head_ms: int, end_ms: int) -> int:
        """The time from the origin on in which a shape fits: longest span first, each further one less a restart."""
        restart = job.restart_ms or 0
        parts = sorted(
            (min(high, end_ms) - max(low, head_ms) for low, high in spans.after(head_ms) if low < end_ms), reverse=True
        )
        got = 0
        for at, part in enumerate(parts):
            got = max(got, got + part - (restart if at else 0))
        return got

    def room_ms(self, job: Job, shape: Shape, head_ms: int, end_ms: int | None) -> int:
        """The most of its duration that a shape gets between head and end if nothing else runs."""
        end = FOREVER if end_ms is None else end_ms
        if job.restart_ms is not None:
            return max(0, -head_ms) + self._in_parts(job, self.spans(shape), head_ms, end)
        found = [(max(low, head_ms) if low else head_ms, min(high, end)) for low, high in self.spans(shape)]
        if job.fixed_ms is not None:
            found = [(low, high) for low, high in found if low == job.fixed_ms]
        return max([0, *(high - low for low, high in found if high > 0)])

    def spans(self, shape: Shape) -> Spans:
        """Where the demand of a shape fits, from the origin on."""
        key = tuple(sorted(shape.demand.items()))
        if key not in self._spans:
            self._spans[key] = fitting_spans(self.problem.capacity, shape.demand)
        return self._spans[key]


def most_lasting(steps: Steps, duration_ms: int, head_ms: int, end_ms: int) -> int:
    """The largest amount that is there for `duration_ms` without a break between head and end."""
    last = end_ms - duration_ms
    head = max(0, head_ms)
    if last < head:
        return 0
    starts = {head, *(at for time in steps.times for at in (time, time - duration_ms) if head < at < last), last}
    return max(steps.lowest(start, start + duration_ms) for start in starts)


def is_impossible(alone: Alone, frame: Frame, job: Job) -> bool:
    """It cannot meet its deadline even alone, with its predecessors as early as they can be."""
    if not frame.shapes[job.id]:
        return True
    return not alone.can_meet(job, frame.heads[job.id], job.deadline_ms)
