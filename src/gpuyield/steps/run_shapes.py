"""The shapes in which jobs run: as they ran, as their family usually runs, and as it declares for other flavors."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from statistics import median_high

from gpuyield.account import ObservedJob
from gpuyield.account.jobs import resource_of
from gpuyield.model.declaration import BatchFamily
from gpuyield.model.duration import DurationBasis
from gpuyield.model.job import Capacity, Shape
from gpuyield.plan.online.durations import Durations
from gpuyield.steps.past_runs import groups
from gpuyield.steps.promises import Promises


def own_shape(job: ObservedJob | None) -> Shape | None:
    """The shape of a job that has ended; None where it has not."""
    if job is None or job.ended_ms is None:
        return None
    return Shape(flavor=job.flavor, demand={resource_of(job.flavor): job.gpus}, duration_ms=max(1, job.run_ms))


def usual_shapes(jobs: Iterable[ObservedJob], promises: Promises, durations: Durations) -> dict[str, Shape]:
    """The middle run of each family, and of each workload, that has ended, for as long as is planned for it.

    Where too few have ended to say more, that is as long as the middle run took.
    """
    members: dict[str, list[ObservedJob]] = defaultdict(list)
    for job in jobs:
        if job.ended_ms is not None:
            for name in groups(job, promises):
                members[name].append(job)
    found = {}
    for name, ended in members.items():
        middle = median_high(job.run_ms for job in ended)
        shape = own_shape(next(job for job in ended if job.run_ms == middle))
        known = durations.of(name)
        if shape is not None and known is not None and known.basis is DurationBasis.FAMILY:
            shape = replace(shape, duration_ms=known.planned_ms)
        if shape is not None:
            found[name] = shape
    return found


def longest_runs(jobs: Iterable[ObservedJob], promises: Promises) -> dict[str, int]:
    """How many ms the longest run of each family, and of each workload, took that has ended."""
    longest: dict[str, int] = {}
    for job in jobs:
        if job.ended_ms is not None:
            for name in groups(job, promises):
                longest[name] = max(longest.get(name, 0), job.run_ms)
    return longest


def with_declared(shape: Shape | None, family: BatchFamily | None, capacity: Capacity) -> tuple[Shape, ...]:
    """The shape that was seen, then those that the family declares for other flavors of the cluster."""
    seen = (shape,) if shape is not None else ()
    if family is None:
        return seen
    gpus = sum(shape.demand.values()) if shape is not None else family.gpus
    if gpus is None:
        return seen
    declared = []
    for flavor in (name.removeprefix("gpu/") for name in capacity.steps if name.startswith("gpu/")):
        duration_ms = family.durations_ms.get(flavor, family.duration_ms)
        if duration_ms is not None and (shape is None or flavor != shape.flavor):
            declared.append(Shape(flavor=flavor, demand={resource_of(flavor): gpus}, duration_ms=duration_ms))
    return (*seen, *declared)
