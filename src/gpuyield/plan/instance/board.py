"""A planning problem made ready for searching: indices for names, only shapes that can be run, a checked order.

Tasks are sorted by content and only then by id, so renaming jobs changes nothing but the names in the answer.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise

from gpuyield.errors import Mistake, PlanError
from gpuyield.model.job import Capacity, PlanJob, Problem, Shape
from gpuyield.model.job import Steps as Steps
from gpuyield.model.job import is_gpu as is_gpu
from gpuyield.plan.instance.quota import limits_by_queue, limits_of, quota_mistakes, steps_of

MOST_MS = 10**15
"""No time may be further from the origin than this (about 30,000 years)."""
MOST_AMOUNT = 10**9


@dataclass(frozen=True, slots=True)
class Mode:
    """A shape that can be run: demand as `(resource index, amount)`, sorted; none where it is over by the origin."""

    shape: int
    demand: tuple[tuple[int, int], ...]
    duration_ms: int
    gpus: int

    def amount(self, resource: int) -> int:
        """What it holds of one resource."""
        return next((amount for which, amount in self.demand if which == resource), 0)


@dataclass(frozen=True, slots=True)
class Task:
    """A job with names resolved; `deadline_ms` is its own, `before` and `after` are indices of tasks.

    `limit_ms` is the latest end that binds in every plan: its deadline, and the fixed start of one that waits for it.
    """

    index: int
    job: PlanJob
    modes: tuple[Mode, ...]
    release_ms: int
    deadline_ms: int | None
    due_ms: int | None
    weight: Decimal
    fixed_ms: int | None
    limit_ms: int | None
    before: tuple[int, ...]
    after: tuple[int, ...]

    @property
    def is_hard(self) -> bool:
        """Whether every plan owes it a run: it has a deadline, or a fixed start, which is never moved."""
        return self.deadline_ms is not None or self.fixed_ms is not None


@dataclass(frozen=True, slots=True)
class Board:
    """The problem, indexed. `steps` is the capacity by resource index; `topological` holds every task.

    The first `named` resources are those of the capacity, the others stand for quotas.
    """

    tasks: tuple[Task, ...]
    resources: tuple[str, ...]
    steps: tuple[Steps, ...]
    topological: tuple[int, ...]
    named: int

    def gpu_resources(self) -> list[int]:
        """Indices of the resources that are GPUs."""
        return [at for at, name in enumerate(self.resources) if is_gpu(name)]

    @property
    def chained(self) -> bool:
        """Whether any job waits for another."""
        return any(task.before for task in self.tasks)


def holds(most: Sequence[int], mode: Mode) -> bool:
    """Whether amounts by resource hold what a mode takes."""
    return all(amount <= most[at] for at, amount in mode.demand)


def arrange(problem: Problem) -> Board:
    """The problem, indexed and checked.

    Raises:
        PlanError: All that is wrong with it: unknown or repeated ids, cycles, figures out of range.
    """
    mistakes = [
        *_capacity_mistakes(problem.capacity),
        *_quota_mistakes(problem),
        *_job_mistakes(problem.jobs),
    ]
    if mistakes:
        raise PlanError.of(mistakes)
    limits = limits_of(problem.quotas, problem.capacity)
    named = sorted(problem.capacity.steps)
    resources = (*named, *sorted(limits))
    under = limits_by_queue(limits)
    jobs = sorted(problem.jobs, key=_content)
    known = {name: at for at, name in enumerate(resources)}
    number = {job.id: at for at, job in enumerate(jobs)}
    before = [tuple(sorted({number[name] for name in job.after})) for job in jobs]
    followers: list[list[int]] = [[] for _ in jobs]
    for at, preceding in enumerate(before):
        for one in preceding:
            followers[one].append(at)
    return Board(
        tasks=tuple(
            _task(at, job, known, under, before[at], [(one, _fixed(jobs[one])) for one in followers[at]])
            for at, job in enumerate(jobs)
        ),
        resources=resources,
        steps=(
            *(tuple(problem.capacity.steps[name]) for name in named),
            *(limits[name].steps for name in resources[len(named) :]),
        ),
        topological=tuple(in_order(range(len(jobs)), before)),
        named=len(named),
    )


def in_order(wanted: Iterable[int], before: Sequence[tuple[int, ...]]) -> list[int]:
    """The wanted order, changed as little as needed so that nothing comes before what it waits for.

    Tasks in a cycle are left out.
    """
    if not any(before):
        return list(wanted)
    rank = {task: at for at, task in enumerate(wanted)}
    waiting = {task: sum(1 for one in before[task] if one in rank) for task in rank}
    followers: dict[int, list[int]] = {}
    for task in rank:
        for one in before[task]:
            followers.setdefault(one, []).append(task)
    ready = [(rank[task], task) for task, count in waiting.items() if not count]
    heapq.heapify(ready)
    ordered: list[int] = []
    while ready:
        _, task = heapq.heappop(ready)
        ordered.append(task)
        for one in followers.get(task, ()):
            waiting[one] -= 1
            if not waiting[one]:
                heapq.heappush(ready, (rank[one], one))
    return ordered


def _task(
    at: int,
    job: PlanJob,
    known: Mapping[str, int],
    under: Mapping[tuple[str, str], Sequence[str]],
    before: tuple[int, ...],
    followers: Sequence[tuple[int, int | None]],
) -> Task:
    start = _fixed(job)
    modes = []
    for number, shape in enumerate(job.shapes):
        over = start is not None and start + shape.duration_ms <= 0
        if not over and any(name not in known for name in shape.demand):
            continue
        demand = shape.demand if job.queue is None or not under else _under_quota(shape.demand, job.queue, under)
        held = [] if over else sorted((known[name], amount) for name, amount in demand.items())
        modes.append(
            Mode(shape=number, demand=tuple(held), duration_ms=shape.duration_ms, gpus=gpus_of(shape)),
        )
    limits = [fixed for _, fixed in followers if fixed is not None]
    if job.deadline_ms is not None:
        limits.append(job.deadline_ms)
    return Task(
        index=at,
        job=job,
        modes=tuple(modes),
        release_ms=max(job.release_ms, 0),
        deadline_ms=job.deadline_ms,
        due_ms=job.due_ms,
        weight=job.weight,
        fixed_ms=_fixed(job),
        limit_ms=min(limits, default=None),
        before=before,
        after=tuple(one for one, _ in followers),
    )


def _under_quota(
    demand: Mapping[str, int], queue: str, under: Mapping[tuple[str, str], Sequence[str]]
) -> dict[str, int]:
    """The demand, and the same of every limit that counts it."""
    return dict(demand) | {name: amount for one, amount in demand.items() for name in under.get((queue, one), ())}


def _fixed(job: PlanJob) -> int | None:
    return job.started_ms if job.started_ms is not None else job.pinned_ms


def gpus_of(shape: Shape) -> int:
    """How many GPUs a shape holds; of all that it names where nothing is a GPU."""
    named = [amount for name, amount in shape.demand.items() if is_gpu(name)]
    return sum(named or shape.demand.values())


def _content(job: PlanJob) -> tuple[object, ...]:
    def late(value: int | None) -> tuple[bool, int]:
        return (value is None, value or 0)

    return (
        late(job.deadline_ms),
        late(job.due_ms),
        job.release_ms,
        tuple((shape.duration_ms, tuple(sorted(shape.demand.items()))) for shape in job.shapes),
        -job.weight,
        late(job.started_ms),
        late(job.pinned_ms),
        late(job.restart_ms),
        len(job.after),
        job.id,
    )


def _capacity_mistakes(capacity: Capacity) -> list[Mistake]:
    return [one for name, steps in capacity.steps.items() for one in _steps_mistakes(f"capacity of {name}", steps)]


def _quota_mistakes(problem: Problem) -> list[Mistake]:
    found = quota_mistakes(problem.quotas, problem.capacity, problem.jobs)
    for queue in problem.quotas:
        for resource, quota in queue.resources.items():
            for kind, amounts in (("nominal", quota.nominal), ("borrow", quota.borrow), ("lend", quota.lend)):
                if amounts is not None:
                    found += _steps_mistakes(f"{kind} of {resource} of queue {queue.queue}", steps_of(amounts))
    return found


def _steps_mistakes(name: str, steps: Steps) -> list[Mistake]:
    found = []
    times = [from_ms for from_ms, _ in steps]
    if any(later <= earlier for earlier, later in pairwise(times)):
        found.append(Mistake(what="its steps are not in order of time.", where=name, fix="Sort them."))
    if any(not 0 <= amount <= MOST_AMOUNT for _, amount in steps):
        fix = f"Write at most {MOST_AMOUNT:,}."
        found.append(Mistake(what=f"an amount is not between 0 and {MOST_AMOUNT:,}.", where=name, fix=fix))
    if any(abs(from_ms) > MOST_MS for from_ms in times):
        found.append(Mistake(what="a time lies too far away.", where=name, fix="Check the year."))
    return found


def _job_mistakes(jobs: Sequence[PlanJob]) -> list[Mistake]:
    found = []
    seen: set[str] = set()
    for job in jobs:
        where = f"job {job.id}"
        if job.id in seen:
            found.append(Mistake(what="its id is used twice.", where=where, fix="Give every job its own id."))
        seen.add(job.id)
        found.extend(Mistake(what=what, where=where, fix=fix) for what, fix in _figure_mistakes(job))
    for job in jobs:
        unknown = [name for name in job.after if name not in seen]
        found.extend(
            Mistake(what=f'it waits for "{name}", which does not exist.', where=f"job {job.id}", fix="Add it.")
            for name in unknown
        )
    if not found:
        found.extend(_cycle_mistakes(jobs))
    if not found:
        found.extend(_overtaking_mistakes(jobs))
    return found


def _overtaking_mistakes(jobs: Sequence[PlanJob]) -> list[Mistake]:
    """Jobs that have started although one that they wait for cannot have ended: nothing can be moved to mend that."""
    number = {job.id: at for at, job in enumerate(jobs)}
    before = [tuple(number[name] for name in job.after) for job in jobs]
    ends = [0] * len(jobs)
    found: list[Mistake] = []
    for at in in_order(range(len(jobs)), before):
        job, start = jobs[at], _fixed(jobs[at])
        if start is None:
            start = max([job.release_ms, 0, *(ends[one] for one in before[at])])
        ends[at] = start + min(shape.duration_ms for shape in job.shapes)
        if job.started_ms is not None:
            found.extend(
                Mistake(
                    what=f'it has started, and "{jobs[one].id}", which it waits for, cannot have ended by then.',
                    where=f"job {job.id}",
                    fix=f'Remove "{jobs[one].id}" from `after`, or correct started_at or the duration.',
                )
                for one in before[at]
                if ends[one] > job.started_ms
            )
    return found


def _figure_mistakes(job: PlanJob) -> list[tuple[str, str]]:
    found = []
    if not job.shapes:
        found.append(("it has no shape to run in.", "Give gpus and duration_s."))
    for shape in job.shapes:
        if not 0 < shape.duration_ms <= MOST_MS:
            found.append((f"a duration of {shape.duration_ms} ms cannot be planned.", "Give one above 0."))
        if not shape.demand:
            found.append(("a shape demands nothing.", "Give gpus or demand."))
        found.extend(
            (f"a demand of {amount} {name} cannot be planned.", "Give a whole number of 1 or more.")
            for name, amount in shape.demand.items()
            if not 1 <= amount <= MOST_AMOUNT
        )
    times = (job.release_ms, job.deadline_ms, job.due_ms, job.started_ms, job.pinned_ms)
    if any(at is not None and abs(at) > MOST_MS for at in times):
        found.append(("one of its times lies too far away.", "Check the year."))
    if not job.weight.is_finite() or job.weight < 0:
        found.append((f"weight {job.weight} is not a number of 0 or more.", "Give one, such as 1."))
    if job.restart_ms is not None and job.restart_ms < 0:
        found.append(("its restart cost is negative.", "Give 0 or more."))
    return found


def _cycle_mistakes(jobs: Sequence[PlanJob]) -> list[Mistake]:
    number = {job.id: at for at, job in enumerate(jobs)}
    before = [tuple(number[name] for name in job.after) for job in jobs]
    ordered = set(in_order(range(len(jobs)), before))
    left = [at for at in range(len(jobs)) if at not in ordered]
    if not left:
        return []
    path = [left[0]]
    while True:
        following = next(one for one in before[path[-1]] if one not in ordered)
        if following in path:
            loop = [jobs[at].id for at in path[path.index(following) :]]
            break
        path.append(following)
    names = " waits for ".join([*loop, loop[0]])
    return [Mistake(what=f"jobs wait for each other: {names}.", where=f"job {loop[0]}", fix="Remove one `after`.")]
