"""A planning problem made ready for searching: indices for names, only shapes that can be run, a checked order.

Tasks are sorted by content and only then by id, so renaming jobs changes nothing but the names in the answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from gpuyield.errors import PlanError
from gpuyield.model.job import PlanJob, Problem, Shape
from gpuyield.model.job import Steps as Steps
from gpuyield.model.job import is_gpu as is_gpu
from gpuyield.plan.instance.mistakes import mistakes_of
from gpuyield.plan.instance.order import in_order
from gpuyield.plan.instance.quota import limits_by_queue, limits_of


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
    mistakes = mistakes_of(problem)
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
            _task(at, job, known, under, before[at], [(one, jobs[one].fixed_ms) for one in followers[at]])
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


def _task(
    at: int,
    job: PlanJob,
    known: Mapping[str, int],
    under: Mapping[tuple[str, str], Sequence[str]],
    before: tuple[int, ...],
    followers: Sequence[tuple[int, int | None]],
) -> Task:
    start = job.fixed_ms
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
        fixed_ms=start,
        limit_ms=min(limits, default=None),
        before=before,
        after=tuple(one for one, _ in followers),
    )


def _under_quota(
    demand: Mapping[str, int], queue: str, under: Mapping[tuple[str, str], Sequence[str]]
) -> dict[str, int]:
    """The demand, and the same of every limit that counts it."""
    return dict(demand) | {name: amount for one, amount in demand.items() for name in under.get((queue, one), ())}


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
