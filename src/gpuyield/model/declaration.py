"""What teams promise, normalised: the content of `gpuyield.yaml` as frozen values.

Times are epoch milliseconds, durations milliseconds, latency limits microseconds, money exact; ratios are decimals
0..1. What was not declared is None or empty, never a made-up figure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import time
from decimal import Decimal
from enum import StrEnum

from gpuyield.units import Money


class Metric(StrEnum):
    """What an objective on requests looks at."""

    TTFT = "ttft"
    TPOT = "tpot"
    ITL = "itl"
    E2E = "e2e"
    QUEUE = "queue"
    ERROR = "error"


class PriceBasis(StrEnum):
    """What kind of price a price is."""

    LIST = "list"
    CONTRACTED = "contracted"
    EFFECTIVE = "effective"
    BILLED = "billed"


class PurchaseKind(StrEnum):
    """How GPUs may be bought."""

    ON_DEMAND = "on_demand"
    SPOT = "spot"
    RESERVED_1Y = "reserved_1y"
    RESERVED_3Y = "reserved_3y"
    OWNED = "owned"


class SharingRule(StrEnum):
    """Who bears cost that nobody caused."""

    NOBODY = "nobody"
    BY_ALLOCATED = "by_allocated"
    BY_QUOTA = "by_quota"


class RateRule(StrEnum):
    """Where the price of a GPU-hour comes from: the node's total over its GPU-hours, or a price of the GPU."""

    NODE = "node"
    GPU = "gpu"


class VerdictPolicy(StrEnum):
    """How several verdicts of one check on one outcome become one answer."""

    ALL = "all"
    ANY = "any"
    K_OF_N = "k_of_n"
    PRECEDENCE = "precedence"
    """Human before code before a judging model."""


class OutcomeUnit(StrEnum):
    """What is counted as one outcome."""

    REQUEST = "request"
    ITEM = "item"
    JOB = "job"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Constants of the accounting (contracts, section 4)."""

    gap_limit_ms: int = 300_000
    activity_threshold: Decimal = Decimal("0.05")
    idle_after_ms: int = 1_800_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """An HTTP source: its `url`, or `service` as `namespace/name:port` behind the API server's proxy; exactly one.

    Secrets are never in the declaration, only the files they lie in.
    """

    url: str | None = None
    service: str | None = None
    token_file: str | None = None
    ca_file: str | None = None
    headers_file: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KubernetesSource:
    """The cluster to read; without a context the current one, or in-cluster inside a pod."""

    context: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSource:
    """Files to read: their format and a path that may hold wildcards, relative to the declaration's folder."""

    format: str
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """Where evidence comes from. A declaration file always names Prometheus; None means that no file was given."""

    prometheus: Endpoint | None = None
    opencost: Endpoint | None = None
    kubernetes: KubernetesSource | None = None
    outcomes: tuple[FileSource, ...] = ()

    @property
    def context(self) -> str | None:
        """The declared context of kubeconfig; None: the current one, or the pod that we run in."""
        return None if self.kubernetes is None else self.kubernetes.context


@dataclass(frozen=True, slots=True, kw_only=True)
class Teams:
    """Who a pod belongs to: the value of `label`, else `namespaces`, else the namespace itself."""

    label: str | None = None
    namespaces: Mapping[str, str] = field(default_factory=dict)

    def team_of(self, namespace: str, label_value: str | None = None) -> str:
        """The team of a pod in this namespace whose team label has this value."""
        return label_value or self.namespaces.get(namespace, namespace)


