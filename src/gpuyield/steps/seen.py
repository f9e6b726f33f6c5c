"""What a look around saw, as a draft of `gpuyield.yaml` wants it: flavors, namespaces, services, batch families."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from statistics import median

from gpuyield.account import observed_jobs
from gpuyield.account.facts import runs_by_kind
from gpuyield.account.holders import idle_holders
from gpuyield.account.jobs import is_batch
from gpuyield.account.pods import Holding
from gpuyield.collect.look import ServingSeen
from gpuyield.collect.probe import ServiceSeen
from gpuyield.collect.probe_services import model_endpoint
from gpuyield.declare.draft import SeenBatch, SeenService
from gpuyield.ledger.tables import RUNS, RunKind
from gpuyield.steps.look import Glimpse

_APP_LABELS = ("app.kubernetes.io/name", "app_kubernetes_io_name", "app", "k8s-app", "k8s_app")
_BATCH_LABELS = ("job", "app", "app.kubernetes.io/name", "app_kubernetes_io_name")
_MOSTLY = 0.5
_STILL_MS = 600_000

PodLabels = Mapping[tuple[str, str], Mapping[str, str]]
"""Labels by namespace and pod."""


def gpus_by_flavor(seen: Glimpse) -> dict[str, int]:
    """Cards that nodes report at the end, by flavor."""
    found: dict[str, int] = defaultdict(int)
    for states in seen.accounting.nodes.states.values():
        last = states[-1]
        if last.to_ms >= seen.window.to_ms - _STILL_MS:
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


def services(
    seen: Glimpse, labels: PodLabels, serving: Sequence[ServingSeen] = (), cluster: Sequence[ServiceSeen] = ()
) -> list[SeenService]:
    """Work that holds GPUs without an end, and serves a model or was not idle all the time; the most GPUs first."""
    idle: dict[tuple[str, str], int] = defaultdict(int)
    for one in seen.accounting.idle:
        span = one.window.cut(seen.window)
        owner = one.track.holding.owner
        idle[owner.namespace, owner.workload] += span.length_ms if span else 0
    held: dict[tuple[str, str], list[Holding]] = defaultdict(list)
    for holding in seen.accounting.pods.holdings:
        if not is_batch(holding) and holding.running_ms is not None:
            held[holding.namespace, holding.owner.workload].append(holding)
    everything = _held_ms(seen, seen.accounting.pods.holdings)
    found = []
    placed: set[ServingSeen] = set()
    for (namespace, workload), pods in held.items():
        total = _held_ms(seen, pods)
        server = _server_of(namespace, pods, held, serving)
        if not total or (server is None and idle[namespace, workload] > total * _MOSTLY):
            continue
        placed.update([server] if server else [])
        now = [one for one in pods if one.to_ms >= seen.window.to_ms - _STILL_MS]
        chosen = _chosen(labels.get((namespace, pods[-1].pod), {}), _APP_LABELS)
        its = labels.get((namespace, pods[-1].pod), {})
        found.append(
            SeenService(
                name=workload,
                namespace=namespace,
                labels=chosen,
                model=server.model or None if server else None,
                engine=server.engine or None if server else None,
                endpoint=model_endpoint(cluster, namespace=namespace, workload=workload, labels=its),
                gpus=sum(one.devices for one in now) or None,
                gpu_share=total / everything,
            )
        )
    found += [_without_gpus(one) for one in serving if one not in placed and one.namespace]
    return sorted(found, key=lambda one: (-(one.gpus or 0), one.namespace, one.name))


def idle_work(seen: Glimpse, listed: Sequence[SeenService]) -> list[SeenService]:
    """Work that holds whole GPUs idle now and is no service that is listed; the most GPUs first."""
    everything = _held_ms(seen, seen.accounting.pods.holdings)
    known = {(one.namespace, one.name) for one in listed}
    held: dict[tuple[str, str], list[Holding]] = defaultdict(list)
    for holding in seen.accounting.pods.holdings:
        if not is_batch(holding):
            held[holding.namespace, holding.owner.workload].append(holding)
    gpus: dict[tuple[str, str], int] = defaultdict(int)
    for one in idle_holders(seen.accounting):
        if (one.namespace, one.workload) in held.keys() - known:
            gpus[one.namespace, one.workload] += one.gpus_now
    found = [
        SeenService(name=name, namespace=space, gpus=now, gpu_share=_held_ms(seen, held[space, name]) / everything)
        for (space, name), now in gpus.items()
        if now
    ]
    return sorted(found, key=lambda one: (-(one.gpus or 0), one.namespace, one.name))


def _server_of(
    namespace: str,
    pods: Sequence[Holding],
    held: Mapping[tuple[str, str], Sequence[Holding]],
    serving: Sequence[ServingSeen],
) -> ServingSeen | None:
    """The model server that these pods are: by a pod's name, else as the only one of a namespace's only workload."""
    inside = [one for one in serving if one.namespace == namespace]
    names = {one.pod for one in pods}
    named = next((one for one in inside if one.pod in names), None)
    alone = len(inside) == 1 and [space for space, _ in held].count(namespace) == 1
    return named or (inside[0] if alone else None)


def _without_gpus(server: ServingSeen) -> SeenService:
    """A model server whose metrics are there, and whose GPUs kube-state-metrics does not tell of."""
    return SeenService(
        name=family_name(server.pod) or server.model or server.engine,
        namespace=server.namespace,
        model=server.model or None,
        engine=server.engine or None,
    )


def _held_ms(seen: Glimpse, holdings: Sequence[Holding]) -> int:
    """GPU time of holdings inside the window."""
    return sum(
        one.devices * max(0, min(one.to_ms, seen.window.to_ms) - max(one.from_ms, seen.window.from_ms))
        for one in holdings
    )


def _chosen(labels: Mapping[str, str], wanted: tuple[str, ...]) -> dict[str, str]:
    return next(({name: labels[name]} for name in wanted if labels.get(name)), {})


@dataclass(slots=True)
class _Family:
    """Batch work with one name, as it is gathered."""

    label: dict[str, str] = field(default_factory=dict)
    held: list[Holding] = field(default_factory=list)
    gpus: list[int] = field(default_factory=list)
    run_ms: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))


def batch(seen: Glimpse, labels: PodLabels) -> list[SeenBatch]:
    """Families of batch jobs by the label they share, else by their name without numbers; the most GPU time first."""
    families: dict[tuple[str, str], _Family] = defaultdict(_Family)
    family_of: dict[tuple[str, str], _Family] = {}
    for holding in seen.accounting.pods.holdings:
        if not is_batch(holding) or not _held_ms(seen, [holding]):
            continue
        label = _chosen(labels.get((holding.namespace, holding.pod), {}), _BATCH_LABELS)
        name = next(iter(label.values()), "") or family_name(holding.owner.workload)
        family = families[holding.namespace, name]
        family.label = family.label or label
        family.held.append(holding)
        family_of[holding.namespace, holding.job or holding.pod] = family
    for job in observed_jobs(seen.accounting):
        its = family_of.get((job.namespace, job.name))
        if its is None:
            continue
        its.gpus.append(job.gpus)
        if job.ended_ms is not None and job.flavor:
            its.run_ms[job.flavor].append(job.run_ms)
    everything = _held_ms(seen, seen.accounting.pods.holdings)
    found = [
        SeenBatch(
            name=name,
            namespace=namespace,
            labels=family.label,
            gpus=round(median(family.gpus or _gpus_now(seen, family.held) or [0])) or None,
            durations_ms={flavor: _to_minutes(median(lengths)) for flavor, lengths in family.run_ms.items()},
            runs=len({one.job or one.pod for one in family.held}),
            gpu_share=_held_ms(seen, family.held) / everything,
        )
        for (namespace, name), family in families.items()
    ]
    return sorted(found, key=lambda one: (-(one.gpu_share or 0), one.namespace, one.name))


def _gpus_now(seen: Glimpse, held: Sequence[Holding]) -> list[int]:
    """Devices of each job that still holds some."""
    gpus: dict[str, int] = defaultdict(int)
    for one in held:
        if one.to_ms >= seen.window.to_ms - _STILL_MS:
            gpus[one.job or one.pod] += one.devices
    return list(gpus.values())


def _to_minutes(length_ms: float) -> int:
    return round(length_ms) // 60_000 * 60_000 or 60_000


@lru_cache(maxsize=1024)
def family_name(workload: str) -> str:
    """A job's name without the parts that differ from run to run."""
    parts = workload.split("-")
    while len(parts) > 1 and re.fullmatch(r"\d+|[0-9a-f]{8,}|(?=.*\d)[a-z0-9]{5,10}", parts[-1]):
        parts.pop()
    return "-".join(parts)
