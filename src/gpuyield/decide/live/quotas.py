"""Kueue's quotas as those of a plan: ClusterQueues, what cohorts own, and which of them share."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from gpuyield.model.evidence import Gap
from gpuyield.model.job import QueueQuota, ResourceQuota
from gpuyield.model.kueue import ClusterSnapshot, Cohort, GpuQuota
from gpuyield.plan.instance.quota import MOST_LENDERS


@dataclass(frozen=True, slots=True, kw_only=True)
class Quotas:
    """The quotas of all queues, and what of them could not be kept to."""

    queues: tuple[QueueQuota, ...]
    gaps: tuple[Gap, ...] = ()


def resource_of(flavor: str) -> str:
    """The resource that stands for the GPUs of a flavor."""
    return f"gpu/{flavor}"


def quotas_of(seen: ClusterSnapshot) -> Quotas:
    """One quota for each ClusterQueue, and one for what each cohort owns itself (`cohort:NAME`, no job is in it).

    A tree of cohorts counts as one cohort, named after its root. Every GPU of quota is in exactly one of them.
    """
    cohorts = {one.name: one for one in seen.cohorts}
    gaps: list[Gap] = []
    found = [
        QueueQuota(
            queue=one.name,
            cohort=None if one.cohort is None else root_of(one.cohort, cohorts),
            resources=_resources(one.quotas),
        )
        for one in seen.queues
    ]
    for cohort in seen.cohorts:
        if cohort.quotas:
            # Without a parent a cohort lends all that it owns to its queues.
            resources = {
                name: replace(quota, borrow=None, lend=None) for name, quota in _resources(cohort.quotas).items()
            }
            found.append(
                QueueQuota(queue=f"cohort:{cohort.name}", cohort=root_of(cohort.name, cohorts), resources=resources)
            )
        if cohort.parent and any(one.borrow is not None or one.lend is not None for one in cohort.quotas):
            reason = (
                f"What it lends to {cohort.parent} or borrows from it is limited; plans take the tree for one cohort, "
                "so they may start a job earlier than Kueue does."
            )
            gaps.append(Gap(reason=reason, where=f"cohort {cohort.name}"))
    alone = _too_many_lenders(found)
    gaps += [
        Gap(
            reason=f"More than {MOST_LENDERS} of its queues limit what they lend: nothing is planned on borrowed GPUs.",
            where=f"cohort {name}",
        )
        for name in sorted(alone)
    ]
    return Quotas(
        queues=tuple(replace(one, cohort=None) if one.cohort in alone else one for one in found), gaps=tuple(gaps)
    )


def root_of(cohort: str, cohorts: Mapping[str, Cohort]) -> str:
    """The root of a cohort's tree; a cohort that no object describes is its own."""
    seen: list[str] = []
    name = cohort
    while name not in seen:
        seen.append(name)
        found = cohorts.get(name)
        if found is None or found.parent is None:
            return name
        name = found.parent
    # A circle; Kueue admits nothing there, and any name will do as long as it is the same for all.
    return min(seen[seen.index(name) :])


def _resources(quotas: Iterable[GpuQuota]) -> dict[str, ResourceQuota]:
    return {
        resource_of(one.flavor): ResourceQuota(nominal=one.nominal, borrow=one.borrow, lend=one.lend) for one in quotas
    }


def _too_many_lenders(queues: Iterable[QueueQuota]) -> set[str]:
    lenders: dict[tuple[str, str], int] = defaultdict(int)
    for queue in queues:
        for resource, quota in queue.resources.items():
            if queue.cohort is not None and quota.lend is not None:
                lenders[queue.cohort, resource] += 1
    return {cohort for (cohort, _), count in lenders.items() if count > MOST_LENDERS}
