"""The declared batch work as a planning problem: what is named, what waits and runs now, what comes again.

Where no job file is named, the jobs with a deadline of the last 24 h are taken to come again in the next 24 h, with
the run times that they (or their family) had, and those that their family declares for other flavors; those that wait
now are planned as they are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path

from gpuyield.account import batch_capacity, observed_jobs
from gpuyield.account.jobs import is_batch, resource_of
from gpuyield.account.pods import Holding
from gpuyield.declare.deadlines import deadline_ms
from gpuyield.declare.jobs import JobTerms, parse_jobs
from gpuyield.declare.problem import gpu_resources, rounded_to_minute
from gpuyield.declare.rows import read_rows
from gpuyield.declare.yaml_file import read_file
from gpuyield.model.declaration import BatchFamily, Deadline
from gpuyield.model.duration import FamilyDuration
from gpuyield.model.evidence import Gap
from gpuyield.model.gpu import DeviceKind, device_kind
from gpuyield.model.job import Capacity, PlanJob, Problem, Shape, SourceFile
from gpuyield.steps.evidence import Evidence
from gpuyield.steps.past_runs import durations_of
from gpuyield.steps.plan import read_named_problem
from gpuyield.steps.promises import JobKey, Promised
from gpuyield.steps.run_history import RunHistory
from gpuyield.steps.run_shapes import longest_runs, own_shape, usual_shapes, with_declared
from gpuyield.units import DAY_MS, HOUR_MS, Window, parse_moment


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the command line says of the work to decide on."""

    jobs: Path | None = None
    capacity: Path | None = None
    gpus: int | None = None
    origin: str | None = None
    horizon: str = "26w"


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
    """The work that a decision is about."""
    declared = evidence.setting.declaration
    if asked.jobs is not None and (asked.capacity is not None or asked.gpus is not None):
        problem = read_named_problem(
            declared, jobs=asked.jobs, capacity=asked.capacity, gpus=asked.gpus, origin=asked.origin
        )
        return Work(problem=problem, on_cluster=False)
    origin_ms = (
        rounded_to_minute(evidence.window.to_ms)
        if asked.origin is None
        else parse_moment(asked.origin, zone=evidence.setting.zone, where="--origin")
    )
    capacity = batch_capacity(evidence.accounting, origin_ms=origin_ms, at_ms=evidence.window.to_ms - 1)
    running = _running(evidence, origin_ms, capacity)
    if asked.jobs is not None:
        found = read_rows(asked.jobs, read_file(asked.jobs))
        history = RunHistory(lambda: durations_of(observed_jobs(evidence.accounting), evidence.promises))
        terms = JobTerms(
            origin_ms=origin_ms,
            zone=evidence.setting.zone,
            milestones=declared.milestones,
            gpu_resources=gpu_resources(capacity),
            history=history,
        )
        jobs = parse_jobs(found, terms)
        problem = _problem(evidence, origin_ms, (*jobs, *running), capacity, (found.source,), history.families())
        return Work(problem=problem)
    return _seen_work(evidence, origin_ms, capacity, running)


def _problem(
    evidence: Evidence,
    origin_ms: int,
    jobs: tuple[PlanJob, ...],
    capacity: Capacity,
    sources: tuple[SourceFile, ...],
    families: tuple[FamilyDuration, ...] = (),
) -> Problem:
    return Problem(
        origin_ms=origin_ms,
        jobs=jobs,
        capacity=capacity,
        zone=evidence.setting.declaration.reporting_zone,
        sources=sources,
        families=families,
    )


def last_seen_ms(evidence: Evidence) -> int:
    """The last instant of the window at which anything was seen of the cluster: what was so then counts as now."""
    observed = evidence.accounting.observed
    end_ms = evidence.window.to_ms
    return min(end_ms, observed[-1].to_ms) - 1 if observed else end_ms - 1


