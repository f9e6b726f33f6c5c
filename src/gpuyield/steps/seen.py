"""What a look around saw, as a draft of `gpuyield.yaml` wants it: flavors, namespaces, services, batch families."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from statistics import median

from gpuyield.account import ObservedJob, observed_jobs
from gpuyield.account.facts import runs_by_kind
from gpuyield.account.jobs import is_batch
from gpuyield.account.pods import Holding
from gpuyield.declare.draft import SeenBatch, SeenService
from gpuyield.ledger.tables import RUNS, RunKind
from gpuyield.steps.look import Glimpse

_APP_LABELS = ("app.kubernetes.io/name", "app_kubernetes_io_name", "app", "k8s-app", "k8s_app")
_BATCH_LABELS = ("job", "app", "app.kubernetes.io/name", "app_kubernetes_io_name")
_MOSTLY = 0.5

PodLabels = Mapping[tuple[str, str], Mapping[str, str]]
"""Labels by namespace and pod."""


def gpus_by_flavor(seen: Glimpse) -> dict[str, int]:
    """Cards that nodes report at the end, by flavor."""
    found: dict[str, int] = defaultdict(int)
    for states in seen.accounting.nodes.states.values():
        last = states[-1]
        if last.to_ms >= seen.window.to_ms - 600_000:
            found[last.flavor or "unknown"] += last.cards
    return dict(sorted(found.items(), key=lambda pair: (-pair[1], pair[0])))


def pod_labels(seen: Glimpse) -> PodLabels:
    """Labels of the pods that hold or await GPUs."""
    runs = runs_by_kind(seen.ledger.read(RUNS, where=f"kind = '{RunKind.POD_LABEL}'"))
    found: dict[tuple[str, str], dict[str, str]] = defaultdict(dict)
    for run in runs[RunKind.POD_LABEL]:
        found[run.namespace, run.pod][run.detail] = run.text
    return found


def team_label(labels: PodLabels) -> str | None:
    """`team`, where most pods with labels carry it."""
    carried = sum(1 for one in labels.values() if one.get("team"))
    return "team" if labels and carried > len(labels) * _MOSTLY else None


def namespaces(seen: Glimpse) -> list[str]:
    """Namespaces whose pods held GPUs."""
    return sorted({one.namespace for one in seen.accounting.pods.holdings})


def services(seen: Glimpse, labels: PodLabels) -> list[SeenService]:
    """Work that holds GPUs without an end and was not idle all the time; the most GPUs first."""
    idle: dict[tuple[str, str], int] = defaultdict(int)
    for one in seen.accounting.idle:
        span = one.window.cut(seen.window)
        owner = one.track.holding.owner
        idle[owner.namespace, owner.workload] += span.length_ms if span else 0
    held: dict[tuple[str, str], list[Holding]] = defaultdict(list)
    for holding in seen.accounting.pods.holdings:
        if not is_batch(holding) and holding.running_ms is not None:
            held[holding.namespace, holding.owner.workload].append(holding)
    found = []
    for (namespace, workload), pods in held.items():
        total = sum(one.devices * _length(one, seen) for one in pods)
        if not total or idle[namespace, workload] > total * _MOSTLY:
            continue
        now = [one for one in pods if one.to_ms >= seen.window.to_ms - 600_000]
        found.append(
            SeenService(
                name=workload,
                namespace=namespace,
                labels=_chosen(labels.get((namespace, pods[-1].pod), {}), _APP_LABELS),
                gpus=sum(one.devices for one in now) or None,
            )
        )
    return sorted(found, key=lambda one: (-(one.gpus or 0), one.namespace, one.name))


def _length(holding: Holding, seen: Glimpse) -> int:
    return max(0, min(holding.to_ms, seen.window.to_ms) - max(holding.from_ms, seen.window.from_ms))


def _chosen(labels: Mapping[str, str], wanted: tuple[str, ...]) -> dict[str, str]:
    return next(({name: labels[name]} for name in wanted if labels.get(name)), {})


def batch(seen: Glimpse, labels: PodLabels) -> list[SeenBatch]:
    """Families of batch jobs by the label they share, else by their name without numbers."""
    pods: dict[tuple[str, str], str] = {}
    for holding in seen.accounting.pods.holdings:
        if holding.job is not None:
            pods[holding.namespace, holding.job] = holding.pod
    groups: dict[tuple[str, str], list[ObservedJob]] = defaultdict(list)
    chosen: dict[tuple[str, str], dict[str, str]] = {}
    for job in observed_jobs(seen.accounting):
        label = _chosen(labels.get((job.namespace, pods.get((job.namespace, job.name), "")), {}), _BATCH_LABELS)
        name = next(iter(label.values()), "") or family_name(job.workload)
        groups[job.namespace, name].append(job)
        chosen[job.namespace, name] = label
    found = []
    for (namespace, name), jobs in sorted(groups.items(), key=lambda pair: (-len(pair[1]), pair[0])):
        lengths: dict[str, list[int]] = defaultdict(list)
        for job in jobs:
            if job.ended_ms is not None and job.flavor:
                lengths[job.flavor].append(job.run_ms)
        found.append(
            SeenBatch(
                name=name,
                namespace=namespace,
                labels=chosen[namespace, name],
                gpus=round(median(job.gpus for job in jobs)),
                durations_ms={
                    flavor: round(median(found_ms)) // 60_000 * 60_000 or 60_000 for flavor, found_ms in lengths.items()
                },
                runs=len(jobs),
            )
        )
    return found


def family_name(workload: str) -> str:
    """A job's name without the parts that differ from run to run."""
    parts = workload.split("-")
    while len(parts) > 1 and re.fullmatch(r"\d+|[0-9a-f]{8,}|(?=.*\d)[a-z0-9]{5,10}", parts[-1]):
        parts.pop()
    return "-".join(parts)
