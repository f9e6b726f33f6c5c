"""A plan replayed on nodes: a plan counts GPUs in a pool, and a job needs them on nodes.

Jobs are placed in order of their start, wide ones first, each on the node that it fills best; one that is wider than a
node takes whole nodes and the rest of it one more. Nothing is moved once it runs. What holds the GPUs of a flavor that
capacity does not name (services, maintenance) is taken to sit on the last nodes, whole. A job that finds no node slot
at its planned start is named, and so are the nodes that the plan never uses.

Source: best fit (Johnson 1973).
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from gpuyield.model.job import Problem
from gpuyield.model.plan import Fragmentation, NodeReplay, Run
from gpuyield.plan.instance.board import Steps
from gpuyield.plan.instance.profile import NEVER

MOST_SPARE = 4096
"""Beyond so many more nodes it is not said how many would do."""


@dataclass(frozen=True, slots=True)
class _Gang:
    """GPUs that are held at once from an instant to another; `most` is what exists of the flavor all that time."""

    start_ms: int
    end_ms: int
    gpus: int
    job: str
    part: int
    most: int


def replay_on_nodes(problem: Problem, runs: Mapping[str, Run]) -> tuple[NodeReplay, ...]:
    """The plan on the nodes of each flavor that the problem names; empty where it names none."""
    flavors = list(dict.fromkeys(group.flavor for group in problem.nodes))
    return tuple(_replay(problem, runs, flavor) for flavor in flavors)


def _replay(problem: Problem, runs: Mapping[str, Run], flavor: str) -> NodeReplay:
    sizes = [group.gpus for group in problem.nodes if group.flavor == flavor for _ in range(group.count)]
    resource = f"gpu/{flavor}"
    gangs = _gangs(problem, runs, resource)
    names = [f"{flavor}/{at + 1}" for at in range(len(sizes))]
    found = _Nodes(sizes).place(gangs)
    unplaced = tuple(sorted({gang.job for gang in found.unplaced}))
    used = {at for taken in found.taken.values() for at, _ in taken}
    return NodeReplay(
        flavor=flavor,
        nodes=len(sizes),
        gpus=sum(sizes),
        unplaced=unplaced,
        unplaced_share=_share(found.unplaced, gangs),
        spare_nodes=_spare(sizes, gangs) if unplaced else 0,
        unused=tuple(names[at] for at in range(len(sizes)) if at not in used),
        fragmentation=found.fragmentation,
        where={
            job: tuple((names[at], gpus) for at, gpus in taken)
            for (job, part), taken in sorted(found.taken.items())
            if not part
        },
    )


def _gangs(problem: Problem, runs: Mapping[str, Run], resource: str) -> list[_Gang]:
    steps = problem.capacity.steps.get(resource, ())
    gangs = []
    for job in problem.jobs:
        run = runs.get(job.id)
        gpus = 0 if run is None else job.shapes[run.shape].demand.get(resource, 0)
        if run is None or not gpus:
            continue
        for part, (start_ms, end_ms) in enumerate(run.segments):
            if end_ms > max(start_ms, 0):
                most = _least_between(steps, max(start_ms, 0), end_ms)
                gangs.append(_Gang(start_ms, end_ms, gpus, job.id, part, most))
    return sorted(gangs, key=lambda gang: (max(gang.start_ms, 0), gang.start_ms >= 0, -gang.gpus, gang.job))


def _least_between(steps: Steps, from_ms: int, to_ms: int) -> int:
    """The least that exists in a span."""
    least = None
    for at, (start, amount) in enumerate(steps):
        end = steps[at + 1][0] if at + 1 < len(steps) else NEVER
        if start < to_ms and end > from_ms:
            least = amount if least is None else min(least, amount)
    return 0 if least is None or steps[0][0] > from_ms else least


def _share(part: Sequence[_Gang], whole: Sequence[_Gang]) -> Fraction:
    def gpu_ms(gangs: Sequence[_Gang]) -> int:
        return sum(gang.gpus * (gang.end_ms - max(gang.start_ms, 0)) for gang in gangs)

    return Fraction(gpu_ms(part), max(1, gpu_ms(whole)))


def _spare(sizes: Sequence[int], gangs: Sequence[_Gang]) -> int | None:
    """How many more nodes of the largest size are known to do; None where not so many were tried."""
    largest = max(sizes)

    def fits(more: int) -> bool:
        there = more * largest
        grown = [replace(gang, most=gang.most + there) for gang in gangs]
        return not _Nodes([largest] * more + list(sizes)).place(grown).unplaced

    more = 1
    while not fits(more):
        more *= 2
        if more > MOST_SPARE:
            return None
    low, high = more // 2, more
    while high - low > 1:
        middle = (low + high) // 2
        if fits(middle):
            high = middle
        else:
            low = middle
    return high


@dataclass(frozen=True, slots=True)
class _Placed:
    taken: dict[tuple[str, int], tuple[tuple[int, int], ...]]
    unplaced: list[_Gang]
    fragmentation: Fragmentation


class _Nodes:
    """Free GPUs by node, nodes by what is free on them, and what was stranded on partly used nodes so far."""

    def __init__(self, sizes: Sequence[int]) -> None:
        self.sizes = list(sizes)
        self.free = list(sizes)
        self.before = [0]
        for size in sizes:
            self.before.append(self.before[-1] + size)
        self.by_free: list[list[int]] = [[] for _ in range(max(sizes, default=0) + 1)]
        for at, size in enumerate(sizes):
            heapq.heappush(self.by_free[size], at)
        self.stranded = self.most_stranded = self.most_at_ms = self.stranded_gpu_ms = 0

    def place(self, gangs: Sequence[_Gang]) -> _Placed:
        """Every gang in order on the nodes that are free at its start."""
        running: list[tuple[int, int, tuple[tuple[int, int], ...]]] = []
        taken: dict[tuple[str, int], tuple[tuple[int, int], ...]] = {}
        unplaced: list[_Gang] = []
        begin_ms = now_ms = max(0, gangs[0].start_ms) if gangs else 0
        for number, gang in enumerate(gangs):
            start_ms = max(0, gang.start_ms)
            while running and running[0][0] <= start_ms:
                end_ms, _, held = heapq.heappop(running)
                now_ms = self._pass(now_ms, end_ms)
                self._take(held, -1)
            now_ms = self._pass(now_ms, start_ms)
            found = self._find(gang)
            if found is None:
                unplaced.append(gang)
                continue
            self._take(found, 1)
            taken[gang.job, gang.part] = found
            heapq.heappush(running, (gang.end_ms, number, found))
        while running:
            end_ms, _, held = heapq.heappop(running)
            now_ms = self._pass(now_ms, end_ms)
            self._take(held, -1)
        whole = self.before[-1] * (now_ms - begin_ms)
        share = Fraction(self.stranded_gpu_ms, whole) if whole else Fraction(0)
        shown = Fragmentation(most_gpus=self.most_stranded, at_ms=self.most_at_ms, share=share)
        return _Placed(taken, unplaced, shown)

    def _pass(self, now_ms: int, to_ms: int) -> int:
        """Let time go by with as much stranded as there is."""
        if to_ms > now_ms:
            self.stranded_gpu_ms += self.stranded * (to_ms - now_ms)
            if self.stranded > self.most_stranded:
                self.most_stranded, self.most_at_ms = self.stranded, now_ms
        return max(now_ms, to_ms)

    def _find(self, gang: _Gang) -> tuple[tuple[int, int], ...] | None:
        """Nodes for a gang with what each gives; None where there are none."""
        wanted, whole = gang.gpus, []
        if wanted >= len(self.by_free):
            for at in self._empty(gang.most):
                if self.sizes[at] > wanted:
                    continue
                whole.append((at, self.sizes[at]))
                wanted -= self.sizes[at]
                if not wanted:
                    break
            if wanted >= len(self.by_free):
                return None
        if not wanted:
            return tuple(whole)
        used = {at for at, _ in whole}
        for free in range(wanted, len(self.by_free)):
            node = self._lowest(free, gang.most, wanted, used)
            if node is not None:
                return (*whole, (node, wanted))
        return None

    def _empty(self, most: int) -> list[int]:
        """Nodes on which nothing runs, the largest first."""
        found = [at for at in range(len(self.sizes)) if self.free[at] == self.sizes[at] and self.before[at + 1] <= most]
        return sorted(found, key=lambda at: (-self.sizes[at], at))

    def _lowest(self, free: int, most: int, wanted: int, used: set[int]) -> int | None:
        """The first node with exactly so much free; of the last one, only what others do not hold counts."""
        queue, put_back = self.by_free[free], []
        found: int | None = None
        while queue:
            at = heapq.heappop(queue)
            if self.free[at] != free:
                continue
            put_back.append(at)
            held = self.sizes[at] - free
            if at not in used and self.before[at] + held + wanted <= most:
                found = at
                break
        for at in put_back:
            heapq.heappush(queue, at)
        return found

    def _take(self, held: Sequence[tuple[int, int]], sign: int) -> None:
        for at, gpus in held:
            self.stranded -= self._stranded_on(at)
            self.free[at] -= sign * gpus
            self.stranded += self._stranded_on(at)
            heapq.heappush(self.by_free[self.free[at]], at)

    def _stranded_on(self, at: int) -> int:
        return self.free[at] if self.free[at] < self.sizes[at] else 0
