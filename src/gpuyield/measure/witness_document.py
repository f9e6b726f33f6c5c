"""Witnesses in the measure document, and the sentence that they exist for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any  # a JSON document

from gpuyield.model.evidence import Gap
from gpuyield.model.measure import Measurement, Phase, Probe, ProbeStatus
from gpuyield.model.witness import GpuWitness, SeenLatency, ServerWitness, Spread, Witness

_NOT_READ = Gap(
    reason="how busy the GPUs were was not read: name their exporter with --gpu-metrics URL", where="witness.gpu"
)
_FULL = 0.8
"""GPUs that look full: what a dashboard shows in red."""


def witness_document(seen: Witness | None) -> dict[str, Any] | None:
    """What others saw of a probe; None where nobody looked on."""
    if seen is None:
        return None
    return {
        "server": None if seen.server is None else _server(seen.server),
        "gpu": None if seen.gpu is None else asdict(seen.gpu),
        "remarks": list(seen.remarks),
    }


def busy_and_more(found: Measurement) -> dict[str, Any] | None:
    """How busy the GPUs were at a rate below the certified one, and how many more requests are certified.

    Of the probes below the certified rate in which the GPUs look full (80 % busy) the one at the lowest rate; None
    without such a one.
    """
    if found.certified_rps is None:
        return None
    full = [
        one
        for one in found.probes
        if one.plan.phase is not Phase.CEILING
        and one.status in (ProbeStatus.PASS, ProbeStatus.UNDECIDED)
        and one.plan.rate_rps < found.certified_rps
        and (gpu := _gpu_of(one)) is not None
        and gpu.busy >= _FULL
    ]
    if not full:
        return None
    probe = min(full, key=lambda one: one.plan.rate_rps)
    gpu = _gpu_of(probe)
    assert gpu is not None
    return {
        "rate_rps": probe.plan.rate_rps,
        "gpu_busy": gpu.busy,
        "gpus": gpu.gpus,
        "metric": gpu.metric,
        "more_requests": found.certified_rps / probe.plan.rate_rps - 1,
    }


def witness_gaps(probes: Sequence[Probe]) -> tuple[Gap, ...]:
    """What the witnesses of a search did not see, each once; a burst is too short for them."""
    seen = [one.witness for one in probes if one.witness is not None and one.plan.phase is not Phase.CEILING]
    gaps = list(dict.fromkeys(gap for one in seen for gap in one.gaps))
    if seen and all(one.gpu is None for one in seen) and not any(gap.where == _NOT_READ.where for gap in gaps):
        gaps.append(_NOT_READ)
    return tuple(gaps)


def witness_remarks(probes: Sequence[Probe]) -> list[str]:
    """Where a witness contradicts the client, each remark once."""
    return list(dict.fromkeys(line for one in probes if one.witness is not None for line in one.witness.remarks))


def _gpu_of(probe: Probe) -> GpuWitness | None:
    return None if probe.witness is None else probe.witness.gpu


def _server(seen: ServerWitness) -> dict[str, Any]:
    return {
        "readings": seen.readings,
        **{name: _spread(getattr(seen, name)) for name in ("running", "waiting", "kv_used")},
        "finished": seen.finished,
        "others": seen.others,
        "ttft_s": _latency(seen.ttft),
        "tpot_s": _latency(seen.tpot),
    }


def _spread(seen: Spread | None) -> Mapping[str, float] | None:
    return None if seen is None else asdict(seen)


def _latency(seen: SeenLatency | None) -> dict[str, Any] | None:
    if seen is None:
        return None
    return {"n": seen.n, "mean": seen.mean_s, "p50_over": seen.p50_over_s, "p50_at_most": seen.p50_at_most_s}
