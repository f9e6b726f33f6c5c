"""What the readings of a probe amount to, held against what the client saw. No I/O here."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from gpuyield.model.evidence import Gap
from gpuyield.model.measure import NANOS, NEVER_NS, SECOND_NS, Phase, ProbePlan, Records, ResponseStatus
from gpuyield.model.witness import (
    GpuReading,
    GpuWitness,
    Histogram,
    SeenLatency,
    ServerReading,
    ServerWitness,
    Spread,
    Witness,
)

_FEWEST = 20
"""Fewer first tokens say nothing of their median."""

_NEAR, _NEAR_S = 1.25, 0.02
"""A median of the client's that is longer than the server's by more is worth a remark."""

_MANY, _MANY_SHARE = 5, 0.05
"""So many requests of others are worth a remark; fewer may be those at the edges of the span."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Readings:
    """What was read during a probe, in the order of time. `why_*` say what failed, empty where nothing did."""

    server: Sequence[ServerReading] = ()
    gpu: Sequence[GpuReading] = ()
    why_server: str = ""
    why_gpu: str = ""


@dataclass(frozen=True, slots=True)
class _Span:
    from_ns: int
    to_ns: int

    def has(self, at_ns: int) -> bool:
        return self.from_ns <= at_ns < self.to_ns


def witness_of(readings: Readings, plan: ProbePlan, records: Records) -> Witness:
    """The witnesses of a probe, over the span whose requests are judged (of a burst: as long as it is served)."""
    ends = records.end_ns[records.end_ns >= 0]
    last_ns = int(ends.max()) if len(ends) else plan.sending_ns
    if plan.phase is Phase.CEILING:
        span = _Span(0, max(last_ns, 1))
    else:
        span = _Span(plan.warmup_ns, plan.warmup_ns + plan.measured_ns)
    gaps: list[Gap] = []
    if readings.why_server:
        gaps.append(Gap(reason=readings.why_server, where="witness.server"))
    if readings.why_gpu:
        gaps.append(Gap(reason=readings.why_gpu, where="witness.gpu"))
    remarks: list[str] = []
    server = _server(readings.server, span, records, remarks, gaps)
    gpu = _gpu(readings.gpu, span)
    if readings.gpu and gpu is None:
        reason = "the GPU exporter told nothing new during the probe: it reads the GPUs too seldom"
        gaps.append(Gap(reason=reason, where="witness.gpu"))
    return Witness(server=server, gpu=gpu, remarks=tuple(remarks), gaps=tuple(gaps))


def other_gpus(before: Sequence[Witness | None], now: Witness) -> str:
    """Why the GPUs are not those of the probes before, in a sentence; empty where they are, or nobody tells."""
    told = [one.gpu.models for one in (*before, now) if one is not None and one.gpu is not None and one.gpu.models]
    # A scrape that fell outside of a probe hides cards: fewer of the same are no change.
    if now.gpu is None or not now.gpu.models or set(told[0]) == set(now.gpu.models):
        return ""
    return f"The GPUs changed: {_words(told[0])} in a probe before, {_words(now.gpu.models)} in this one."


def _words(models: Mapping[str, int]) -> str:
    return ", ".join(f"{number} {model}" for model, number in sorted(models.items()))


def growth(before: Histogram, after: Histogram) -> SeenLatency | None:
    """What was counted between two readings; None of nothing, and where a counter fell."""
    if before.edges_s != after.edges_s:
        return None
    counts = [late - early for early, late in zip(before.counts, after.counts, strict=True)]
    total = counts[-1]
    if total < 1 or min(counts) < 0 or counts != sorted(counts):
        return None
    at = next(at for at, count in enumerate(counts) if count >= total / 2)
    edge = after.edges_s[at]
    return SeenLatency(
        n=round(total),
        mean_s=(after.sum_s - before.sum_s) / total,
        p50_over_s=after.edges_s[at - 1] if at else 0.0,
        p50_at_most_s=edge if math.isfinite(edge) else None,
    )


