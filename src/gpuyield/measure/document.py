"""The measure document and its canonical inputs (contracts, section 6).

The inputs hold, for each probe, integer counts per batch; every bound, status and rate of the document follows from
them, except the estimate, what limits, and what rests on the raw records (quantiles, goodput).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any  # a JSON document

from gpuyield.measure.recorded import Likeness
from gpuyield.measure.rules import ALPHA, CONFIDENCE
from gpuyield.measure.search import Settings
from gpuyield.measure.witness_document import busy_and_more, witness_document, witness_gaps
from gpuyield.model.declaration import Objective
from gpuyield.model.document import canonical_bytes, decimal_text, gaps_document, inputs_digest, schema_name
from gpuyield.model.evidence import Gap
from gpuyield.model.measure import SECOND_NS, Measurement, Phase, Probe, ProbeStatus, Quantiles, Tally
from gpuyield.model.objective_inputs import objective_inputs
from gpuyield.units import format_instant


@dataclass(frozen=True, slots=True, kw_only=True)
class RawSource:
    """A file that was read or written, as canonical inputs list it."""

    path: str
    sha256: str
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What was measured, and when: `config` is what was held fixed, None where it could not be read.

    `likeness` is what was sent beside what is recorded of the service, `load` what was sent in words and as a digest;
    None where nobody looked.
    """

    service: str
    arrival: str
    started_at_ms: int
    expires_at_ms: int | None = None
    config: Mapping[str, Any] = field(default_factory=dict)
    config_digest: str | None = None
    replicas: int | None = None
    gpus_per_replica: int | None = None
    likeness: Likeness | None = None
    load: Mapping[str, Any] | None = None
    sources: tuple[RawSource, ...] = ()
    gaps: tuple[Gap, ...] = ()


def measure_inputs(subject: Subject, settings: Settings, found: Measurement) -> dict[str, Any]:
    """The canonical inputs: integers and decimal strings only."""
    rules = settings.rules
    return {
        "schema": schema_name("measure-inputs"),
        "service": subject.service,
        "level": str(settings.level),
        "seed": settings.seed,
        "max_rate_rps": decimal_text(settings.max_rps),
        "alpha": decimal_text(ALPHA),
        "tries": [decimal_text(one) for one in rules.tries],
        "refutes": rules.refutes,
        "replicas": subject.replicas,
        "gpus_per_replica": subject.gpus_per_replica,
        "config_digest": subject.config_digest,
        "load": None if subject.load is None else dict(subject.load),
        "profiles": None if subject.likeness is None else subject.likeness.inputs,
        "objectives": [objective_inputs(one) for one in settings.objectives],
        "probes": [_probe_inputs(one) for one in found.probes],
        "sources": [{"path": one.path, "sha256": one.sha256, "rows": one.rows} for one in subject.sources],
    }


def measure_document(subject: Subject, settings: Settings, found: Measurement) -> dict[str, Any]:
    """The document; `inputs_digest` is that of `measure_inputs`."""
    inputs = measure_inputs(subject, settings, found)
    return {
        "schema": schema_name("measure"),
        "service": subject.service,
        "started_at": format_instant(subject.started_at_ms),
        "config": dict(subject.config) | {"digest": subject.config_digest},
        "objectives": [_objective(one) for one in settings.objectives],
        "arrival": subject.arrival,
        "representative": None if subject.likeness is None else subject.likeness.document,
        "load": None if subject.load is None else dict(subject.load),
        "level": str(settings.level),
        "probes": [_probe(one) for one in found.probes],
        "result": _result(subject, found),
        "busy_and_more": busy_and_more(found),
        "gaps": gaps_document((*subject.gaps, *witness_gaps(found.probes))),
        "inputs_digest": inputs_digest(canonical_bytes(inputs)),
    }


