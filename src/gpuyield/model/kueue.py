"""What a cluster with Kueue shows at one instant: queues with their quotas, nodes, and work that waits, runs or ended.

Nothing here is judged: annotations are as they were written. GPUs are whole devices; times are epoch ms.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from gpuyield.model.evidence import Gap


def is_gpu_resource(resource: str) -> bool:
    """Whether a Kubernetes resource counts whole GPUs, such as `nvidia.com/gpu`."""
    return resource.rpartition("/")[2] == "gpu" or resource in ("gpu.intel.com/i915", "gpu.intel.com/xe")


def is_gpu_part(resource: str) -> bool:
    """Whether a Kubernetes resource counts slices or shares of GPUs, which are not planned."""
    name = resource.rpartition("/")[2]
    return name.startswith("mig-") or name == "gpu.shared"


@dataclass(frozen=True, slots=True, kw_only=True)
class Taint:
    """A node's taint."""

    key: str
    value: str = ""
    effect: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Toleration:
    """What a pod puts up with; an empty key with `Exists` is everything."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""

    def covers(self, taint: Taint) -> bool:
        """Whether it puts up with this taint."""
        if self.effect not in ("", taint.effect):
            return False
        if self.operator == "Exists":
            return self.key in ("", taint.key)
        return (self.key, self.value) == (taint.key, taint.value)


def keeps_away(taints: tuple[Taint, ...], tolerations: tuple[Toleration, ...]) -> Taint | None:
    """The first taint that keeps pods off that put up with so much; None where there is none."""
    hard = (one for one in taints if one.effect in ("NoSchedule", "NoExecute"))
    return next((one for one in hard if not any(each.covers(one) for each in tolerations)), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Flavor:
    """A ResourceFlavor: which nodes it means."""

    name: str
    node_labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    tolerations: tuple[Toleration, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuQuota:
    """GPUs of one flavor: a queue's own, what it may borrow (None: no limit) and what it lends (None: all)."""

    flavor: str
    nominal: int
    borrow: int | None = None
    lend: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """An AdmissionCheck: who answers it, and whether Kueue may ask it now."""

    name: str
    controller: str
    active: bool


class CheckState(StrEnum):
    """An answer to an AdmissionCheck, as Kueue writes it."""

    PENDING = "Pending"
    READY = "Ready"
    RETRY = "Retry"
    REJECTED = "Rejected"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckEntry:
    """What a Workload's status says of one AdmissionCheck."""

    name: str
    state: CheckState
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRef:
    """The object behind a Workload, to write to: a Job as a rule, the Workload itself where nothing owns it."""

    api_version: str
    kind: str
    name: str
    uid: str
    version: str = ""
    """Its `resourceVersion`; "" where it could not be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterQueue:
    """A ClusterQueue with its GPU quotas in order of preference.

    `stopped` is its stop policy ("" where it goes on), `inactive` Kueue's reason why it admits nothing ("": it does).
    `reserved` are the GPUs by flavor that its status counts (None: it has no status yet).
    """

    name: str
    cohort: str | None = None
    quotas: tuple[GpuQuota, ...] = ()
    checks: tuple[str, ...] = ()
    stopped: str = ""
    inactive: str = ""
    reserved: Mapping[str, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cohort:
    """A Cohort: its parent, and quotas of its own that its queues share."""

    name: str
    parent: str | None = None
    quotas: tuple[GpuQuota, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalQueue:
    """A LocalQueue: where a namespace's work goes."""

    namespace: str
    name: str
    cluster_queue: str
    stopped: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node with GPUs (allocatable); `unusable` says why nothing new can start there ("": it can)."""

    name: str
    gpus: int
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    unusable: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuPod:
    """A pod that is on a node and holds GPUs there; `through_kueue`: it counts in a queue's quota."""

    namespace: str
    name: str
    node: str
    gpus: int
    through_kueue: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelRule:
    """What a node's label must be: `operator` is In, NotIn, Exists, DoesNotExist, Gt or Lt."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Whether these labels keep to it; an operator that nobody knows is kept by none."""
        value = labels.get(self.key)
        match self.operator:
            case "In":
                return value in self.values
            case "NotIn":
                return value not in self.values
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
            case "Gt" | "Lt" if value is not None and len(self.values) == 1:
                try:
                    difference = int(value) - int(self.values[0])
                except ValueError:
                    return False
                return difference > 0 if self.operator == "Gt" else difference < 0
        return False