def _server(
    readings: Sequence[ServerReading], span: _Span, records: Records, remarks: list[str], gaps: list[Gap]
) -> ServerWitness | None:
    inside = [one for one in readings if span.has(one.at_ns)]
    if not inside:
        return None
    found = ServerWitness(
        readings=len(inside),
        running=_spread([one.running for one in inside]),
        waiting=_spread([one.waiting for one in inside]),
        kv_used=_spread([one.kv_used for one in inside]),
    )
    before = next((one for one in reversed(readings) if one.at_ns <= span.from_ns), inside[0])
    after = next((one for one in readings if one.at_ns >= span.to_ns), readings[-1])
    if before.at_ns >= after.at_ns:
        return found
    if len({one.started for one in readings if before.at_ns <= one.at_ns <= after.at_ns}) > 1:
        reason = "several servers answered under the same address, so their counters cannot be compared"
        gaps.append(Gap(reason=reason, where="witness.server"))
        return found
    between = _Span(before.at_ns, after.at_ns)
    finished = _grown(before.finished, after.finished)
    ended = int(_within(records.end_ns, between).sum())
    ttft = None if before.ttft is None or after.ttft is None else growth(before.ttft, after.ttft)
    tpot = None if before.tpot is None or after.tpot is None else growth(before.tpot, after.tpot)
    others = None if finished is None else max(0, finished - ended)
    if others is not None and others > max(_MANY, _MANY_SHARE * ended):
        remarks.append(
            f"The server finished {finished:,} requests and {ended:,} were ours: somebody else sends load to it too."
        )
    elif ttft is not None:
        remarks += _other_ttft(ttft, records, between)
    return ServerWitness(
        readings=found.readings,
        running=found.running,
        waiting=found.waiting,
        kv_used=found.kv_used,
        finished=finished,
        others=others,
        ttft=ttft,
        tpot=tpot,
    )


def _other_ttft(seen: SeenLatency, records: Records, span: _Span) -> list[str]:
    """Where the client's median time to the first token, from sending, is far from the server's."""
    ours = _within(records.first_ns, span) & (records.status == ResponseStatus.OK)
    if min(int(ours.sum()), seen.n) < _FEWEST:
        return []
    median_s = float(np.median((records.first_ns - records.sent_ns)[ours])) / SECOND_NS
    if seen.p50_at_most_s is not None and median_s > _NEAR * seen.p50_at_most_s + _NEAR_S:
        told = (
            f"The client waited {_ms(median_s)} for the first token (median, from sending), the server counts at most "
            f"{_ms(seen.p50_at_most_s)}: the rest lies between them, in the network, a gateway, or a queue before it."
        )
        return [told]
    if median_s < seen.p50_over_s / _NEAR - _NEAR_S:
        told = (
            f"The server counts more than {_ms(seen.p50_over_s)} to the first token (median), the client waited "
            f"{_ms(median_s)}: they do not count the same."
        )
        return [told]
    return []


def _gpu(readings: Sequence[GpuReading], span: _Span) -> GpuWitness | None:
    """Of readings that say something new: one repeated by its exporter may be of before."""
    by_exporter: dict[str, list[GpuReading]] = defaultdict(list)
    for one in readings:
        by_exporter[one.exporter].append(one)
    fresh = [
        after
        for of in by_exporter.values()
        for before, after in pairwise(of)
        if after.mark != before.mark and after.busy
    ]
    inside = [one for one in fresh if span.has(one.at_ns)]
    if not inside:
        return None
    cards = sorted({card for one in inside for card in one.busy})
    means = [float(np.mean([one.busy[card] for one in inside if card in one.busy])) for card in cards]
    model_of = {card: model for one in inside for card, model in one.models.items() if model}
    return GpuWitness(
        metric=inside[-1].metric,
        gpus=len(cards),
        readings=len(inside),
        busy=float(np.mean(means)),
        least=min(means),
        most=max(means),
        models=dict(Counter(sorted(model_of[card] for card in cards))) if model_of.keys() >= set(cards) else {},
    )


def _spread(values: Sequence[float | None]) -> Spread | None:
    known = [one for one in values if one is not None]
    return Spread(mean=float(np.mean(known)), most=max(known)) if known else None


def _grown(before: float | None, after: float | None) -> int | None:
    return None if before is None or after is None or after < before else round(after - before)


def _within(times_ns: NANOS, span: _Span) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    return np.asarray((times_ns != NEVER_NS) & (times_ns >= span.from_ns) & (times_ns < span.to_ns))


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.4g} ms"
