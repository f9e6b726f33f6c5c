"""Do we need to buy: everything that the decision rests on, from the declaration and the ledger."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any  # Documents are JSON.

from gpuyield.account import ObservedJob, batch_capacity, observed_jobs
from gpuyield.account.jobs import is_batch, resource_of
from gpuyield.account.pods import Holding
from gpuyield.decide.decide import decide
from gpuyield.decide.document import decision_document, decision_inputs
from gpuyield.declare.jobs import JobTerms, parse_jobs
from gpuyield.declare.problem import gpu_resources, rounded_to_minute
from gpuyield.declare.rows import read_rows
from gpuyield.declare.yaml_file import read_file
from gpuyield.ledger import Ledger
from gpuyield.model.decision import Coverage, DecideInputs, Decision, ServiceHolding
from gpuyield.model.declaration import Declaration
from gpuyield.model.evidence import Gap
from gpuyield.model.gpu import DeviceKind
from gpuyield.model.job import Capacity, PlanJob, Problem, Shape, SourceFile
from gpuyield.model.waterfall import Holder
from gpuyield.report.answer import Answer
from gpuyield.report.screens.decide import decide_answer as answer_of
from gpuyield.steps.account import accounted
from gpuyield.steps.decide_files import inputs_of_files, offers_of, rates_of, sources_of
from gpuyield.steps.documents import keep
from gpuyield.steps.evidence import Evidence, gather
from gpuyield.steps.observed import OBSERVED_MS, observed_rows
from gpuyield.steps.plan import deadline, read_named_problem
from gpuyield.steps.setting import chosen_window, covered, read_declaration, read_setting
from gpuyield.units import DAY_MS, HOUR_MS, Window, parse_duration, parse_instant, parse_zone

_TIME_LIMIT = "20s"
GATE = {"not_needed": 0, "needed": 10, "unknown": 4}
Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the command line says of the work to decide on."""

    jobs: Path | None = None
    capacity: Path | None = None
    gpus: int | None = None
    origin: str | None = None
    horizon: str = "26w"


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
        evidence = gather(setting, chosen_window(setting, window=window, begin=begin, end=end))
        tell("deciding")
        found = decided(evidence, asked)
    keep("decide", found.document, found.inputs, ledger_root=ledger_root, out=out)
    return answer_of(
        found.document,
        zone=parse_zone(declared.reporting_zone),
        path=str(out) if out else None,
        exit_code=GATE[str(found.document["status"])] if gate else 0,
    )


def was_collected(ledger_root: Path) -> bool:
    """Whether anything was ever read into this ledger."""
    return ledger_root.is_dir() and covered(Ledger(ledger_root)) is not None


def decided(evidence: Evidence, asked: Asked) -> Decided:
    """The decision on this evidence."""
    return _decided(decide_inputs(evidence, asked))


def decided_on_files(declared: Declaration, asked: Asked, jobs: Path) -> Decided:
    """The decision on a job file and a capacity, without a ledger."""
    problem = read_named_problem(declared, jobs=jobs, capacity=asked.capacity, gpus=asked.gpus, origin=asked.origin)
    return _decided(inputs_of_files(declared, problem, parse_duration(asked.horizon)))


def _decided(inputs: DecideInputs) -> Decided:
    decision = decide(inputs, should_stop=deadline(_TIME_LIMIT))
    return Decided(decision=decision, document=decision_document(decision), inputs=decision_inputs(decision))