Terms = tuple[tuple[LabelRule, ...], ...]
"""Rules of which one term must hold, each with all that is in it; empty where nothing is required."""


def keeps_to(terms: Terms, labels: Mapping[str, str], keys: Collection[str]) -> bool:
    """Whether nodes with these labels are among those that are required, as far as `keys` tell one flavor from another.

    As Kueue does it, rules on other labels do not count; a term without any that counts admits every flavor.
    """
    counted = [[rule for rule in term if rule.key in keys] for term in terms]
    return not terms or any(all(rule.holds(labels) for rule in term) for term in counted)


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSet:
    """Pods alike of one Workload: how many, the GPUs of each, and where they may go.

    `node_terms` are the required node affinity.
    """

    name: str
    count: int
    gpus: int
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[Toleration, ...] = ()
    node_terms: Terms = ()


class WorkState(StrEnum):
    """How far a Workload has come."""

    WAITING = "waiting"
    RESERVED = "reserved"
    """It holds quota, and its admission checks are asked."""
    ADMITTED = "admitted"
    FINISHED = "finished"


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """A Workload with GPUs and what is known of the job behind it.

    `held` are the GPUs by flavor that count in the quota now. `said` is Kueue's own reason and message while it waits.
    `annotations` and `labels` are the job's, over those of its pods. `past_run_ms` ran before an eviction,
    `max_run_ms` is Kueue's limit (None: none). `succeeded` is None until it has finished, or where that is not told;
    `ran_on` are the flavors that it was admitted to.

    `uid` is the job's, `workload_uid` that of the Workload itself ("": not told). `checks` are the entries of its
    status, `evicted` whether Kueue is taking it back just now, `version` its `resourceVersion`, `marks` our own
    annotations on the Workload, `job` the object to write to (None where nothing tells it).
    """

    namespace: str
    name: str
    workload: str
    kind: str
    uid: str
    created_ms: int
    queue: str
    cluster_queue: str | None
    pod_sets: tuple[PodSet, ...]
    state: WorkState
    active: bool = True
    held: Mapping[str, int] = field(default_factory=dict)
    reserved_ms: int | None = None
    admitted_ms: int | None = None
    finished_ms: int | None = None
    past_run_ms: int = 0
    max_run_ms: int | None = None
    succeeded: bool | None = None
    ran_on: tuple[str, ...] = ()
    evictions: int = 0
    gates: tuple[str, ...] = ()
    reason: str = ""
    said: str = ""
    owner: str = ""
    annotations: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    workload_uid: str = ""
    checks: tuple[CheckEntry, ...] = ()
    evicted: bool = False
    version: str = ""
    marks: Mapping[str, str] = field(default_factory=dict)
    job: JobRef | None = None

    @property
    def id(self) -> str:
        """Namespace and name of the job."""
        return f"{self.namespace}/{self.name}"

    @property
    def gpus(self) -> int:
        """All GPUs that it asks for at once."""
        return sum(one.count * one.gpus for one in self.pod_sets)

    @property
    def run_ms(self) -> int | None:
        """How long a finished one ran in all; None where that is not known."""
        if self.finished_ms is None or self.admitted_ms is None:
            return None
        return max(1, self.finished_ms - self.admitted_ms + self.past_run_ms)

    @property
    def holds_quota(self) -> bool:
        """Whether its GPUs count in its queue's quota."""
        return self.state in (WorkState.RESERVED, WorkState.ADMITTED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recurring:
    """A CronJob that asks for GPUs: its schedule as written, and the job that it makes each time.

    `zone` is None where it names none: then it is that of the cluster's controller manager, which nothing tells.
    """

    namespace: str
    name: str
    schedule: str
    zone: str | None
    suspended: bool
    queue: str
    pod_sets: tuple[PodSet, ...]
    annotations: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    max_run_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSnapshot:
    """All of it at `at_ms`. Nodes and pods are None where they could not be read; `gaps` name what could not."""

    at_ms: int
    api_version: str
    flavors: tuple[Flavor, ...]
    queues: tuple[ClusterQueue, ...]
    cohorts: tuple[Cohort, ...]
    local_queues: tuple[LocalQueue, ...]
    work: tuple[Work, ...]
    recurring: tuple[Recurring, ...] = ()
    nodes: tuple[Node, ...] | None = None
    pods: tuple[GpuPod, ...] | None = None
    checks: tuple[Check, ...] = ()
    gaps: tuple[Gap, ...] = ()
