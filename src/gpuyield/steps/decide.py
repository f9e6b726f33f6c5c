"""Do we need to buy: everything that the decision rests on, from the declaration and the ledger."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any  # Documents are JSON.

from gpuyield.account.jobs import is_batch, resource_of
from gpuyield.account.pods import Holding
from gpuyield.account.served import to_spare
from gpuyield.decide.decide import decide
from gpuyield.decide.document import decision_document, decision_inputs
from gpuyield.errors import DeclarationError
from gpuyield.model.decision import Coverage, DecideInputs, Decision, ServiceHolding
from gpuyield.model.declaration import Declaration
from gpuyield.model.gpu import DeviceKind
from gpuyield.model.waterfall import Holder
from gpuyield.report.answer import Answer
from gpuyield.report.screens.decide import decide_answer as answer_of
from gpuyield.steps.account import accounted
from gpuyield.steps.compiled import keep_compiled
from gpuyield.steps.decide_files import inputs_of_files, offers_of, rates_of, sources_of
from gpuyield.steps.declared_work import Asked, declared_work, has_other_work, last_seen_ms
from gpuyield.steps.documents import keep
from gpuyield.steps.evidence import Evidence, gather_chosen
from gpuyield.steps.observed import NOTHING_OBSERVED, OBSERVED_MS, observed_rows
from gpuyield.steps.plan import deadline, read_named_problem
from gpuyield.steps.services import Watched
from gpuyield.steps.setting import chosen_window, read_declaration, read_setting, was_collected
from gpuyield.units import DAY_MS, Window, parse_duration, parse_zone

_TIME_LIMIT = "20s"
_LONGEST_HORIZON_MS = 3_660 * DAY_MS
GATE = {"not_needed": 0, "needed": 10, "unknown": 4}
Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """A decision, as value and as documents."""

    decision: Decision
    document: dict[str, Any]
    inputs: dict[str, Any]


def decide_answer(
    *,
    file: Path,
    ledger_root: Path,
    window: str | None,
    begin: str | None,
    end: str | None,
    jobs: Path | None,
    capacity: Path | None,
    gpus: int | None,
    origin: str | None,
    horizon: str,
    gate: bool,
    out: Path | None,
    tell: Tell,
) -> Answer:
    """The answer of `gpuyield decide`."""
    asked = Asked(jobs=jobs, capacity=capacity, gpus=gpus, origin=origin, horizon=horizon)
    declared = read_declaration(file)
    if asked.jobs is not None and (capacity is not None or gpus is not None) and not was_collected(ledger_root):
        tell("deciding")
        found = decided_on_files(declared, asked, asked.jobs)
    else:
        setting = read_setting(file, ledger_root)
        tell("accounting")
        evidence = gather_chosen(setting, chosen_window(setting, window=window, begin=begin, end=end))
        tell("deciding")
        found = decided(evidence, asked, Watched(evidence))
    notes = keep("decide", found.document, found.inputs, ledger_root=ledger_root, out=out)
    return answer_of(
        found.document,
        zone=parse_zone(declared.reporting_zone),
        path=str(out) if out else None,
        notes=notes,
        exit_code=GATE[str(found.document["status"])] if gate else 0,
    )


def decided(evidence: Evidence, asked: Asked, watched: Watched) -> Decided:
    """The decision on this evidence, and what it tells of services."""
    return _decided(decide_inputs(evidence, asked, watched))


def decided_on_files(declared: Declaration, asked: Asked, jobs: Path) -> Decided:
    """The decision on a job file and a capacity, without a ledger."""
    problem = read_named_problem(declared, jobs=jobs, capacity=asked.capacity, gpus=asked.gpus, origin=asked.origin)
    return _decided(inputs_of_files(declared, problem, _horizon_ms(asked.horizon)))


def _horizon_ms(text: str) -> int:
    try:
        length_ms = parse_duration(text)
    except DeclarationError as err:
        raise DeclarationError(err.mistakes[0].what, where="--horizon", fix=err.mistakes[0].fix) from err
    if not 0 < length_ms <= _LONGEST_HORIZON_MS:
        raise DeclarationError(
            f'"{text}" is {"longer than ten years" if length_ms else "no time at all"}.',
            where="--horizon",
            fix="Write 26w or 180d.",
        )
    return length_ms


def _decided(inputs: DecideInputs) -> Decided:
    keep_compiled()
    decision = decide(inputs, should_stop=deadline(_TIME_LIMIT))
    return Decided(decision=decision, document=decision_document(decision), inputs=decision_inputs(decision))


def decide_inputs(evidence: Evidence, asked: Asked, watched: Watched) -> DecideInputs:
    """All that the decision rests on."""
    declared, now_ms = evidence.setting.declaration, evidence.window.to_ms
    account = accounted(evidence)
    work = declared_work(evidence, asked)
    observed = NOTHING_OBSERVED
    if work.problem is None:
        observed = observed_rows(evidence, should_stop=deadline(_TIME_LIMIT))
    held = services(evidence, watched)
    flavors = {*evidence.accounting.cells.flavors, *(one.flavor for one in evidence.book.prices)}
    recent = Window(max(evidence.window.from_ms, now_ms - OBSERVED_MS), now_ms)
    return DecideInputs(
        now_ms=now_ms,
        cluster=declared.name,
        zone=declared.reporting_zone,
        window=evidence.window,
        horizon_ms=_horizon_ms(asked.horizon),
        problem=work.problem,
        incomplete_jobs=work.incomplete,
        has_other_work=work.on_cluster and has_other_work(evidence),
        after_services=work.on_cluster and bool(held),
        observed=observed.rows,
        observed_jobs=observed.jobs,
        observed_window=recent if observed.rows else None,
        reclaimable=reclaimable(evidence, account.holders) if work.on_cluster else {},
        holders=account.holders,
        services=held,
        coverage=coverage(evidence),
        prices=rates_of(evidence.book, flavors, now_ms - 1),
        offers=offers_of(declared),
        sources=sources_of(declared, work.problem),
        gaps=(*evidence.gaps, *work.gaps, *observed.gaps),
    )


def reclaimable(evidence: Evidence, holders: tuple[Holder, ...]) -> dict[str, int]:
    """Whole GPUs that are held idle now by what is no batch job, by resource."""
    batch = {(one.namespace, one.owner.workload) for one in evidence.accounting.pods.holdings if is_batch(one)}
    found: dict[str, int] = defaultdict(int)
    for one in holders:
        if one.gpus_now and (one.namespace, one.workload) not in batch:
            found[resource_of(one.flavor)] += one.gpus_now
    return dict(found)


def services(evidence: Evidence, watched: Watched) -> tuple[ServiceHolding, ...]:
    """Declared services and the GPUs they hold now; other work that is no batch job under its own name.

    A service is measured when its certified rate, its demand and its replicas are known at the end of the window, and
    none of the replicas could be given back.
    """
    now_ms = last_seen_ms(evidence)
    declared = {one.name: one for one in evidence.setting.declaration.services}
    spares = {
        one.name: to_spare(one, declared[one.name].spare_replicas) for one in watched.at(evidence.window.to_ms).services
    }
    gpus: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for holding in _service_holdings(evidence):
        if holding.from_ms <= now_ms < holding.to_ms:
            state = evidence.accounting.nodes.at(holding.node, now_ms)
            name = service_name(holding, evidence)
            gpus[name][resource_of(state.flavor if state else None)] += holding.devices
    return tuple(
        ServiceHolding(
            name=name,
            gpus=dict(held),
            has_objective=name in declared and bool(declared[name].objectives),
            measured=spares.get(name) == 0,
            spare_replicas=spares.get(name) or 0,
        )
        for name, held in sorted(gpus.items())
    )


def _service_holdings(evidence: Evidence) -> list[Holding]:
    return [one for one in evidence.accounting.pods.holdings if not is_batch(one) and one.kind is DeviceKind.WHOLE]


def service_name(holding: Holding, evidence: Evidence) -> str:
    """The declared service that a pod belongs to, else its workload."""
    found = evidence.labels.service_of(holding, evidence.setting.declaration.services)
    return found.name if found else f"{holding.namespace}/{holding.owner.workload}"


def coverage(evidence: Evidence) -> Coverage:
    """GPU time held by services with an objective and jobs with a deadline, and all that was held."""
    declaration = evidence.setting.declaration
    objectives = {one.name for one in declaration.services if one.objectives}
    total = declared = 0
    for holding in evidence.accounting.pods.holdings:
        part = Window(holding.from_ms, max(holding.from_ms, holding.to_ms)).cut(evidence.window)
        if part is None:
            continue
        gpu_ms = holding.devices * part.length_ms
        total += gpu_ms
        if is_batch(holding):
            promised = evidence.promises.jobs.get((holding.namespace, holding.job or ""))
            declared += gpu_ms if promised is not None and promised.limit_ms is not None else 0
        elif service_name(holding, evidence) in objectives:
            declared += gpu_ms
    return Coverage(declared_gpu_ms=declared, total_gpu_ms=total)


def with_plan(decision: Decided) -> dict[str, Any] | None:
    """The plan document that the decision rests on."""
    certificate = decision.document.get("certificate")
    return None if certificate is None else certificate["plan"]
