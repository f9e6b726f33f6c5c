"""A planning problem from what a user names: a job file and a capacity file, or a number of GPUs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, tzinfo
from pathlib import Path

from gpuyield.declare.capacity import parse_capacity
from gpuyield.declare.jobs import PLANNING_QUANTILE, JobTerms, parse_jobs
from gpuyield.declare.rows import read_rows
from gpuyield.declare.values import did_you_mean
from gpuyield.declare.yaml_file import read_file
from gpuyield.errors import DeclarationError, Mistake
from gpuyield.model.duration import FamilyDuration
from gpuyield.model.job import Capacity, NodeGroup, PlanJob, PlanObjective, Problem, QueueQuota, SourceFile
from gpuyield.units import MINUTE_MS, format_instant

ANY_GPU = "gpu"
_MOST_GPUS = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ground:
    """What the jobs of a file are read against."""

    origin_ms: int
    capacity: Capacity
    nodes: tuple[NodeGroup, ...] = ()
    quotas: tuple[QueueQuota, ...] = ()
    sources: tuple[SourceFile, ...] = ()


def read_problem(
    jobs: Path,
    *,
    capacity: Path | None = None,
    gpus: int | None = None,
    origin_ms: int | None = None,
    now_ms: int,
    zone: tzinfo = UTC,
    milestones: Mapping[str, int] | None = None,
    objective: PlanObjective = PlanObjective.ON_TIME,
    resource: str | None = None,
    quantile: str = PLANNING_QUANTILE,
    history: Callable[[str], FamilyDuration | None] | None = None,
) -> Problem:
    """The problem of these files; exactly one of `capacity` and `gpus` is given.

    The origin is the capacity file's, else `origin_ms`, else now, rounded to the minute. Jobs that give quantiles of
    their run time (`p50`, `p70`, `p90`) are planned with `quantile`, those that give none as `history` says of their
    family.

    Raises:
        DeclarationError: Anything is wrong in either file or between them; all mistakes at once.
    """
    mistakes: list[Mistake] = []
    default_ms = rounded_to_minute(now_ms) if origin_ms is None else origin_ms
    ground = _Ground(origin_ms=default_ms, capacity=constant_capacity(1))
    try:
        ground = _read_ground(capacity, gpus, default_ms=default_ms, given_ms=origin_ms, zone=zone)
    except DeclarationError as err:
        mistakes += err.mistakes
    planned: tuple[PlanJob, ...] = ()
    sources = ground.sources
    try:
        found = read_rows(jobs, read_file(jobs))
        sources = (found.source, *sources)
        terms = JobTerms(
            origin_ms=ground.origin_ms,
            zone=zone,
            milestones=milestones or {},
            gpu_resources=gpu_resources(ground.capacity),
            queues=[queue.queue for queue in ground.quotas],
            quantile=quantile,
            history=history,
        )
        planned = parse_jobs(found, terms)
    except DeclarationError as err:
        mistakes = [*err.mistakes, *mistakes]
    if not mistakes and resource is not None and resource not in ground.capacity.steps:
        fix = did_you_mean(resource, ground.capacity.steps)
        mistakes.append(Mistake(what=f'capacity has no resource "{resource}".', where="--resource", fix=fix))
    if mistakes:
        raise DeclarationError.of(mistakes)
    return Problem(
        origin_ms=ground.origin_ms,
        jobs=planned,
        capacity=ground.capacity,
        objective=objective,
        resource=resource,
        zone=str(zone),
        sources=sources,
        nodes=ground.nodes,
        quotas=ground.quotas,
    )


def _read_ground(
    path: Path | None, gpus: int | None, *, default_ms: int, given_ms: int | None, zone: tzinfo
) -> _Ground:
    if (path is None) == (gpus is None):
        what = "neither capacity nor a number of GPUs is given." if path is None else "both are given."
        raise DeclarationError(what, where="--capacity, --gpus", fix="Give exactly one: --gpus 64, or --capacity FILE.")
    if path is None:
        if gpus is None or not 0 <= gpus <= _MOST_GPUS:
            raise DeclarationError(f"{gpus} GPUs.", where="--gpus", fix="Write a whole number from 0 on.")
        return _Ground(origin_ms=default_ms, capacity=constant_capacity(gpus))
    found = parse_capacity(read_file(path), file=path, default_origin_ms=default_ms, zone=zone)
    if given_ms is not None and given_ms != found.origin_ms:
        raise DeclarationError(
            f"{format_instant(given_ms)} is not the origin of {path} ({format_instant(found.origin_ms)}).",
            where="--origin",
            fix="Leave --origin out, or take origin out of the file.",
        )
    return _Ground(
        origin_ms=found.origin_ms,
        capacity=found.capacity,
        nodes=found.nodes,
        quotas=found.quotas,
        sources=(found.source,),
    )


def rounded_to_minute(at_ms: int) -> int:
    """The nearest whole minute."""
    return (at_ms + MINUTE_MS // 2) // MINUTE_MS * MINUTE_MS


def gpu_resources(capacity: Capacity) -> tuple[str, ...]:
    """The GPU resources that a job without a flavor may run on; `gpu` where capacity has none."""
    found = tuple(name for name in capacity.steps if name == ANY_GPU or name.startswith(f"{ANY_GPU}/"))
    return found or (ANY_GPU,)


def constant_capacity(gpus: int) -> Capacity:
    """So many GPUs, from the origin on, as one resource `gpu`."""
    return Capacity(steps={ANY_GPU: ((0, gpus),)})