def _result(subject: Subject, found: Measurement) -> dict[str, Any]:
    gpus = (
        None
        if subject.replicas is None or subject.gpus_per_replica is None
        else (subject.replicas * subject.gpus_per_replica)
    )
    per_gpu = found.certified_rps / gpus if found.certified_rps is not None and gpus else None
    return {
        "certified_rps": found.certified_rps,
        "refuted_rps": found.refuted_rps,
        "estimate_rps": found.estimate_rps,
        "confidence": CONFIDENCE,
        "limited_by": found.limited_by,
        "replicas": subject.replicas,
        "gpus_per_replica": subject.gpus_per_replica,
        "certified_rps_per_gpu": per_gpu,
        "stopped_because": str(found.stop),
        "expires_at": None if subject.expires_at_ms is None else format_instant(subject.expires_at_ms),
    }


def _probe(probe: Probe) -> dict[str, Any]:
    plan, health = probe.plan, probe.health
    measured_s = plan.measured_ns / SECOND_NS
    steady = plan.phase is not Phase.CEILING
    return {
        "phase": str(plan.phase),
        "seed": plan.seed,
        "rate_rps": plan.rate_rps,
        "requests": probe.requests,
        "completed": probe.completed,
        "failed": probe.failed,
        "duration_s": probe.duration_s,
        "warmup_s": plan.warmup_ns / SECOND_NS,
        "measured_s": measured_s,
        "drain_s": probe.drain_s,
        "achieved_rps": probe.requests / measured_s if steady else probe.served_rps,
        "goodput_rps": probe.good / measured_s if steady else None,
        **{f"{name}_s": _quantiles(probe.latencies.get(name)) for name in ("ttft", "tpot", "itl", "e2e")},
        **{f"{name}_s": _quantiles(probe.latencies.get(name)) for name in ("ttft_sent", "e2e_sent")},
        "attainment": {one.objective: _attainment(one) for one in probe.tallies} if steady else {},
        "backlog": {"grows": probe.backlog.grows, "slope": probe.backlog.slope},
        "sender": {
            "lag_p99_s": health.lag_p99_s,
            "loop_lag_p99_s": health.loop_lag_p99_s,
            "throttled_s": health.throttled_s,
            "ceiling_share": health.ceiling_share,
            "valid": health.valid,
        },
        "status": str(probe.status),
        "reason": probe.reason,
        "witness": witness_document(probe.witness),
    }


def _attainment(tally: Tally) -> dict[str, Any]:
    """Of the share that met the objective; `pending` are neither met nor missed."""
    total = sum(tally.attempts)
    return {
        "met": total - sum(tally.misses) - sum(tally.pending),
        "n": total,
        "pending": sum(tally.pending),
        "n_eff": tally.bounds.n_eff,
        "inflation": tally.bounds.inflation,
        "lo": 1 - tally.bounds.hi,
        "hi": 1 - tally.bounds.lo,
    }


def _quantiles(found: Quantiles | None) -> dict[str, float] | None:
    return None if found is None else {"p50": found.p50, "p90": found.p90, "p95": found.p95, "p99": found.p99}


def _objective(one: Objective) -> dict[str, Any]:
    return {
        "name": one.name,
        "metric": None if one.metric is None else str(one.metric),
        "check": one.check,
        "at_most_s": None if one.at_most_us is None else one.at_most_us / 1e6,
        "at_least": None if one.score_at_least is None else float(one.score_at_least),
        "at_most": None if one.score_at_most is None else float(one.score_at_most),
        "share": float(one.share),
    }


def _probe_inputs(probe: Probe) -> dict[str, Any]:
    plan = probe.plan
    return {
        "phase": str(plan.phase),
        "seed": plan.seed,
        "rate_rps": decimal_text(plan.rate_rps),
        "warmup_ns": plan.warmup_ns,
        "batch_ns": plan.batch_ns,
        "valid": probe.status is not ProbeStatus.INVALID,
        "requests": probe.requests,
        "completed": probe.completed,
        "failed": probe.failed,
        "attainment": {one.objective: _counts(one) for one in probe.tallies},
        "in_flight": list(probe.backlog.in_flight),
        "late_arrivals": probe.backlog.late_arrivals,
        "late_completions": probe.backlog.late_completions,
    }


def _counts(tally: Tally) -> dict[str, Sequence[int]]:
    return {"attempts": list(tally.attempts), "misses": list(tally.misses), "pending": list(tally.pending)}
