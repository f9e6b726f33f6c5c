"""The same plan with changes, and what they do."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC
from pathlib import Path

from gpuyield.declare.deadlines import deadline_ms, parse_deadline
from gpuyield.declare.jobs import JobTerms, parse_jobs
from gpuyield.declare.problem import gpu_resources
from gpuyield.declare.rows import read_rows
from gpuyield.declare.values import did_you_mean
from gpuyield.declare.yaml_file import read_file
from gpuyield.errors import DeclarationError, Mistake
from gpuyield.model.declaration import Declaration
from gpuyield.model.job import Capacity, PlanJob, Problem
from gpuyield.report.answer import Answer
from gpuyield.report.screens.what_if import what_if_answer as answer_of
from gpuyield.steps.plan import command_line, make, read_named_problem
from gpuyield.steps.setting import read_declaration
from gpuyield.units import parse_zone

_TIME_LIMIT = "10s"


def what_if_answer(
    *,
    file: Path,
    ledger_root: Path,
    jobs: Path | None,
    capacity: Path | None,
    gpus: str | None,
    add: Path | None,
    moves: tuple[str, ...],
    drops: tuple[str, ...],
    origin: str | None,
    seed: int,
) -> Answer:
    """The answer of `gpuyield what-if`."""
    declared = read_declaration(file)
    if jobs is None:
        raise DeclarationError("no jobs are named.", where="--jobs", fix="Write --jobs jobs.yaml.")
    base_gpus, more = _gpus(gpus, has_file=capacity is not None)
    milestones = dict(declared.milestones)
    before = read_named_problem(declared, jobs=jobs, capacity=capacity, gpus=base_gpus, origin=origin)
    origin_text = origin
    if any(move.startswith("milestone:") for move in moves):
        milestones.update(_moved_milestones(moves, declared))
    changed = read_named_problem(
        replace(declared, milestones=milestones), jobs=jobs, capacity=capacity, gpus=base_gpus, origin=origin_text
    )
    changed = replace(changed, origin_ms=before.origin_ms)
    changed = _with_jobs(changed, add, declared)
    changed = _without(changed, drops)
    changed = _moved(changed, [move for move in moves if not move.startswith("milestone:")], declared)
    changed = replace(changed, capacity=_with_gpus(changed.capacity, more))
    old = make(before, seed=seed, time_limit=_TIME_LIMIT)
    return answer_of(
        old.document,
        make(changed, seed=seed, time_limit=_TIME_LIMIT, start_from=old.plan).document,
        zone=parse_zone(declared.reporting_zone),
        again=command_line(jobs, capacity, base_gpus, origin),
    )


def _gpus(text: str | None, *, has_file: bool) -> tuple[int | None, int]:
    """GPUs that exist (None: the capacity file says) and the change of them, of `4+4`, `+8`, `-2` or `4`."""
    if text is None:
        return None, 0
    found = re.fullmatch(r"(\d+)?([+-]\d+)?", text.strip())
    if not found or not text.strip():
        raise DeclarationError(f'"{text}" is no number of GPUs.', where="--gpus", fix="Write +8, -4, or 64+8.")
    exist, more = found.groups()
    if has_file and exist is not None:
        raise DeclarationError("the capacity file says what exists.", where="--gpus", fix="Write only the change: +8.")
    if not has_file and exist is None:
        raise DeclarationError(
            "nothing says how many GPUs exist.", where="--gpus", fix=f"Write 64{text.strip()}, or add --capacity FILE."
        )
    return (None if exist is None else int(exist)), int(more or 0)


def _with_gpus(capacity: Capacity, more: int) -> Capacity:
    if not more:
        return capacity
    names = [name for name in capacity.steps if name == "gpu" or name.startswith("gpu/")]
    if len(names) != 1:
        raise DeclarationError(
            f"capacity has {len(names)} GPU resources: {', '.join(names)}.",
            where="--gpus",
            fix="Change the capacity file instead.",
        )
    name = names[0]
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
        written = parse_deadline(wanted[job.id], label="deadline", zone=zone, origin_ms=problem.origin_ms)
        created = problem.origin_ms + job.release_ms
        at_ms = deadline_ms(written, created_ms=created, milestones=declared.milestones) - problem.origin_ms
        return replace(job, deadline_ms=at_ms)

    return replace(problem, jobs=tuple(moved(job) for job in problem.jobs))


def _moved_milestones(moves: tuple[str, ...], declared: Declaration) -> dict[str, int]:
    moved = {}
    for move in moves:
        if not move.startswith("milestone:"):
            continue
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
