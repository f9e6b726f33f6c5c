"""Queue quotas as further resources, so that searching, windows and proofs need no rule of their own for them.

A queue holds what its jobs hold, at most nominal + borrow (None: no limit) of each resource. What it has not lent,
nominal - lend (lend None: it lends all), is kept for it; what the queues of a cohort hold beyond what is kept for each
fits into what all of them lend: sum of max(0, held - kept) <= sum of lent. As sums of `held` that is one limit for
every set of queues in which each queue without a lending limit is:

    quota/QUEUE/RESOURCE              what one queue may hold
    cohort/COHORT/RESOURCE            what all queues of a cohort may hold
    lending/COHORT/QUEUE,.../RESOURCE what all but these queues may hold, each of which has a lending limit

A GPU resource that the quotas of a queue do not name is not for it; other resources that they do not name are free.
A job without a queue is under no quota.

Source: Kueue, ClusterQueue (nominalQuota, borrowingLimit, lendingLimit).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from gpuyield.errors import Mistake
from gpuyield.model.job import Amounts, Capacity, PlanJob, QueueQuota, ResourceQuota, Steps, amount_at, is_gpu

PREFIXES = ("quota/", "cohort/", "lending/")
"""What no resource of a capacity may begin with."""
MOST_LENDERS = 6
"""Beyond so many queues with a lending limit in one cohort (and resource) there are too many limits."""


@dataclass(frozen=True, slots=True)
class Limit:
    """So much of a resource may be held by these queues together."""

    resource: str
    queues: frozenset[str]
    steps: Steps


def limits_of(quotas: Sequence[QueueQuota], capacity: Capacity) -> dict[str, Limit]:
    """The limits by name of the resource that stands for each, on the resources that capacity names."""
    found: dict[str, Limit] = {}
    cohorts: dict[tuple[str, str], dict[str, ResourceQuota]] = {}
    for queue in quotas:
        for resource in capacity.steps:
            quota = queue.resources.get(resource)
            if quota is None:
                if is_gpu(resource):
                    found[f"quota/{queue.queue}/{resource}"] = Limit(resource, frozenset({queue.queue}), ((0, 0),))
                continue
            own = _own_limit(quota, in_cohort=queue.cohort is not None)
            if own is not None:
                found[f"quota/{queue.queue}/{resource}"] = Limit(resource, frozenset({queue.queue}), own)
            if queue.cohort is not None:
                cohorts.setdefault((queue.cohort, resource), {})[queue.queue] = quota
    for (cohort, resource), members in cohorts.items():
        found.update(_limits_of_cohort(cohort, resource, members))
    return found


def limits_by_queue(limits: Mapping[str, Limit]) -> dict[tuple[str, str], tuple[str, ...]]:
    """The names of the limits that count what a queue holds of a resource, by `(queue, resource)`."""
    found: dict[tuple[str, str], list[str]] = {}
    for name, limit in limits.items():
        for queue in limit.queues:
            found.setdefault((queue, limit.resource), []).append(name)
    return {key: tuple(names) for key, names in found.items()}


def quota_mistakes(quotas: Sequence[QueueQuota], capacity: Capacity, jobs: Sequence[PlanJob]) -> list[Mistake]:
    """Names that stand for something else, too many lending limits, and jobs of queues that have no quota."""
    found = [
        Mistake(what=f"a resource is named {name}.", where="capacity", fix=f"Name it without {name.split('/')[0]}/.")
        for name in capacity.steps
        if name.startswith(PREFIXES)
    ]
    names = {queue.queue for queue in quotas}
    if len(names) < len(quotas):
        found.append(Mistake(what="a queue has quotas twice.", where="quotas", fix="Put them together."))
    cohorts = {queue.cohort for queue in quotas if queue.cohort is not None}
    found.extend(
        Mistake(what=f'"{name}" has a "/" or ",".', where="quotas", fix="Name it without.")
        for name in sorted({*names, *cohorts})
        if "/" in name or "," in name
    )
    for (cohort, resource), lenders in sorted(_lenders(quotas).items()):
        if lenders > MOST_LENDERS:
            what = (
                f"{lenders} queues of cohort {cohort} have a lending limit on {resource}, {MOST_LENDERS} at most can."
            )
            found.append(Mistake(what=what, where="quotas", fix="Remove lend where a queue lends all it has."))
    if quotas:
        found.extend(
            Mistake(what=f'its queue "{job.queue}" has no quotas.', where=f"job {job.id}", fix="Add it to quotas.")
            for job in jobs
            if job.queue is not None and job.queue not in names
        )
    return found


def said_as(resource: str) -> tuple[str, str]:
    """A resource and whose share of it is meant: `("gpu/h100", " of the quota of evals")`, `("gpu", "")`."""
    _, *rest = resource.split("/", 2)
    if resource.startswith("quota/"):
        return rest[1], f" of the quota of {rest[0]}"
    if resource.startswith("cohort/"):
        return rest[1], f" of cohort {rest[0]}"
    if resource.startswith("lending/"):
        kept, base = rest[1].split("/", 1)
        return base, f" of cohort {rest[0]} without {kept.replace(',', ' and ')}"
    return resource, ""


def _lenders(quotas: Sequence[QueueQuota]) -> dict[tuple[str, str], int]:
    found: dict[tuple[str, str], int] = {}
    for queue in quotas:
        for resource, quota in queue.resources.items():
            if queue.cohort is not None and quota.lend is not None:
                found[queue.cohort, resource] = found.get((queue.cohort, resource), 0) + 1
    return found


def _own_limit(quota: ResourceQuota, *, in_cohort: bool) -> Steps | None:
    if not in_cohort:
        return steps_of(quota.nominal)
    return None if quota.borrow is None else _together([quota.nominal, quota.borrow], sum)


def _limits_of_cohort(cohort: str, resource: str, members: Mapping[str, ResourceQuota]) -> dict[str, Limit]:
    lenders = sorted(queue for queue, quota in members.items() if quota.lend is not None)
    lent = [_lent(quota) for quota in members.values()]
    found: dict[str, Limit] = {}
    for count in range(len(lenders) + 1):
        for left_out in combinations(lenders, count):
            queues = frozenset(members) - set(left_out)
            if not queues:
                continue
            kept = [_kept(members[queue]) for queue in lenders if queue not in left_out]
            name = f"lending/{cohort}/{','.join(left_out)}/{resource}" if left_out else f"cohort/{cohort}/{resource}"
            found[name] = Limit(resource, queues, _together([*lent, *kept], sum))
    return found


def _lent(quota: ResourceQuota) -> Amounts:
    return quota.nominal if quota.lend is None else _together([quota.nominal, quota.lend], min)


def _kept(quota: ResourceQuota) -> Steps:
    assert quota.lend is not None
    return _together([quota.nominal, quota.lend], lambda pair: max(0, pair[0] - pair[1]))


def steps_of(amounts: Amounts) -> Steps:
    """An amount as a step function."""
    return ((0, amounts),) if isinstance(amounts, int) else amounts


def _together(parts: Sequence[Amounts], combined: Callable[[Sequence[int]], int]) -> Steps:
    """The step function of what several amount to at each instant."""
    rows = [steps_of(one) for one in parts]
    times = sorted({at for row in rows for at, _ in row})
    return tuple((at, combined([amount_at(row, at) for row in rows])) for at in times)
