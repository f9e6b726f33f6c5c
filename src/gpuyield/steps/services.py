"""Declared services: objectives kept round the clock, demand, and the headroom that measured capacity leaves."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any  # Documents are JSON.

from gpuyield.account import summarise
from gpuyield.account.jobs import is_batch
from gpuyield.account.served import HISTOGRAMS, REQUESTS, ServingRow, demand_of, headroom, kept_of
from gpuyield.errors import DeclarationError
from gpuyield.ledger import Ledger
from gpuyield.ledger.tables import SERVING
from gpuyield.model.declaration import Service
from gpuyield.model.document import canonical_bytes
from gpuyield.model.evidence import Gap
from gpuyield.model.objective_inputs import objective_inputs
from gpuyield.model.services import Services, ServiceState
from gpuyield.model.waterfall import ALLOCATED, BUSY, GpuClass
from gpuyield.report.answer import Answer
from gpuyield.report.screens.services import services_answer as answer_of
from gpuyield.report.sentences import listed
from gpuyield.steps.capacity import newest, read_capacity
from gpuyield.steps.configs import digests_now
from gpuyield.steps.declared_work import last_seen_ms
from gpuyield.steps.documents import read_json
from gpuyield.steps.evidence import Evidence, gather_chosen
from gpuyield.steps.setting import chosen_window, read_setting, wall_clock_ms

_OBSERVED = tuple(one for one in ALLOCATED if one is not GpuClass.UNOBSERVED)


def services_answer(*, file: Path, ledger_root: Path, window: str | None, begin: str | None, end: str | None) -> Answer:
    """The answer of `gpuyield services`."""
    setting = read_setting(file, ledger_root)
    evidence = gather_chosen(setting, chosen_window(setting, window=window, begin=begin, end=end))
    return answer_of(Watched(evidence).at(wall_clock_ms()), zone=setting.zone)


class Watched:
    """Every declared service as the ledger tells of it, read once; `at` holds its measurement against a moment."""

    def __init__(self, evidence: Evidence) -> None:
        ledger, declared = evidence.setting.ledger, evidence.setting.declaration.services
        metrics = {one.metric for service in declared for one in service.objectives}
        self._evidence = evidence
        self._declared = declared
        self._capacities = newest(read_capacity(ledger))
        self._digests = digests_now(ledger, self._capacities)
        self._replicas, self._busy = _replicas(evidence), _busy(evidence)
        rows = serving_rows(evidence, declared, (REQUESTS, *(one for one in HISTOGRAMS if one in metrics)))
        self._demand = {one.name: demand_of(rows.get(one.name, ()), evidence.window) for one in declared}
        self._kept = {
            service.name: tuple(kept_of(one, rows.get(service.name, ()), evidence.window) for one in service.objectives)
            for service in declared
        }

    def at(self, now_ms: int) -> Services:
        """The state of all of them; `now_ms` is when measurements must not have expired."""
        states = [self._state(one, now_ms) for one in self._declared]
        gaps = _gaps(self._evidence, states, self._digests)
        return Services(window=self._evidence.window, now_ms=now_ms, services=tuple(states), gaps=gaps)

    def _state(self, service: Service, now_ms: int) -> ServiceState:
        name = service.name
        capacity, demand, replicas = self._capacities.get(name), self._demand[name], self._replicas.get(name)
        room, reason = headroom(
            capacity,
            demand,
            again=_measuring(service),
            replicas=replicas,
            objectives=objectives_text(service),
            now_ms=now_ms,
            digest=self._digests.get(name),
        )
        return ServiceState(
            name=name,
            team=service.team,
            objectives=self._kept[name],
            demand=demand,
            capacity=capacity,
            is_expired=capacity is not None and capacity.is_expired(now_ms),
            replicas=replicas,
            gpu_busy=self._busy.get(name),
            headroom_rps=room,
            reason=reason,
        )


def measured_documents(ledger: Ledger, found: Services) -> tuple[dict[str, Any], ...]:
    """The measure documents that the capacities rest on, as far as the ledger still has them whole."""
    documents = []
    for one in found.services:
        if one.capacity is not None:
            with suppress(DeclarationError):
                documents.append(read_json(ledger.document_path("measure", one.capacity.inputs_digest)))
    return tuple(documents)


def objectives_text(service: Service) -> str:
    """The declared objectives as a measurement keeps them."""
    return canonical_bytes({"objectives": [objective_inputs(one) for one in service.objectives]}).decode()


def _measuring(service: Service) -> str:
    url = "" if service.endpoint else " --url http://HOST:PORT/v1"
    return f"gpuyield measure --service {service.name}{url} --apply"


def serving_rows(
    evidence: Evidence, declared: Sequence[Service], kinds: Sequence[str] = ()
) -> Mapping[str, list[ServingRow]]:
    """What was counted by the pods of each service; of these kinds only, where any are named."""
    where = " or ".join(f"kind = '{kind}'" for kind in kinds) or "true"
    found: dict[str, list[ServingRow]] = defaultdict(list)
    read = evidence.setting.ledger.read(SERVING, days=evidence.window.days(), where=where)
    names: dict[tuple[str, str], str | None] = {}
    columns = ("namespace", "pod", "kind", "edge_s", "from_ms", "span_ms", "value")
    for namespace, pod, kind, edge_s, from_ms, span_ms, value in zip(
        *(read[name].tolist() for name in columns), strict=True
    ):
        if (namespace, pod) not in names:
            service = evidence.labels.service_of_pod(namespace, pod, declared)
            names[namespace, pod] = None if service is None else service.name
        name = names[namespace, pod]
        if name is not None:
            found[name].append(
                ServingRow(kind=kind, pod=pod, edge_s=edge_s, from_ms=from_ms, span_ms=span_ms, value=value)
            )
    return found


def _replicas(evidence: Evidence) -> Mapping[str, int]:
    """Pods of each service that held GPUs when the cluster was last seen."""
    now_ms = last_seen_ms(evidence)
    pods: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for one in evidence.accounting.pods.holdings:
        if is_batch(one) or not one.from_ms <= now_ms < one.to_ms:
            continue
        service = evidence.labels.service_of(one, evidence.setting.declaration.services)
        if service is not None:
            pods[service.name].add((one.namespace, one.pod))
    return {name: len(found) for name, found in pods.items()}


def _busy(evidence: Evidence) -> Mapping[str, float]:
    """How busy the GPUs of each service were while it held them, of the time that was observed."""
    services = evidence.setting.declaration.services
    owners: dict[tuple[str, str], str] = {}
    for one in evidence.accounting.pods.holdings:
        service = evidence.labels.service_of(one, services)
        if service is not None and not is_batch(one):
            owners[one.namespace, one.owner.workload] = service.name
    if not owners:
        return {}
    busy: dict[str, int] = defaultdict(int)
    seen: dict[str, int] = defaultdict(int)
    for row in summarise(evidence.accounting, by=("namespace", "workload")).rows:
        name = owners.get((str(row.key["namespace"]), str(row.key["workload"])))
        if name is not None:
            busy[name] += row.waterfall.gpu_ms(*BUSY)
            seen[name] += row.waterfall.gpu_ms(*_OBSERVED)
    return {name: busy[name] / seen[name] for name in seen if seen[name]}


def _gaps(evidence: Evidence, states: Sequence[ServiceState], digests: Mapping[str, str]) -> tuple[Gap, ...]:
    gaps = list(evidence.lacks)
    if any(one.whole is not None for state in states for one in state.objectives):
        reason = (
            "requests that a server refused or lost are in none of its histograms, so attainment is of answered ones"
        )
        gaps.append(Gap(reason=reason, where="services.objectives"))
    unchecked = [one.name for one in states if one.headroom_rps is not None and one.name not in digests]
    if unchecked:
        reason = (
            f"whether {listed(unchecked)} is still set as it was measured is not known: its endpoint told nothing since"
        )
        gaps.append(Gap(reason=reason, where="services.headroom_rps"))
    return tuple(gaps)
