"""The planning problem, rebuilt from the canonical inputs alone.

All times are integer milliseconds from the problem's origin. Shape of the inputs: `docs/reference/certificates.md`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any  # JSON has no narrower type than this.

from .quotas import NO_QUOTAS, Quotas, is_gpu, read_quotas, read_steps
from .report import Refused
from .steps import Steps
from .values import choice, decimal, field, instant, items, record, text, whole

PLAN_INPUTS = "gpuyield/plan-inputs/v1alpha1"
OBJECTIVES = ("on-time", "fewest-gpus", "makespan", "cheapest")
MOST = 10**15


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """One way to run a job. `demand` counts each limit of a quota that it is under; `named` is what the inputs say."""

    flavor: str | None
    demand: dict[str, int]
    named: dict[str, int]
    duration_ms: int

    @property
    def gpus(self) -> int:
        """The GPUs it holds: its demand of `gpu` and `gpu/F`; of all it names where none is a GPU resource."""
        counted = [amount for name, amount in self.named.items() if is_gpu(name)]
        return sum(counted or self.named.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job; `deadline_ms` binds in whatever question is asked, `due_ms` only costs."""

    id: str
    shapes: tuple[Shape, ...]
    release_ms: int
    deadline_ms: int | None
    due_ms: int | None
    weight: Fraction
    after: tuple[str, ...]
    restart_ms: int | None
    started_ms: int | None
    pinned_ms: int | None
    queue: str | None = None

    @property
    def fixed_ms(self) -> int | None:
        """The start that is not to be moved."""
        return self.started_ms if self.started_ms is not None else self.pinned_ms

    @property
    def earliest_ms(self) -> int:
        """Its earliest start of itself: its fixed one, else its release, not before the origin."""
        return max(0, self.release_ms) if self.fixed_ms is None else self.fixed_ms

    @property
    def is_hard(self) -> bool:
        """Every plan owes it a run: it has a deadline, or a fixed start, which is never moved."""
        return self.deadline_ms is not None or self.fixed_ms is not None

    def is_over(self, shape: Shape) -> bool:
        """In this shape it has ended by the origin: it holds nothing any more."""
        return self.fixed_ms is not None and self.fixed_ms + shape.duration_ms <= 0

    @property
    def is_timed(self) -> bool:
        """It has a deadline or a due time."""
        return self.deadline_ms is not None or self.due_ms is not None

    @property
    def wanted_ms(self) -> int | None:
        """The earlier of deadline and due time."""
        ends = [end for end in (self.deadline_ms, self.due_ms) if end is not None]
        return min(ends, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Jobs by id, capacity by resource; the limits of `quotas` are resources, too."""

    origin_ms: int
    objective: str
    resource: str | None
    jobs: dict[str, Job]
    capacity: dict[str, Steps]
    prices: Mapping[str, Fraction] | None = None
    currency: str | None = None
    quotas: Quotas = NO_QUOTAS

    def with_constant(self, resource: str, amount: int) -> Problem:
        """The same with a constant amount of one resource."""
        return replace(self, capacity={**self.capacity, resource: Steps.constant(amount)})

    def with_jobs(self, changed: Mapping[str, Job]) -> Problem:
        """The same with some jobs replaced."""
        return replace(self, jobs={**self.jobs, **changed})

    def without(self, ids: set[str]) -> Problem:
        """The same without some jobs; nothing waits for them any more."""
        kept = {
            name: replace(job, after=tuple(one for one in job.after if one not in ids)) if ids & set(job.after) else job
            for name, job in self.jobs.items()
            if name not in ids
        }
        return replace(self, jobs=kept)

    def moment(self, value: Any, where: str) -> int:
        """Milliseconds from the origin of an RFC 3339 time."""
        return instant(value, where) - self.origin_ms


def read_problem(decoded: Any) -> Problem:
    """The problem that decoded canonical inputs state.

    Raises:
        Refused: A value is missing, of the wrong type or out of range; ids are not unique or not known; jobs wait
            for each other.
    """
    inputs = record(decoded, "inputs")
    if inputs.get("schema") != PLAN_INPUTS:
        raise Refused(f"inputs.schema is not {PLAN_INPUTS}.")
    resource = field(inputs, "resource", "inputs")
    items(field(inputs, "sources", "inputs"), "inputs.sources")
    capacity = {
        text(name, "inputs.capacity"): read_steps(steps, f"inputs.capacity.{name}")
        for name, steps in record(field(inputs, "capacity", "inputs"), "inputs.capacity").items()
    }
    quotas = read_quotas(inputs.get("quotas"), capacity)
    jobs: dict[str, Job] = {}
    for at, entry in enumerate(items(field(inputs, "jobs", "inputs"), "inputs.jobs")):
        job = _job(entry, f"inputs.jobs[{at}]", quotas)
        if job.id in jobs:
            raise Refused(f'inputs.jobs has the id "{job.id}" twice.')
        jobs[job.id] = job
    _check_order(jobs)
    return Problem(
        origin_ms=whole(field(inputs, "origin_ms", "inputs"), "inputs.origin_ms", low=-(10**14), high=2 * 10**14),
        objective=choice(field(inputs, "objective", "inputs"), "inputs.objective", OBJECTIVES),
        resource=None if resource is None else text(resource, "inputs.resource"),
        jobs=jobs,
        capacity={**capacity, **{name: limit.steps for name, limit in quotas.limits.items()}},
        prices=_prices(inputs.get("prices")),
        currency=_currency(inputs.get("currency")),
        quotas=quotas,
    )


def chosen_resource(problem: Problem) -> str:
    """The resource of objective fewest-gpus: the named one, else the only one."""
    if problem.resource is not None:
        return problem.resource
    named = {name for job in problem.jobs.values() for shape in job.shapes for name in shape.named}
    there = set(problem.capacity) - set(problem.quotas.limits)
    every = there if len(there) == 1 else named | there
    if len(every) != 1:
        raise Refused("inputs.resource is null, and there is not exactly one resource.")
    return every.pop()


def _job(entry: Any, where: str, quotas: Quotas) -> Job:
    job = record(entry, where)
    job_id = text(field(job, "id", where), f"{where}.id")
    where = f"inputs.jobs[{job_id[:60]}]"
    queue = job.get("queue")
    if queue is not None:
        quotas.check_known(text(queue, f"{where}.queue"), where)
    shapes = tuple(
        _shape(shape, f"{where}.shapes[{at}]", queue, quotas)
        for at, shape in enumerate(items(field(job, "shapes", where), f"{where}.shapes"))
    )
    if not shapes:
        raise Refused(f"{where} has no shape.")
    weight = decimal(field(job, "weight", where), f"{where}.weight")
    if weight < 0:
        raise Refused(f"{where}.weight is negative.")
    return Job(
        id=job_id,
        shapes=shapes,
        release_ms=whole(field(job, "release_ms", where), f"{where}.release_ms"),
        deadline_ms=_optional(job, "deadline_ms", where),
        due_ms=_optional(job, "due_ms", where),
        weight=weight,
        after=tuple(text(one, f"{where}.after") for one in items(field(job, "after", where), f"{where}.after")),
        restart_ms=_optional(job, "restart_ms", where, low=0),
        started_ms=_optional(job, "started_ms", where),
        pinned_ms=_optional(job, "pinned_ms", where),
        queue=queue,
    )


def _shape(entry: Any, where: str, queue: str | None, quotas: Quotas) -> Shape:
    shape = record(entry, where)
    demand = record(field(shape, "demand", where), f"{where}.demand")
    if not demand:
        raise Refused(f"{where}.demand is empty.")
    flavor = field(shape, "flavor", where)
    named = {
        text(name, f"{where}.demand"): whole(amount, f"{where}.demand.{name}", low=0, high=10**9)
        for name, amount in demand.items()
    }
    return Shape(
        flavor=None if flavor is None else text(flavor, f"{where}.flavor"),
        demand=quotas.counted(named, queue),
        named=named,
        duration_ms=whole(field(shape, "duration_ms", where), f"{where}.duration_ms", low=1),
    )


def _prices(entry: Any) -> Mapping[str, Fraction] | None:
    if entry is None:
        return None
    prices = {
        name: decimal(price, f"inputs.prices.{name[:60]}") for name, price in record(entry, "inputs.prices").items()
    }
    negative = next((name for name, price in prices.items() if price < 0), None)
    if negative is not None:
        raise Refused(f"inputs.prices.{negative[:60]} is negative.")
    return prices


def _currency(entry: Any) -> str | None:
    if entry is None:
        return None
    word = text(entry, "inputs.currency")
    if not re.fullmatch(r"[A-Z]{3}", word, re.ASCII):
        raise Refused("inputs.currency is no ISO 4217 code.")
    return word


def _optional(job: dict[str, Any], name: str, where: str, *, low: int = -MOST) -> int | None:
    value = field(job, name, where)
    return None if value is None else whole(value, f"{where}.{name}", low=low)


def _check_order(jobs: dict[str, Job]) -> None:
    for job in jobs.values():
        for one in job.after:
            if one not in jobs:
                raise Refused(f'inputs.jobs[{job.id}].after names "{one[:60]}", which is no job.')
    if len(topological(jobs)) != len(jobs):
        raise Refused("inputs.jobs wait for each other in a circle.")


def topological(jobs: Mapping[str, Job]) -> list[str]:
    """Ids so that each comes after its predecessors; those in a circle are left out."""
    followers: dict[str, list[str]] = {name: [] for name in jobs}
    waiting = {name: len(set(job.after)) for name, job in jobs.items()}
    for name, job in jobs.items():
        for one in set(job.after):
            followers[one].append(name)
    order = [name for name, count in waiting.items() if count == 0]
    for name in order:
        for follower in followers[name]:
            waiting[follower] -= 1
            if waiting[follower] == 0:
                order.append(follower)
    return order