def decide_inputs(evidence: Evidence, asked: Asked) -> DecideInputs:
    """All that the decision rests on."""
    declared, now_ms = evidence.setting.declaration, evidence.window.to_ms
    account = accounted(evidence)
    work = declared_work(evidence, asked)
    rows, seen = ((), 0) if work.problem is not None else observed_rows(evidence, should_stop=deadline(_TIME_LIMIT))
    flavors = {*evidence.accounting.cells.flavors, *(one.flavor for one in evidence.book.prices)}
    recent = Window(max(evidence.window.from_ms, now_ms - OBSERVED_MS), now_ms)
    return DecideInputs(
        now_ms=now_ms,
        cluster=declared.name,
        zone=declared.reporting_zone,
        window=evidence.window,
        horizon_ms=parse_duration(asked.horizon),
        problem=work.problem,
        incomplete_jobs=work.incomplete,
        has_other_work=work.on_cluster and has_other_work(evidence),
        observed=rows,
        observed_jobs=seen,
        observed_window=recent if rows else None,
        reclaimable=reclaimable(evidence, account.holders) if work.on_cluster else {},
        holders=account.holders,
        services=services(evidence),
        coverage=coverage(evidence),
        prices=rates_of(evidence.book, flavors, now_ms - 1),
        offers=offers_of(declared),
        sources=sources_of(declared, work.problem),
        gaps=(*evidence.gaps, *work.gaps),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """The declared batch work: a problem (None: none is declared), and declared jobs that no plan can hold.

    `on_cluster`: its capacity is what the cluster's services leave, so that idle GPUs they give back add to it.
    """

    problem: Problem | None
    incomplete: tuple[str, ...] = ()
    on_cluster: bool = True
    gaps: tuple[Gap, ...] = ()


def declared_work(evidence: Evidence, asked: Asked) -> Work:
    """Jobs of the file that is named, else the jobs of the last day that have a deadline, as they will come again."""
    declared = evidence.setting.declaration
    if asked.jobs is not None and (asked.capacity is not None or asked.gpus is not None):
        problem = read_named_problem(
            declared, jobs=asked.jobs, capacity=asked.capacity, gpus=asked.gpus, origin=asked.origin
        )
        return Work(problem=problem, on_cluster=False)
    origin_ms = parse_instant(asked.origin) if asked.origin else rounded_to_minute(evidence.window.to_ms)
    capacity = batch_capacity(evidence.accounting, origin_ms=origin_ms, at_ms=evidence.window.to_ms - 1)
    running = _running(evidence, origin_ms, capacity)
    if asked.jobs is not None:
        found = read_rows(asked.jobs, read_file(asked.jobs))
        terms = JobTerms(
            origin_ms=origin_ms,
            zone=evidence.setting.zone,
            milestones=declared.milestones,
            gpu_resources=gpu_resources(capacity),
        )
        jobs = parse_jobs(found, terms)
        return Work(problem=_problem(evidence, origin_ms, (*jobs, *running), capacity, (found.source,)))
    recurring = _last_day_again(evidence, origin_ms)
    if not recurring:
        return Work(problem=None)
    reason = (
        f"No job file is named: the {len(recurring):,} jobs with a deadline of the last 24 h are taken to come again "
        "in the next 24 h."
    )
    problem = _problem(evidence, origin_ms, (*recurring, *running), capacity, ())
    return Work(problem=problem, gaps=(Gap(reason=reason, where="jobs"),))


def _problem(
    evidence: Evidence,
    origin_ms: int,
    jobs: tuple[PlanJob, ...],
    capacity: Capacity,
    sources: tuple[SourceFile, ...],
) -> Problem:
    return Problem(
        origin_ms=origin_ms,
        jobs=jobs,
        capacity=capacity,
        zone=evidence.setting.declaration.reporting_zone,
        sources=sources,
    )


def _last_day_again(evidence: Evidence, origin_ms: int) -> tuple[PlanJob, ...]:
    """Jobs with a deadline that were submitted in the last day, a day later."""
    day = Window(evidence.window.to_ms - DAY_MS, evidence.window.to_ms)
    families = {one.name: one for one in evidence.setting.declaration.batch}
    jobs = []
    for one in observed_jobs(evidence.accounting):
        promised = evidence.promises.jobs.get((one.namespace, one.name))
        if promised is None or promised.limit_ms is None or not day.from_ms <= one.created_ms < day.to_ms:
            continue
        family = families.get(promised.family or "")
        shift = DAY_MS - origin_ms
        jobs.append(
            PlanJob(
                id=one.id,
                shapes=_shapes(one),
                release_ms=max(0, one.created_ms + shift),
                deadline_ms=None if promised.deadline_ms is None else promised.deadline_ms + shift,
                due_ms=None if promised.due_ms is None else promised.due_ms + shift,
                weight=family.weight if family else Decimal(1),
                restart_ms=family.restart_ms if family else None,
                team=one.team,
                family=promised.family or one.workload,
            )
        )
    return tuple(jobs)


def _shapes(job: ObservedJob) -> tuple[Shape, ...]:
    shape = Shape(flavor=job.flavor, demand={resource_of(job.flavor): job.gpus}, duration_ms=max(1, job.run_ms))
    return (shape,)


def _running(evidence: Evidence, origin_ms: int, capacity: Capacity) -> tuple[PlanJob, ...]:
    """Batch jobs that hold GPUs now: they keep them for as long as their family ran at most, else for a day."""
    longest: dict[str, int] = {}
    jobs = observed_jobs(evidence.accounting)
    for one in jobs:
        if one.ended_ms is not None:
            longest[one.workload] = max(longest.get(one.workload, 0), one.run_ms)
    held: dict[tuple[str, str, str], list[Holding]] = defaultdict(list)
    now_ms = last_seen_ms(evidence)
    for holding in evidence.accounting.pods.holdings:
        if is_batch(holding) and holding.from_ms <= now_ms < holding.to_ms and holding.kind is DeviceKind.WHOLE:
            state = evidence.accounting.nodes.at(holding.node, now_ms)
            resource = resource_of(state.flavor if state else None)
            held[holding.namespace, holding.job or holding.pod, resource].append(holding)
    found = []
    for (namespace, name, resource), pods in sorted(held.items()):
        if resource not in capacity.steps:
            continue
        began = min(one.from_ms for one in pods) - origin_ms
        known = longest.get(pods[0].owner.workload)
        until = max(began + known, HOUR_MS) if known is not None else DAY_MS
        found.append(
            PlanJob(
                id=f"{namespace}/{name} (running)",
                shapes=(
                    Shape(
                        flavor=resource.removeprefix("gpu/") if resource != "gpu" else None,
                        demand={resource: sum(one.devices for one in pods)},
                        duration_ms=until - began,
                    ),
                ),
                release_ms=began,
                started_ms=began,
                team=pods[0].owner.team,
                family=pods[0].owner.workload,
            )
        )
    return tuple(found)


def last_seen_ms(evidence: Evidence) -> int:
    """The last instant of the window at which anything was seen of the cluster: what was so then counts as now."""
    observed = evidence.accounting.observed
    end_ms = evidence.window.to_ms
    return min(end_ms, observed[-1].to_ms) - 1 if observed else end_ms - 1


def has_other_work(evidence: Evidence) -> bool:
    """Whether batch jobs ran in the last day that have no deadline, so that no plan of declared work holds them."""
    seen_ms = last_seen_ms(evidence)
    return any(
        (promised := evidence.promises.jobs.get((one.namespace, one.name))) is None or promised.limit_ms is None
        for one in observed_jobs(evidence.accounting)
        if one.created_ms + max(one.run_ms, 0) >= seen_ms - DAY_MS
    )


def reclaimable(evidence: Evidence, holders: tuple[Holder, ...]) -> dict[str, int]:
    """Whole GPUs that are held idle now by what is no batch job, by resource."""
    batch = {(one.namespace, one.owner.workload) for one in evidence.accounting.pods.holdings if is_batch(one)}
    found: dict[str, int] = defaultdict(int)
    for one in holders:
        if one.gpus_now and (one.namespace, one.workload) not in batch:
            found[resource_of(one.flavor)] += one.gpus_now
    return dict(found)


def services(evidence: Evidence) -> tuple[ServiceHolding, ...]:
    """Declared services and the GPUs they hold now; other work that is no batch job under its own name."""
    now_ms = last_seen_ms(evidence)
    gpus: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    declared = {one.name: one for one in evidence.setting.declaration.services}
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
