"""What each kind of metric is needed for, and what its absence costs in certainty: data, one sentence each."""

from __future__ import annotations

from dataclasses import dataclass

from gpuyield.collect import names
from gpuyield.ledger.tables import Activity, RunKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """Kinds of facts of which one is needed; `cost` says what becomes unknown or bounded without, `fix` what to do."""

    what: str
    kinds: tuple[str, ...]
    cost: str
    fix: str

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics that tell it, best first."""
        told = [
            *(one.name for one in names.ACTIVITY_NAMES if one.activity in self.kinds),
            *(one.name for one in names.STATE_NAMES if one.kind in self.kinds),
        ]
        return tuple(dict.fromkeys(told))


_KSM = "Install kube-state-metrics, or let Prometheus scrape it."
_NEWER_KSM = "Use kube-state-metrics 2.4 or newer, and do not deny this metric."

NEEDS: tuple[Need, ...] = (
    Need(
        what="GPU requests of pods",
        kinds=(RunKind.POD_REQUEST,),
        cost="Who holds GPUs is unknown: nothing is allocated.",
        fix=_KSM,
    ),
    Need(
        what="phases of pods",
        kinds=(RunKind.POD_PHASE,),
        cost="Held and finished pods cannot be told apart: what a finished pod held is bounded by its series.",
        fix=_KSM,
    ),
    Need(
        what="times of scheduling",
        kinds=(RunKind.POD_SCHEDULED,),
        cost="When a hold began is bounded to one scrape, not measured.",
        fix=_NEWER_KSM,
    ),
    Need(
        what="starts of containers",
        kinds=(RunKind.CONTAINER_STARTED,),
        cost="Starting and running are told apart only by the phase: starting is bounded to one scrape.",
        fix=_NEWER_KSM,
    ),
    Need(
        what="ends of pods",
        kinds=(RunKind.POD_COMPLETED,),
        cost="When a hold ended is bounded to one scrape, not measured.",
        fix=_NEWER_KSM,
    ),
    Need(
        what="capacity of nodes",
        kinds=(RunKind.NODE_CAPACITY,),
        cost="How many GPUs exist is unknown: unallocated and unavailable time is not seen, or bounded by what is"
        " allocatable.",
        fix=_KSM,
    ),
    Need(
        what="allocatable of nodes",
        kinds=(RunKind.NODE_ALLOCATABLE,),
        cost="Broken cards count as unallocated: unavailable time is unknown.",
        fix=_KSM,
    ),
    Need(
        what="readiness of nodes",
        kinds=(RunKind.NODE_READY,),
        cost="GPUs of nodes that are down count as unallocated: unavailable time is unknown.",
        fix=_KSM,
    ),
    Need(
        what="cordons of nodes",
        kinds=(RunKind.NODE_CORDONED,),
        cost="GPUs of cordoned nodes count as unallocated: unavailable time is unknown.",
        fix=_KSM,
    ),
    Need(
        what="labels of nodes",
        kinds=(RunKind.NODE_LABEL,),
        cost="GPUs without activity have no flavor, so their price is unknown; MIG and shared cards are bounded.",
        fix="Run kube-state-metrics with --metric-labels-allowlist=nodes=[nvidia.com/gpu.product,nvidia.com/gpu.count,"
        "nvidia.com/gpu.replicas,nvidia.com/mig.strategy].",
    ),
    Need(
        what="owners of pods",
        kinds=(RunKind.POD_OWNER,),
        cost="Workloads are single pods: which are batch, and which belong together, is unknown.",
        fix=_KSM,
    ),
    Need(
        what="labels of pods",
        kinds=(RunKind.POD_LABEL,),
        cost="Teams come from namespaces alone, and selectors by label match nothing.",
        fix="Run kube-state-metrics with --metric-labels-allowlist=pods=[team,app].",
    ),
    Need(
        what="creation of jobs",
        kinds=(RunKind.JOB_CREATED,),
        cost="When a job was submitted is taken from its pods: waiting before the first pod is unknown.",
        fix=_KSM,
    ),
    Need(
        what="completion of jobs",
        kinds=(RunKind.JOB_COMPLETED, RunKind.JOB_FAILED),
        cost="Whether a job kept its deadline is known only from its last pod: bounded to one scrape.",
        fix=_KSM,
    ),
    Need(
        what="activity",
        kinds=(Activity.SM_ACTIVE, Activity.GR_ENGINE_ACTIVE, Activity.GPU_UTIL),
        cost="All allocated GPU time is unobserved: busy, idle and underused are unknown.",
        fix="Install dcgm-exporter, and let Prometheus scrape it.",
    ),
)

BETTER_ACTIVITY = Need(
    what="activity, best kind",
    kinds=(Activity.SM_ACTIVE, Activity.GR_ENGINE_ACTIVE),
    cost="Activity is GPU utilisation, which says 100 % when one thread runs: busy is an upper bound, and under MIG"
    " it is unknown.",
    fix="Add DCGM_FI_PROF_GR_ENGINE_ACTIVE (or DCGM_FI_PROF_SM_ACTIVE) to dcgm-exporter's counters.",
)
POD_LABELS = Need(
    what="pod labels on activity",
    kinds=(),
    cost="DCGM samples carry no pod label, so busy time cannot be given to teams. Cluster totals are still shown.",
    fix="Set DCGM_EXPORTER_KUBERNETES=true on dcgm-exporter.",
)
