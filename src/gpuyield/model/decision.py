"""Do we need to buy: the status, the levers in order, and what would change the answer (contracts, section 7)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from typing import Any  # A plan document and a lever's details are JSON.

from gpuyield.model.evidence import Gap
from gpuyield.model.job import Problem, SourceFile
from gpuyield.model.plan import ObservedRow, Plan
from gpuyield.model.waterfall import Holder
from gpuyield.units import Money, Window


class DecisionStatus(StrEnum):
    """Whether a purchase is needed, from good to bad."""

    NOT_NEEDED = "not_needed"
    UNKNOWN = "unknown"
    NEEDED = "needed"

    @property
    def rank(self) -> int:
        """0 for the best."""
        return list(DecisionStatus).index(self)


class BatchScope(StrEnum):
    """Which batch work the answer speaks of."""

    DECLARED = "declared"
    OBSERVED = "observed"
    NONE = "none"


class ServiceScope(StrEnum):
    """How services enter the answer."""

    MEASURED = "measured"
    HELD_AT_OBSERVED = "held_at_observed"
    NONE = "none"


class LeverKind(StrEnum):
    """The levers, in the order in which they are pulled."""

    RESCHEDULE = "reschedule"
    RECLAIM = "reclaim"
    RETUNE = "retune"
    PAIR = "pair"
    POOL = "pool"
    PURCHASE_TYPE = "purchase_type"
    BUY = "buy"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceHolding:
    """A service and the GPUs it holds by resource.

    `measured`: its capacity is certified and not stale, and its demand needs every replica. `spare_replicas` are those
    that certified rate and demand do not need (0 where that is not known): then it could give GPUs back.
    """

    name: str
    gpus: Mapping[str, int]
    measured: bool = False
    has_objective: bool = False
    spare_replicas: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """GPU time under a declared objective or deadline, and all of it."""

    declared_gpu_ms: int
    total_gpu_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuRate:
    """What one GPU-hour of a resource costs now, rounded to six decimals, and where that comes from."""

    gpu_hour: Money
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """GPUs of a resource that can be bought: so many at least, there after `lead_time_ms`."""

    kind: str
    gpu_hour: Money
    min_gpus: int = 1
    lead_time_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DecideInputs:
    """All that a decision rests on.

    `problem` holds the declared batch jobs and the GPUs that batch may use while services keep what they hold (None:
    no batch work is declared). `reclaimable` are whole GPUs held idle now that its capacity does not count, by
    resource. `incomplete_jobs` are declared jobs without a run time, which no plan can hold. `has_other_work`: batch
    jobs that nobody declared run on the same GPUs, so what declared work does without is not free. `observed` is the
    table of observed batch work, of `observed_jobs` that came in `observed_window`. `after_services`: what batch may
    use is what services leave of the cluster. Prices and offers are by resource,
    such as `gpu/h100`.
    """

    now_ms: int
    cluster: str = "cluster"
    zone: str = "UTC"
    window: Window | None = None
    horizon_ms: int = 0
    problem: Problem | None = None
    incomplete_jobs: tuple[str, ...] = ()
    has_other_work: bool = False
    after_services: bool = False
    observed: tuple[ObservedRow, ...] = ()
    observed_jobs: int = 0
    observed_window: Window | None = None
    reclaimable: Mapping[str, int] = field(default_factory=dict)
    holders: tuple[Holder, ...] = ()
    services: tuple[ServiceHolding, ...] = ()
    coverage: Coverage | None = None
    prices: Mapping[str, GpuRate] = field(default_factory=dict)
    offers: Mapping[str, tuple[Offer, ...]] = field(default_factory=dict)
    sources: tuple[SourceFile, ...] = ()
    gaps: tuple[Gap, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """What the answer speaks of."""

    batch: BatchScope
    services: ServiceScope


@dataclass(frozen=True, slots=True, kw_only=True)
class Lever:
    """One thing to do. `gpus_freed` by flavor; money is saved (positive) or spent (negative) a month, None: not known.

    `gpus_added` is what is bought, and `details` what a person needs to do it: the jobs, the holders.
    """

    kind: LeverKind
    change: str
    gpus_freed: Mapping[str, int] = field(default_factory=dict)
    gpus_added: Mapping[str, int] = field(default_factory=dict)
    money_per_month: Money | None = None
    deadlines_saved: int | None = None
    risk: str = ""
    undo: str = ""
    provenance: str = "here"
    details: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FlipPoint:
    """A figure at which the answer would be another one."""

    what: str
    sentence: str
    figures: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """What to do next to know more: a sentence and the command."""

    sentence: str
    command: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortage:
    """Proven: so many GPUs of a resource are missing at least from `from_ms` to `to_ms` (epoch; None: no one span).

    `sufficient` is a number of GPUs with which a plan is known (None: none is). Where the proof does not name the
    resource (`is_named` false), GPUs of another one might do as well.
    """

    resource: str
    at_least: int
    sufficient: int | None
    from_ms: int | None
    to_ms: int | None
    is_named: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The answer. `plan` is that of `problem`: the declared work after all earlier levers, if there is any.

    `problem` differs from the declared one by reclaimed GPUs, and by the deadlines of jobs that no number of GPUs
    can meet: those (`hopeless`, by id their earliest possible end in epoch ms) are moved to it.
    """

    inputs: DecideInputs
    status: DecisionStatus
    scope: Scope
    headline: str
    lead: tuple[str, ...]
    reasons: tuple[str, ...]
    levers: tuple[Lever, ...]
    flip_points: tuple[FlipPoint, ...]
    next_experiment: Experiment | None
    problem: Problem | None
    plan: Plan | None
    shortage: Shortage | None
    hopeless: Mapping[str, int]
    order_by_ms: int | None
    gaps: tuple[Gap, ...]


HOURS_PER_MONTH = Decimal(730)
"""365 days / 12, in hours."""
