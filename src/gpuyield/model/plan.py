"""A plan: when each job runs, what is proven about it, and what would make it fit (contracts, section 3).

All times are integer ms from the problem's origin; GPU time is GPU-ms; ratios are exact fractions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from typing import Any, TypeAlias  # A certificate is JSON; each kind's shape is documented beside `verify`.

Certificate: TypeAlias = Mapping[str, Any]


class PlanStatus(StrEnum):
    """What is known about the hard deadlines."""

    OPTIMAL = "optimal"
    FEASIBLE = "feasible"
    UNKNOWN = "unknown"
    INFEASIBLE = "infeasible"


class JobStatus(StrEnum):
    """What becomes of one job."""

    PLANNED = "planned"
    LATE = "late"
    DROPPED = "dropped"
    IMPOSSIBLE = "impossible"


class StoppedBecause(StrEnum):
    """Why the search ended."""

    PROVEN = "proven"
    BUDGET = "budget"
    TIME = "time"


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """When a job runs: the shape that it runs in (index into the job's shapes) and its half-open span.

    `parts` are the spans in which a job that is paused runs; empty: it runs in one piece.
    """

    shape: int
    start_ms: int
    end_ms: int
    parts: tuple[tuple[int, int], ...] = ()

    @property
    def segments(self) -> tuple[tuple[int, int], ...]:
        """The spans in which it runs, in order."""
        return self.parts or ((self.start_ms, self.end_ms),)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedJob:
    """One job of a plan; `run` is None where it is given up. `slack_ms` is None without a deadline or a run.

    `p_late` is how likely it is late all the same (None: its run time is not known to vary). `moved_because` says why
    it runs at another time than in the plan that this one starts from (None: it does not, or there is none).
    """

    id: str
    status: JobStatus
    run: Run | None
    why: str
    slack_ms: int | None = None
    late_ms: int = 0
    p_late: Fraction | None = None
    moved_because: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuNeed:
    """What one GPU resource has to hold: None where it was not computed or does not exist.

    `needed` is the fewest constant amount for which a plan meeting all deadlines is known; `witness` are the runs
    of that plan. `lower_bound` is proven, by `certificate` where it is above 0. `said` is what a solver says is the
    least, which proves nothing.
    """

    resource: str
    available: int
    needed: int | None
    lower_bound: int | None
    witness: Mapping[str, Run] = field(default_factory=dict)
    certificate: Certificate | None = None
    said: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OnTime:
    """Shares of what is on time: by weight, by number of jobs, by GPU time; None where there is nothing."""

    weighted: Fraction | None
    jobs: Fraction | None
    gpu_time: Fraction | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectiveValue:
    """The value reached, the best that is not ruled out, and how far they are apart relative to the value."""

    name: str
    value: Fraction | None
    bound: Fraction | None
    certificate: Certificate | None = None

    @property
    def gap(self) -> Fraction | None:
        """|bound - value| over the greater of both; None where one is not known."""
        if self.value is None or self.bound is None:
            return None
        greater = max(abs(self.value), abs(self.bound))
        return abs(self.bound - self.value) / greater if greater else Fraction(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Less:
    """A relaxation made one step smaller, and the proof that this does not do."""

    change: Mapping[str, Any]
    certificate: Certificate


@dataclass(frozen=True, slots=True, kw_only=True)
class AddGpus:
    """So many more of a resource in a span."""

    resource: str
    amount: int
    from_ms: int
    to_ms: int
    witness: Mapping[str, Run]
    less: tuple[Less, ...] = ()
    irreducible: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveDeadline:
    """Later deadlines: `(job, by_ms)`."""

    jobs: tuple[tuple[str, int], ...]
    witness: Mapping[str, Run]
    less: tuple[Less, ...] = ()
    irreducible: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Drop:
    """Jobs to leave out."""

    jobs: tuple[str, ...]
    witness: Mapping[str, Run]
    less: tuple[Less, ...] = ()
    irreducible: bool | None = None


Relaxation: TypeAlias = AddGpus | MoveDeadline | Drop


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """What a solver says and nobody can check from the document: it never carries a status."""

    by: str
    claim: str
    bound: Fraction | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fragmentation:
    """GPUs that are free on nodes that are partly used: the most at once, when, and their share of all GPU time."""

    most_gpus: int
    at_ms: int
    share: Fraction


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeReplay:
    """A plan on the nodes of one flavor, without moving anything.

    `unplaced` are jobs that find no node slot at their planned start, `unplaced_share` their part of the GPU time;
    `spare_nodes` more nodes are known to hold all (None: not found). `unused` nodes are never needed. `where` names the
    nodes of each job (of its first part) and how many GPUs it has there.
    """

    flavor: str
    nodes: int
    gpus: int
    unplaced: tuple[str, ...]
    unplaced_share: Fraction
    spare_nodes: int | None
    unused: tuple[str, ...]
    fragmentation: Fragmentation
    where: Mapping[str, tuple[tuple[str, int], ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The answer to a planning problem.

    `peak_if_started_at_once` is, per GPU resource, what would be held at most if every job started as soon as it
    may, in its first shape. `nodes` is the plan replayed on nodes, by flavor (empty: none are named).
    """

    status: PlanStatus
    objective: ObjectiveValue
    jobs: tuple[PlannedJob, ...]
    gpus: tuple[GpuNeed, ...]
    on_time: OnTime
    certificate: Certificate | None
    proof: Proof | None
    explanation: tuple[str, ...]
    relaxations: tuple[Relaxation, ...]
    peak_if_started_at_once: Mapping[str, int]
    seed: int
    stopped_because: StoppedBecause
    nodes: tuple[NodeReplay, ...] = ()

    def job(self, name: str) -> PlannedJob:
        """The job with this id."""
        return next(one for one in self.jobs if one.id == name)

    def need(self, resource: str) -> GpuNeed:
        """What one resource has to hold."""
        return next(one for one in self.gpus if one.resource == resource)


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedRow:
    """If the observed jobs may each finish within this time: the GPUs they need, and the proven floor.

    `impossible` counts the jobs that cannot finish in that time even alone; the figures and the plan are those of
    the others. `gpus_needed` and `lower_bound` sum over the GPU resources.
    """

    finish_within: str
    gpus_needed: int | None
    lower_bound: int | None
    impossible: int
    plan: Plan