def _seen_work(evidence: Evidence, origin_ms: int, capacity: Capacity, running: tuple[PlanJob, ...]) -> Work:
    now_ms = last_seen_ms(evidence)
    ran = {(one.namespace, one.name): one for one in observed_jobs(evidence.accounting)}
    durations = durations_of(ran.values(), evidence.promises)
    usual = usual_shapes(ran.values(), evidence.promises, durations)
    families = {one.name: one for one in evidence.setting.declaration.batch}
    waiting = _waiting(evidence, now_ms)
    planned: list[PlanJob] = []
    incomplete: list[str] = []
    again = 0
    for key, promised in evidence.promises.jobs.items():
        if promised.limit_ms is None:
            continue
        job = ran.get(key)
        shape = own_shape(job) or usual.get(promised.family or "") or usual.get(promised.workload)
        shapes = with_declared(shape, families.get(promised.family or ""), capacity)
        made = []
        if key in waiting:
            made.append(_job(key, "waiting", promised, evidence, origin_ms, at_ms=None))
        if now_ms - DAY_MS <= promised.created_ms <= now_ms:
            made.append(_job(key, "again", promised, evidence, origin_ms, at_ms=promised.created_ms + DAY_MS))
            again += 1
        for one in made:
            if shapes:
                spread_ms = known.spread_ms if (known := durations.of(one.family)) is not None else ()
                planned.append(replace(one, shapes=shapes, spread_ms=spread_ms))
            else:
                incomplete.append(one.id)
    if not planned and not incomplete:
        return Work(problem=None)
    gaps = []
    if again:
        reason = (
            f"No job file is named: the {again:,} jobs with a deadline of the last 24 h are taken to come again in "
            "the next 24 h."
        )
        gaps.append(Gap(reason=reason, where="jobs"))
    names = sorted({one.family for one in planned if one.family})
    learnt = tuple(known for name in names if (known := durations.of(name)) is not None)
    problem = _problem(evidence, origin_ms, (*planned, *running), capacity, (), learnt)
    return Work(problem=problem, incomplete=tuple(incomplete), gaps=tuple(gaps))


def _waiting(evidence: Evidence, now_ms: int) -> set[JobKey]:
    """Jobs with a pod that waits for whole GPUs now."""
    return {
        (one.owner.namespace, one.job)
        for one in evidence.accounting.pods.waiting
        if one.job is not None
        and not one.placed
        and one.from_ms <= now_ms < one.to_ms
        and device_kind(one.resource) is DeviceKind.WHOLE
    }


def _job(
    key: JobKey, what: str, promised: Promised, evidence: Evidence, origin_ms: int, *, at_ms: int | None
) -> PlanJob:
    """A job with its limits; `at_ms` is when it comes again (None: it is here already). Its shape is not set yet."""
    families = {one.name: one for one in evidence.setting.declaration.batch}
    family: BatchFamily | None = families.get(promised.family or "")
    name = f"{key[0]}/{key[1]}"
    limits = {"deadline": promised.deadline_ms, "due": promised.due_ms}
    if at_ms is not None:
        milestones = evidence.setting.declaration.milestones
        for label, written in (("deadline", promised.deadline), ("due", promised.due)):
            limits[label] = _moved(written, at_ms, milestones)
    deadline, due = (None if limit is None else limit - origin_ms for limit in (limits["deadline"], limits["due"]))
    return PlanJob(
        id=name if what == "again" else f"{name} ({what})",
        shapes=(),
        release_ms=0 if at_ms is None else max(0, at_ms - origin_ms),
        deadline_ms=deadline,
        due_ms=due,
        weight=family.weight if family else Decimal(1),
        restart_ms=family.restart_ms if family else None,
        team=promised.team,
        family=promised.family or promised.workload,
    )


def _moved(written: Deadline | None, created_ms: int, milestones: Mapping[str, int]) -> int | None:
    return None if written is None else deadline_ms(written, created_ms=created_ms, milestones=milestones)


def _running(evidence: Evidence, origin_ms: int, capacity: Capacity) -> tuple[PlanJob, ...]:
    """Batch jobs that hold GPUs now: they keep them for as long as their family ran at most, else for a day."""
    longest = longest_runs(observed_jobs(evidence.accounting), evidence.promises)
    now_ms = last_seen_ms(evidence)
    held: dict[tuple[str, str, str], list[Holding]] = defaultdict(list)
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
        workload = pods[0].owner.workload
        promised = evidence.promises.jobs.get((namespace, name))
        known = longest.get((promised.family if promised else None) or workload, longest.get(workload))
        until = max(began + known, HOUR_MS) if known is not None else DAY_MS
        shape = Shape(
            flavor=resource.removeprefix("gpu/") if resource != "gpu" else None,
            demand={resource: sum(one.devices for one in pods)},
            duration_ms=until - began,
        )
        found.append(
            PlanJob(
                id=f"{namespace}/{name} (running)",
                shapes=(shape,),
                release_ms=began,
                started_ms=began,
                team=pods[0].owner.team,
                family=workload,
            )
        )
    return tuple(found)


def has_other_work(evidence: Evidence) -> bool:
    """Whether batch jobs ran in the last day that have no deadline, so that no plan of declared work holds them."""
    seen = Window(last_seen_ms(evidence) - DAY_MS, last_seen_ms(evidence) + 1)
    return any(
        (promised := evidence.promises.jobs.get((one.namespace, one.name))) is None or promised.limit_ms is None
        for one in observed_jobs(evidence.accounting)
        if one.created_ms + max(one.run_ms, 0) >= seen.from_ms
    )
