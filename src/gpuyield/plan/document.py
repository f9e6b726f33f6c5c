"""The plan as JSON (contracts, section 3) and its canonical inputs."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any  # JSON has no narrower type than this.

from gpuyield.model.document import canonical_bytes, inputs_digest, schema_name
from gpuyield.model.duration import FamilyDuration
from gpuyield.model.job import Amounts, PlanJob, PlanObjective, Problem, QueueQuota, Shape
from gpuyield.model.plan import (
    AddGpus,
    Drop,
    GpuNeed,
    JobStatus,
    MoveDeadline,
    NodeReplay,
    Plan,
    PlannedJob,
    Relaxation,
    Run,
)
from gpuyield.plan.instance.board import gpus_of
from gpuyield.plan.proof.impossible import seconds
from gpuyield.units import format_instant

ENGINE = {"name": "gpuyield-python", "version": "1"}


def plan_inputs(
    problem: Problem, *, prices: Mapping[str, Decimal] | None = None, currency: str | None = None
) -> dict[str, Any]:
    """The canonical inputs: integers and decimal strings only, jobs sorted by id; `currency` is that of the prices."""
    inputs: dict[str, Any] = {
        "schema": schema_name("plan-inputs"),
        "origin_ms": problem.origin_ms,
        "objective": str(problem.objective),
        "resource": problem.resource,
        "jobs": [_job_inputs(job) for job in sorted(problem.jobs, key=lambda job: job.id)],
        "capacity": {name: [list(step) for step in steps] for name, steps in problem.capacity.steps.items()},
        "sources": [{"path": source.path, "sha256": source.sha256, "rows": source.rows} for source in problem.sources],
    }
    if problem.quotas:
        inputs["quotas"] = [_quota_inputs(queue) for queue in sorted(problem.quotas, key=lambda one: one.queue)]
    if prices is not None:
        inputs["prices"] = {name: format(price, "f") for name, price in prices.items()}
        inputs["currency"] = currency
    return inputs


def _quota_inputs(queue: QueueQuota) -> dict[str, Any]:
    def said(amounts: Amounts | None) -> int | list[list[int]] | None:
        return amounts if amounts is None or isinstance(amounts, int) else [list(step) for step in amounts]

    return {
        "queue": queue.queue,
        "cohort": queue.cohort,
        "resources": {
            name: {"nominal": said(quota.nominal), "borrow": said(quota.borrow), "lend": said(quota.lend)}
            for name, quota in queue.resources.items()
        },
    }


def _job_inputs(job: PlanJob) -> dict[str, Any]:
    return {
        "id": job.id,
        "shapes": [
            {"flavor": shape.flavor, "demand": dict(shape.demand), "duration_ms": shape.duration_ms}
            for shape in job.shapes
        ],
        "release_ms": job.release_ms,
        "deadline_ms": job.deadline_ms,
        "due_ms": job.due_ms,
        "weight": format(job.weight.normalize(), "f"),
        "after": sorted(set(job.after)),
        "restart_ms": job.restart_ms,
        "started_ms": job.started_ms,
        "pinned_ms": job.pinned_ms,
        "queue": job.queue,
        "team": job.team,
        "family": job.family,
        **({"spread_ms": list(job.spread_ms)} if job.spread_ms else {}),
    }


def plan_document(
    problem: Problem,
    plan: Plan,
    *,
    prices: Mapping[str, Decimal] | None = None,
    currency: str | None = None,
    digest: str | None = None,
) -> dict[str, Any]:
    """The document; its `inputs_digest` is that of the canonical inputs' bytes.

    `prices` are those that the plan was made with, if any, in this `currency`; `digest` is that of its inputs, where
    it is known.
    """
    jobs = {job.id: job for job in problem.jobs}
    runs = {one.id: one.run for one in plan.jobs if one.run is not None}
    say = _Say(problem, jobs, runs)
    objective = plan.objective
    document: dict[str, Any] = {
        "schema": schema_name("plan"),
        "status": str(plan.status),
        "origin": format_instant(problem.origin_ms),
        "objective": {
            "name": objective.name,
            "value": _figure(objective.name, objective.value),
            "bound": _figure(objective.name, objective.bound),
            "gap": None if objective.gap is None else float(objective.gap),
            **({"currency": currency} if objective.name == PlanObjective.CHEAPEST else {}),
        },
        "gpus": {
            need.resource: {"available": need.available, "needed": need.needed, "lower_bound": need.lower_bound}
            for need in plan.gpus
        },
        "on_time": {
            "weighted": _ratio(plan.on_time.weighted),
            "jobs": _ratio(plan.on_time.jobs),
            "gpu_time": _ratio(plan.on_time.gpu_time),
        },
        "jobs": [say.job(one) for one in _impossible_first(plan)],
        "certificate": None if plan.certificate is None else dict(plan.certificate),
        "bounds": _bounds(plan),
        "witness": {"needed": say.needed(plan.gpus)},
        "proof": None,
        "explanation": list(plan.explanation),
        "relaxations": [say.relaxation(one) for one in plan.relaxations],
        "peak_if_started_at_once": dict(plan.peak_if_started_at_once),
        **({"placement": [say.nodes(one) for one in plan.nodes]} if plan.nodes else {}),
        **({"durations": [_duration(one) for one in problem.families]} if problem.families else {}),
        "inputs_digest": digest
        or inputs_digest(canonical_bytes(plan_inputs(problem, prices=prices, currency=currency))),
        "seed": plan.seed,
        "stopped_because": str(plan.stopped_because),
        "engine": dict(ENGINE),
    }
    if plan.proof is not None:
        document["proof"] = {"by": plan.proof.by, "claim": plan.proof.claim, "bound": _ratio(plan.proof.bound)}
    return document


def _impossible_first(plan: Plan) -> list[PlannedJob]:
    return sorted(plan.jobs, key=lambda one: (one.status is not JobStatus.IMPOSSIBLE, one.id))


def _figure(objective: str, value: Fraction | None) -> int | float | str | None:
    if value is None:
        return None
    if objective == PlanObjective.CHEAPEST:
        return format(Decimal(value.numerator) / Decimal(value.denominator), "f")
    if objective != PlanObjective.ON_TIME and value.denominator == 1:
        return value.numerator
    return float(value)


def _ratio(value: Fraction | None) -> float | None:
    return None if value is None else float(value)


def _bounds(plan: Plan) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [
        {"claim": f"gpus.{need.resource}.lower_bound", "certificate": dict(need.certificate)}
        for need in plan.gpus
        if need.certificate is not None and need.lower_bound is not None
    ]
    if plan.objective.certificate is not None and plan.objective.bound is not None:
        found.append({"claim": "objective.bound", "certificate": dict(plan.objective.certificate)})
    return found


def _duration(one: FamilyDuration) -> dict[str, Any]:
    """Where the run times of a family come from, and how often they were kept."""

    def said(length_ms: int | None) -> int | float | None:
        return None if length_ms is None else seconds(length_ms)

    return {
        "family": one.family,
        "basis": str(one.basis),
        "runs": one.runs,
        "quantile": one.quantile,
        "planned_s": said(one.planned_ms),
        "p50_s": said(one.p50_ms),
        "p70_s": said(one.p70_ms),
        "p90_s": said(one.p90_ms),
        "mean_s": said(one.mean_ms),
        "forecasts": one.forecasts,
        "coverage": one.coverage,
        "overran": one.overran,
    }


class _Say:
    """Jobs and witnesses as JSON."""

    def __init__(self, problem: Problem, jobs: Mapping[str, PlanJob], runs: Mapping[str, Run]) -> None:
        self.problem, self.jobs, self.runs = problem, jobs, runs

    def instant(self, at_ms: int) -> str:
        return format_instant(self.problem.origin_ms + at_ms)

    def job(self, one: PlannedJob) -> dict[str, Any]:
        job = self.jobs[one.id]
        shape = self._shape(job, one.run)
        return {
            "id": one.id,
            "flavor": None if shape is None else shape.flavor,
            "gpus": None if shape is None else gpus_of(shape),
            "segments": [] if one.run is None else self._segments(one.run),
            "deadline": None if job.deadline_ms is None else self.instant(job.deadline_ms),
            "due": None if job.due_ms is None else self.instant(job.due_ms),
            "slack_s": None if one.slack_ms is None else seconds(one.slack_ms),
            "late_s": seconds(one.late_ms),
            "p_late": _ratio(one.p_late),
            "status": str(one.status),
            "why": one.why,
            "moved_because": one.moved_because,
        }

    def _shape(self, job: PlanJob, run: Run | None) -> Shape | None:
        if run is not None:
            return job.shapes[run.shape]
        return job.shapes[0] if len(job.shapes) == 1 else None

    def _segments(self, run: Run) -> list[list[str]]:
        return [[self.instant(start_ms), self.instant(end_ms)] for start_ms, end_ms in run.segments]

    def nodes(self, one: NodeReplay) -> dict[str, Any]:
        """The plan on the nodes of a flavor."""
        return {
            "flavor": one.flavor,
            "nodes": one.nodes,
            "gpus": one.gpus,
            "unplaced": list(one.unplaced),
            "unplaced_share": float(one.unplaced_share),
            "spare_nodes": one.spare_nodes,
            "unused": list(one.unused),
            "fragmentation": {
                "most_gpus": one.fragmentation.most_gpus,
                "at": self.instant(one.fragmentation.at_ms) if one.fragmentation.most_gpus else None,
                "share": float(one.fragmentation.share),
            },
            "where": {job: [list(held) for held in taken] for job, taken in one.where.items()},
        }

    def needed(self, needs: tuple[GpuNeed, ...]) -> dict[str, Any]:
        """Flat for one resource, by resource for several; only what differs from the plan."""
        if len(needs) == 1:
            return self.witness(needs[0].witness)
        return {need.resource: self.witness(need.witness) for need in needs if need.needed is not None}

    def witness(self, runs: Mapping[str, Run]) -> dict[str, Any]:
        """What differs from the plan: a start, or the whole run where the shape would not be clear."""
        found: dict[str, Any] = {}
        for name in sorted(runs):
            run, planned = runs[name], self.runs.get(name)
            if run == planned:
                continue
            job = self.jobs[name]
            if not run.parts and ((planned is not None and planned.shape == run.shape) or len(job.shapes) == 1):
                found[name] = self.instant(run.start_ms)
            else:
                shape = job.shapes[run.shape]
                found[name] = {
                    "flavor": shape.flavor,
                    "gpus": gpus_of(shape),
                    "segments": self._segments(run),
                }
        return found

    def relaxation(self, one: Relaxation) -> dict[str, Any]:
        found: dict[str, Any]
        match one:
            case AddGpus():
                found = {
                    "kind": "add-gpus",
                    "resource": one.resource,
                    "amount": one.amount,
                    "from": self.instant(one.from_ms),
                    "to": self.instant(one.to_ms),
                }
            case MoveDeadline():
                found = {
                    "kind": "move-deadline",
                    "jobs": [{"id": name, "by_s": seconds(by)} for name, by in one.jobs],
                }
            case Drop():
                found = {"kind": "drop", "jobs": list(one.jobs)}
        found["witness"] = self.witness(one.witness)
        found["irreducible"] = one.irreducible
        if one.less:
            found["certificates"] = [dict(less.certificate) for less in one.less]
        return found