@dataclass(frozen=True, slots=True, kw_only=True)
class InventoryItem:
    """GPUs of a flavor that no node reports; `nodes` may be unknown."""

    flavor: str
    gpus: int
    nodes: int | None = None
    domain: str = "node"


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """The price of one GPU-hour of a flavor during `[from_ms, to_ms)`; None leaves that end open."""

    flavor: str
    gpu_hour: Money
    basis: PriceBasis = PriceBasis.LIST
    from_ms: int | None = None
    to_ms: int | None = None

    def holds_at(self, at_ms: int) -> bool:
        """Whether it is the price at this instant."""
        return (self.from_ms is None or self.from_ms <= at_ms) and (self.to_ms is None or at_ms < self.to_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExchangeRate:
    """One `base` is worth `rate` of `quote`, as published at `at_ms` by `source`."""

    base: str
    quote: str
    rate: Decimal
    at_ms: int
    source: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sharing:
    """Who bears idle and unallocated cost, and where the GPU-hour's price comes from."""

    idle: SharingRule = SharingRule.NOBODY
    unallocated: SharingRule = SharingRule.NOBODY
    rate: RateRule = RateRule.NODE


@dataclass(frozen=True, slots=True, kw_only=True)
class PurchaseOption:
    """A way to get more GPUs: `price` of one GPU-hour, at least `min_gpus`, there after `lead_time_ms`."""

    flavor: str
    kind: PurchaseKind
    price: Money
    min_gpus: int = 1
    lead_time_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """How a service's traffic is expected to grow, a ratio per week (0.015 = 1.5 % a week; may be negative)."""

    service: str
    growth_per_week: Decimal
    owner: str | None = None
    source: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceLimit:
    """The most that annotations of a namespace may claim; None: what contracts, section 9, says."""

    max_weight: Decimal | None = None
    max_gpus: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Selector:
    """Which pods are meant; all that is given must match."""

    namespace: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    queue: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """A share of attempted requests (or outcomes) that must meet a limit.

    Exactly one of `metric` and `check` is given. `at_most_us` is the limit of a latency metric in microseconds;
    a check's score has `score_at_least` or `score_at_most`, or neither (its verdict says pass or fail).
    """

    name: str
    metric: Metric | None = None
    check: str | None = None
    at_most_us: int | None = None
    score_at_least: Decimal | None = None
    score_at_most: Decimal | None = None
    share: Decimal
    window_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomePolicy:
    """When an outcome counts as verified: every check in `require` must pass under `policy`.

    `k` and `n` belong to `k_of_n`. `min_units` is the share of a job's units that must pass.
    """

    unit: OutcomeUnit = OutcomeUnit.REQUEST
    require: tuple[str, ...] = ()
    policy: VerdictPolicy = VerdictPolicy.ALL
    k: int | None = None
    n: int | None = None
    min_units: Decimal | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WeeklySpan:
    """Minutes `[from_minute, to_minute)` of a weekday (0 = Monday) in a zone; 1440 is midnight at its end."""

    weekday: int
    from_minute: int
    to_minute: int
    zone: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """A serving workload and what it promises; `hours` None means always."""

    name: str
    selector: Selector
    endpoint: str | None = None
    model: str | None = None
    team: str | None = None
    hours: tuple[WeeklySpan, ...] | None = None
    objectives: tuple[Objective, ...] = ()
    outcome: OutcomePolicy | None = None
    spare_replicas: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class At:
    """A fixed instant."""

    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Within:
    """A time after the creation of the job."""

    length_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NextClock:
    """The next time after creation at which a clock in `zone` shows `clock`."""

    clock: time
    zone: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Milestone:
    """A date that many jobs share, by name."""

    name: str


Deadline = At | Within | NextClock | Milestone
"""A deadline or due time as it was written; `declare.deadlines.deadline_ms` turns it into an instant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchFamily:
    """A recurring batch job: who it is, how it runs, until when.

    `durations_ms` is by flavor; `duration_ms` holds on any flavor. `restart_ms` is what a pause costs (None: may not
    be paused). `deadline` binds, `due` costs `weight`.
    """

    name: str
    selector: Selector
    team: str | None = None
    gpus: int | None = None
    duration_ms: int | None = None
    durations_ms: Mapping[str, int] = field(default_factory=dict)
    deadline: Deadline | None = None
    due: Deadline | None = None
    weight: Decimal = Decimal(1)
    restart_ms: int | None = None
    outcome: OutcomePolicy | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """All that was declared. `milestones` are epoch ms by name; `path` and `sha256` tell the file (None: no file)."""

    name: str = "cluster"
    currency: str | None = None
    reporting_zone: str = "UTC"
    rules: Rules = Rules()
    sources: Sources = field(default_factory=Sources)
    teams: Teams = field(default_factory=Teams)
    milestones: Mapping[str, int] = field(default_factory=dict)
    inventory: tuple[InventoryItem, ...] = ()
    prices: tuple[Price, ...] = ()
    rates: tuple[ExchangeRate, ...] = ()
    bill: tuple[FileSource, ...] = ()
    sharing: Sharing = Sharing()
    purchase: tuple[PurchaseOption, ...] = ()
    demand: tuple[Demand, ...] = ()
    limits: Mapping[str, NamespaceLimit] = field(default_factory=dict)
    services: tuple[Service, ...] = ()
    batch: tuple[BatchFamily, ...] = ()
    path: str | None = None
    sha256: str | None = None
