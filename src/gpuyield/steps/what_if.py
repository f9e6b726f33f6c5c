"""The same plan with changes, and what they do."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC
from pathlib import Path

from gpuyield.collect.kueue.manifests import holds_manifests
from gpuyield.declare.deadlines import deadline_ms, parse_deadline
from gpuyield.declare.jobs import JobTerms, parse_jobs
from gpuyield.declare.problem import gpu_resources
from gpuyield.declare.rows import read_rows
from gpuyield.declare.values import did_you_mean
from gpuyield.declare.yaml_file import read_file
from gpuyield.errors import DeclarationError, EvidenceError, Mistake
from gpuyield.model.declaration import Declaration
from gpuyield.model.evidence import Gap
from gpuyield.model.job import Capacity, PlanJob, PlanObjective, Problem, is_gpu
from gpuyield.report.answer import Answer
from gpuyield.report.screens.what_if import what_if_answer as answer_of
from gpuyield.steps.plan import command_line, make, read_named_problem
from gpuyield.steps.plan_cluster import cluster_work
from gpuyield.steps.setting import read_declaration
from gpuyield.steps.what_if_manifest import manifest_answer
from gpuyield.units import parse_zone

_TIME_LIMIT = "10s"


def what_if_answer(
    *,
    file: Path,
    ledger_root: Path,
    jobs: Path | None,
    capacity: Path | None,
    gpus: str | None,
    resource: str | None,
    add: Path | None,
    moves: tuple[str, ...],
    drops: tuple[str, ...],
    origin: str | None,
    seed: int,
) -> Answer:
    """The answer of `gpuyield what-if`."""
    declared = read_declaration(file)
    data = read_file(add) if add is not None else b""
    if add is not None and holds_manifests(data):
        beside = (("--jobs", jobs), ("--capacity", capacity), ("--gpus", gpus), ("--move", moves), ("--drop", drops))
        others = tuple(name for name, value in (*beside, ("--origin", origin)) if value)
        return manifest_answer(data, file=file, ledger_root=ledger_root, manifest=add, others=others, seed=seed)
    exist, more = _gpus(gpus)
    if capacity is not None and exist is not None:
        raise DeclarationError("the capacity file says what exists.", where="--gpus", fix="Write only the change: +8.")
    gaps: tuple[Gap, ...] = ()
    if capacity is None and exist is None:
        work = cluster_work(
            file=file, ledger_root=ledger_root, jobs=jobs, origin=origin, objective=PlanObjective.ON_TIME, resource=None
        )
        if work.problem is None:
            raise EvidenceError(
                "no job that was collected declares a deadline, so there is no plan to change.",
                where="--jobs",
                fix="Name jobs with --jobs FILE, or declare deadlines: gpuyield doctor lists what lacks one.",
            )
        before, gaps = work.problem, work.gaps
    elif jobs is None:
        raise DeclarationError("no jobs are named.", where="--jobs", fix="Write --jobs jobs.yaml.")
    else:
        before = read_named_problem(declared, jobs=jobs, capacity=capacity, gpus=exist, origin=origin)
    changed = before
    milestones = [move for move in moves if move.startswith("milestone:")]
    if milestones:
        if jobs is None or (capacity is None and exist is None):
            raise DeclarationError(
                "only those of a job file can be moved.",
                where="--move milestone",
                fix="Name --jobs FILE and --capacity FILE, or move jobs one by one: --move JOB=TIME.",
            )
        moved = replace(declared, milestones={**declared.milestones, **_moved_milestones(milestones, declared)})
        named = read_named_problem(moved, jobs=jobs, capacity=capacity, gpus=exist, origin=origin)
        changed = replace(named, origin_ms=before.origin_ms)
    changed = _with_jobs(changed, add, declared)
    changed = _without(changed, drops)
    changed = _moved(changed, [move for move in moves if move not in milestones], declared)
    changed = replace(changed, capacity=_with_gpus(changed.capacity, more, resource))
    if more and before.quotas:
        reason = "Quotas stay as they are: where they bind, more GPUs alone start nothing earlier."
        gaps = (*gaps, Gap(reason=reason, where="--gpus"))
    old = make(before, seed=seed, time_limit=_TIME_LIMIT)
    return answer_of(
        old.document,
        make(changed, seed=seed, time_limit=_TIME_LIMIT, start_from=old.plan).document,
        zone=parse_zone(declared.reporting_zone),
        again=command_line(jobs, capacity, exist, origin),
        gaps=gaps,
    )


def _gpus(text: str | None) -> tuple[int | None, int]:
    """GPUs that exist (None: the capacity file or the cluster says) and their change, of `4+4`, `+8`, `-2` or `4`."""
    if text is None:
        return None, 0
    found = re.fullmatch(r"(\d+)?([+-]\d+)?", text.strip(), re.ASCII)
    if not found or not text.strip():
        raise DeclarationError(f'"{text}" is no number of GPUs.', where="--gpus", fix="Write +8, -4, or 64+8.")
    exist, more = found.groups()
    return (None if exist is None else int(exist)), int(more or 0)


def _with_gpus(capacity: Capacity, more: int, resource: str | None) -> Capacity:
    """`resource` is the one that changes (None: there is only one)."""
    names = sorted(name for name in capacity.steps if is_gpu(name))
    if resource is not None and resource not in names:
        raise DeclarationError(
            f'there are no GPUs "{resource}".', where="--resource", fix=did_you_mean(resource, names)
        )
    if not more:
        return capacity
    if resource is None and len(names) != 1:
        raise DeclarationError(
            f"there are {len(names)} kinds of GPUs: {', '.join(names)}.",
            where="--gpus",
            fix=f"Say which: --resource {names[0]}." if names else "Name GPUs in the capacity file.",
        )
    name = resource or names[0]
    most = max(amount for _, amount in capacity.steps[name])
    if most + more < 0:
        raise DeclarationError(
            f"{-more} GPUs fewer, and no more than {most} exist.", where="--gpus", fix=f"Take away {most} at most."
        )
    steps = tuple((at, max(0, amount + more)) for at, amount in capacity.steps[name])
    return Capacity(steps={**capacity.steps, name: steps})


def _with_jobs(problem: Problem, add: Path | None, declared: Declaration) -> Problem:
    if add is None:
        return problem
    found = read_rows(add, read_file(add))
    terms = JobTerms(
        origin_ms=problem.origin_ms,
        zone=parse_zone(declared.reporting_zone),
        milestones=declared.milestones,
        gpu_resources=gpu_resources(problem.capacity),
        queues=[queue.queue for queue in problem.quotas],
    )
    new = parse_jobs(found, terms)
    known = {job.id for job in problem.jobs}
    twice = [job.id for job in new if job.id in known]
    if twice:
        raise DeclarationError(
            f'job "{twice[0]}" is there already.', where=str(add), fix="Give it another id, or --drop the other."
        )
    return replace(problem, jobs=(*problem.jobs, *new))


def _without(problem: Problem, drops: tuple[str, ...]) -> Problem:
    _check_known(problem, drops, "--drop")
    kept = [job for job in problem.jobs if job.id not in set(drops)]
    return replace(
        problem,
        jobs=tuple(replace(job, after=tuple(one for one in job.after if one not in set(drops))) for job in kept),
    )


def _moved(problem: Problem, moves: list[str], declared: Declaration) -> Problem:
    zone = parse_zone(declared.reporting_zone)
    wanted: dict[str, str] = {}
    for move in moves:
        name, sign, text = move.partition("=")
        if not sign:
            raise DeclarationError(f'"{move}" is no move.', where="--move", fix="Write JOB=2026-12-01T06:00:00Z.")
        wanted[name.strip()] = text
    _check_known(problem, tuple(wanted), "--move")

    def moved(job: PlanJob) -> PlanJob:
        if job.id not in wanted:
            return job
        label = f"--move {job.id}: deadline"
        written = parse_deadline(wanted[job.id], label=label, zone=zone, origin_ms=problem.origin_ms)
        created = problem.origin_ms + job.release_ms
        at_ms = deadline_ms(written, created_ms=created, milestones=declared.milestones) - problem.origin_ms
        return replace(job, deadline_ms=at_ms)

    return replace(problem, jobs=tuple(moved(job) for job in problem.jobs))


def _moved_milestones(moves: list[str], declared: Declaration) -> dict[str, int]:
    moved = {}
    for move in moves:
        name, sign, text = move.removeprefix("milestone:").partition("=")
        if not sign or name not in declared.milestones:
            raise DeclarationError(
                f'"{name}" is no milestone.', where="--move", fix=did_you_mean(name, list(declared.milestones))
            )
        written = parse_deadline(text, label="milestone", zone=parse_zone(declared.reporting_zone) or UTC)
        moved[name] = deadline_ms(written, created_ms=0, milestones=declared.milestones)
    return moved


def _check_known(problem: Problem, names: tuple[str, ...], where: str) -> None:
    known = [job.id for job in problem.jobs]
    mistakes = [
        Mistake(what=f'there is no job "{name}".', where=where, fix=did_you_mean(name, known))
        for name in names
        if name not in set(known)
    ]
    if mistakes:
        raise DeclarationError.of(mistakes)
