"""Batch jobs and the capacity they run on, normalised: integers, milliseconds from one origin.

A planning problem holds rigid gangs. Every way in which a job may run is a `Shape`: one per flavor, or one per
entry of `moldable`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from typing import TypeAlias

from gpuyield.model.duration import FamilyDuration

Steps: TypeAlias = tuple[tuple[int, int], ...]
"""A step function `(from_ms, amount)`, each holding until the next; 0 before the first."""

Amounts: TypeAlias = int | Steps
"""An amount that never changes, or a step function."""


def is_gpu(resource: str) -> bool:
    """Whether a resource counts as GPUs: `gpu`, or `gpu/FLAVOR`."""
    return resource == "gpu" or resource.startswith("gpu/")


def amount_at(steps: Steps, at_ms: int) -> int:
    """What a step function amounts to at one instant."""
    found = 0
    for from_ms, amount in steps:
        if from_ms > at_ms:
            break
        found = amount
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """One way to run a job: `demand` of each resource (whole numbers >= 1) for `duration_ms`."""

    flavor: str | None = None
    demand: Mapping[str, int]
    duration_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanJob:
    """A job to be planned; all times in ms from the problem's origin. Exactly one of its shapes is run.

    A job file's `gpus` without a flavor ("on any GPU resource") is expanded to one shape per resource that
    capacity names. `deadline_ms` binds, `due_ms` costs. `restart_ms` is the price of a pause (None: may not be
    paused). `started_ms` is a running job, `pinned_ms` a frozen start: neither is ever moved. `spread_ms` are evenly
    spaced quantiles of the run time in the first shape, from the least to the greatest (empty: not known).
    """

    id: str
    shapes: tuple[Shape, ...]
    release_ms: int = 0
    deadline_ms: int | None = None
    due_ms: int | None = None
    weight: Decimal = Decimal(1)
    after: tuple[str, ...] = ()
    restart_ms: int | None = None
    started_ms: int | None = None
    pinned_ms: int | None = None
    queue: str | None = None
    team: str | None = None
    family: str | None = None
    spread_ms: tuple[int, ...] = ()

    @property
    def fixed_ms(self) -> int | None:
        """Where it starts whatever comes of it; None where that is free."""
        return self.started_ms if self.started_ms is not None else self.pinned_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """What exists of each resource over time: steps `(from_ms, amount)`, each holding until the next.

    Nothing exists before the first step. Times in ms from the problem's origin.
    """

    steps: Mapping[str, Steps]

    def amount(self, resource: str, at_ms: int) -> int:
        """What exists of a resource at one instant."""
        return amount_at(self.steps.get(resource, ()), at_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGroup:
    """So many nodes (`count`) of one flavor with `gpus` each."""

    flavor: str
    gpus: int
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceQuota:
    """What a queue may use of one resource: its own, what it may borrow (None: no limit), what it lends (None: all).

    Each is an amount, or a calendar of amounts.
    """

    nominal: Amounts
    borrow: Amounts | None = None
    lend: Amounts | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueQuota:
    """The quotas of one queue, by resource, and the cohort it shares with."""

    queue: str
    cohort: str | None = None
    resources: Mapping[str, ResourceQuota]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFile:
    """A raw source of a canonical input: where it lay, its SHA-256 and how many rows it held."""

    path: str
    sha256: str
    rows: int


class PlanObjective(StrEnum):
    """What a plan is best at, once all hard deadlines that can be met are met."""

    ON_TIME = "on-time"
    FEWEST_GPUS = "fewest-gpus"
    MAKESPAN = "makespan"
    CHEAPEST = "cheapest"


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """What a plan is made for; `families` say where run times come from that no job states itself."""

    origin_ms: int
    jobs: tuple[PlanJob, ...]
    capacity: Capacity
    objective: PlanObjective = PlanObjective.ON_TIME
    resource: str | None = None
    zone: str = "UTC"
    sources: tuple[SourceFile, ...] = field(default=())
    nodes: tuple[NodeGroup, ...] = ()
    quotas: tuple[QueueQuota, ...] = ()
    families: tuple[FamilyDuration, ...] = ()
