"""What must hold in every plan: the earliest start and latest end of each job, and the time it must spend in a span.

A `Frame` answers one question, "can all binding deadlines of this problem be met?", and may be narrowed by decisions
(a search tree does that). Words: head, tail, usable shape, overlap as in `docs/reference/certificates.md`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set

from .problem import Job, Problem, Shape, topological
from .steps import FOREVER, Spans


class Frame:
    """Heads, tails and usable shapes of all jobs of a question; narrowed copies share what they do not change.

    Nothing says that the `optional` ones run; if one does, it keeps its release or fixed start.
    """

    __slots__ = (
        "_before",
        "_behind",
        "_ends",
        "_grid_ms",
        "_last_starts",
        "heads",
        "is_contradiction",
        "problem",
        "shapes",
    )

    def __init__(self, problem: Problem, *, grid_ms: int = 1, optional: Set[str] = frozenset()) -> None:
        self.problem = problem
        self.is_contradiction = False
        self._grid_ms = grid_ms
        self.heads: dict[str, int] = {}
        self.shapes: dict[str, tuple[int, ...]] = {}
        self._ends: dict[str, int] = {}
        self._last_starts: dict[str, int] = {}
        self._before: dict[str, tuple[str, ...]] = {}
        self._behind: dict[str, tuple[str, ...]] = {}
        most = most_ever(problem)
        for name, job in problem.jobs.items():
            self.heads[name] = job.earliest_ms
            loose = name in optional
            self._ends[name] = FOREVER if loose or job.deadline_ms is None else job.deadline_ms
            self._last_starts[name] = FOREVER if loose or job.fixed_ms is None else job.fixed_ms
            self._before[name] = job.after
            self.shapes[name] = held_shapes(job, most)
        behind: dict[str, list[str]] = {name: [] for name in problem.jobs}
        for name, job in problem.jobs.items():
            for one in job.after:
                behind[one].append(name)
        self._behind = {name: tuple(ones) for name, ones in behind.items()}
        order = topological(problem.jobs)
        for name in order:
            self._raise_head(name)
        for name in reversed(order):
            self._lower_end(name)

    # What a question asks of a frame.

    def job(self, name: str) -> Job:
        """A job by id."""
        return self.problem.jobs[name]

    def usable(self, name: str) -> list[Shape]:
        """The shapes of a job that still fit between its head and tail."""
        return [self.job(name).shapes[at] for at in self.usable_at(name)]

    def usable_at(self, name: str) -> list[int]:
        """The places of the usable shapes in the inputs."""
        return [
            at for at in self.shapes[name] if self.latest_start(name, self.job(name).shapes[at]) >= self.heads[name]
        ]

    def latest_start(self, name: str, shape: Shape) -> int:
        """The latest start of a shape; `FOREVER` or so where nothing binds."""
        latest = min(self._ends[name] - shape.duration_ms, self._last_starts[name])
        return latest if latest >= FOREVER // 2 or self._grid_ms == 1 else latest // self._grid_ms * self._grid_ms

    def must_run(self, name: str) -> bool:
        """Something binds it: a deadline of its own or of a successor, a decision, or a fixed start."""
        return self._ends[name] < FOREVER // 2 or self._last_starts[name] < FOREVER // 2

    def shortest(self, name: str) -> int | None:
        """The shortest usable duration; None where no shape is usable."""
        return min((shape.duration_ms for shape in self.usable(name)), default=None)

    def overlap(self, name: str, shape: Shape, from_ms: int, to_ms: int) -> int:
        """The least time of a usable shape in `[from_ms, to_ms)`, whatever the plan."""
        job, duration = self.job(name), shape.duration_ms
        head = self.heads[name]
        if job.restart_ms is not None:
            end = self._ends[name]
            outside = max(0, min(end, from_ms) - head) + max(0, end - max(head, to_ms))
            return max(0, duration - outside)
        last = self.latest_start(name, shape)
        at_first = min(to_ms, head + duration) - max(from_ms, head)
        at_last = min(to_ms, last + duration) - max(from_ms, last)
        return max(0, min(at_first, at_last))

    def overlap_of_spans(self, name: str, shape: Shape, spans: Spans) -> int:
        """The least time of a usable shape in several spans together."""
        job, duration, head = self.job(name), shape.duration_ms, self.heads[name]
        if job.restart_ms is not None:
            end = self._ends[name]
            if end >= FOREVER // 2:
                return 0
            return max(0, duration - (end - head - spans.within(head, end)))
        last = self.latest_start(name, shape)
        if last >= FOREVER // 2:
            return 0
        at_end = (edge - duration for edge in spans.edges(head + duration, last + duration))
        starts = {head, last, *spans.edges(head, last), *at_end}
        return min(spans.within(start, start + duration) for start in starts)

    def forced(self, name: str, resource: str, from_ms: int, to_ms: int) -> int:
        """The GPU time on a resource that a job must spend in a span."""
        return min(
            (
                shape.demand.get(resource, 0) and shape.demand[resource] * self.overlap(name, shape, from_ms, to_ms)
                for shape in self.usable(name)
            ),
            default=0,
        )

    def forced_in_spans(self, name: str, resource: str, spans: Spans) -> int:
        """The GPU time on a resource that a job must spend in several spans."""
        return min(
            (
                shape.demand.get(resource, 0) and shape.demand[resource] * self.overlap_of_spans(name, shape, spans)
                for shape in self.usable(name)
            ),
            default=0,
        )

    def cannot_overlap(self, one: str, other: str) -> bool:
        """Whatever their usable shapes, some resource never holds both at once."""
        if any(self.job(name).is_over(shape) for name in (one, other) for shape in self.usable(name)):
            return False
        return all(self._clash(first, second) for first in self.usable(one) for second in self.usable(other))

    # Decisions: each returns a narrowed copy.

    def starting_before(self, name: str, at_ms: int) -> Frame:
        """It starts before an instant."""
        narrowed = self._copy()
        narrowed._last_starts[name] = min(self._last_starts[name], at_ms - 1)
        return narrowed._spread([name])

    def starting_from(self, name: str, at_ms: int) -> Frame:
        """It starts at an instant or later."""
        narrowed = self._copy()
        narrowed.heads[name] = max(self.heads[name], at_ms)
        return narrowed._spread([name])

    def ordered(self, first: str, second: str) -> Frame:
        """The first ends before the second starts."""
        narrowed = self._copy()
        if first == second or self._leads(second, first):
            narrowed.is_contradiction = True
            return narrowed
        narrowed._before[second] = (*self._before[second], first)
        narrowed._behind[first] = (*self._behind[first], second)
        return narrowed._spread([first, second])

    def on_time(self, name: str, end_ms: int, fixed_ms: int | None) -> Frame:
        """It runs, at its fixed start if it has one, and ends by an instant."""
        narrowed = self._copy()
        narrowed._ends[name] = min(self._ends[name], end_ms)
        if fixed_ms is not None:
            narrowed._last_starts[name] = min(self._last_starts[name], fixed_ms)
        return narrowed._spread([name])

    def with_shape(self, name: str, at: int) -> Frame:
        """It runs in one of its shapes."""
        narrowed = self._copy()
        narrowed.shapes[name] = (at,)
        return narrowed._spread([name])

    # How heads and tails spread.

    def _copy(self) -> Frame:
        other = Frame.__new__(Frame)
        other.problem, other.is_contradiction, other._grid_ms = self.problem, self.is_contradiction, self._grid_ms
        other.heads, other.shapes = dict(self.heads), dict(self.shapes)
        other._ends, other._last_starts = dict(self._ends), dict(self._last_starts)
        other._before, other._behind = dict(self._before), dict(self._behind)
        return other

    def _spread(self, changed: Iterable[str]) -> Frame:
        """Heads and tails again, until nothing changes; order has no circle, so that ends."""
        waiting = list(changed)
        while waiting:
            name = waiting.pop()
            self._raise_head(name)
            self._lower_end(name)
            if self.must_run(name) and self.shortest(name) is None:
                self.is_contradiction = True
                return self
            waiting.extend(
                other
                for other in (*self._behind[name], *self._before[name])
                if self._raise_head(other) | self._lower_end(other)
            )
        return self

    def _raise_head(self, name: str) -> bool:
        head = self.heads[name]
        for one in self._before[name]:
            shortest = self.shortest(one)
            if shortest is None:
                self.shapes[name] = ()
                continue
            head = max(head, self.heads[one] + shortest)
        if self._grid_ms > 1:
            head = -(-head // self._grid_ms) * self._grid_ms
        moved = head > self.heads[name]
        self.heads[name] = head
        return moved

    def _lower_end(self, name: str) -> bool:
        end = self._ends[name]
        for one in self._behind[name]:
            latest = max((self.latest_start(one, shape) for shape in self.usable(one)), default=None)
            if latest is not None:
                end = min(end, latest)
        moved = end < self._ends[name]
        self._ends[name] = end
        return moved

    def _leads(self, first: str, last: str) -> bool:
        waiting, seen = [first], {first}
        while waiting:
            name = waiting.pop()
            if name == last:
                return True
            fresh = [one for one in self._behind[name] if one not in seen]
            seen.update(fresh)
            waiting.extend(fresh)
        return False

    def _clash(self, first: Shape, second: Shape) -> bool:
        return any(
            resource in second.demand
            and amount + second.demand[resource] > self.problem.capacity[resource].highest(0, FOREVER)
            for resource, amount in first.demand.items()
        )


def held_shapes(job: Job, most: Mapping[str, int]) -> tuple[int, ...]:
    """The places of the shapes that the most there ever is holds; what is over by the origin holds nothing."""
    return tuple(
        at
        for at, shape in enumerate(job.shapes)
        if all(amount <= most.get(resource, 0) for resource, amount in shape.demand.items()) or job.is_over(shape)
    )


def most_ever(problem: Problem) -> dict[str, int]:
    """The most of each resource that there is at any instant from the origin on."""
    return {name: steps.highest(0, FOREVER) for name, steps in problem.capacity.items()}


def shortest_held(problem: Problem) -> dict[str, int]:
    """The shortest duration of each job that capacity can hold; of all its shapes where it holds none."""
    most = most_ever(problem)
    found = {}
    for name, job in problem.jobs.items():
        places = held_shapes(job, most) or range(len(job.shapes))
        found[name] = min(job.shapes[at].duration_ms for at in places)
    return found


def loose_heads(problem: Problem) -> dict[str, int]:
    """Heads where each predecessor takes its shortest shape, whether or not that fits its own window."""
    shortest = shortest_held(problem)
    heads: dict[str, int] = {}
    for name in topological(problem.jobs):
        job = problem.jobs[name]
        behind = [heads[before] + shortest[before] for before in job.after if job.fixed_ms is None]
        heads[name] = max([job.earliest_ms, *behind])
    return heads
