"""Servers in virtual time of several shapes, and their true capacity by a long simulation: what the search is held to.

Each shape has one objective that binds. Lengths are drawn once, from the seed of the shape.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal

import numpy as np

from gpuyield.measure.arrivals import Gamma, Poisson, Process, Schedule
from gpuyield.measure.objectives import marks
from gpuyield.measure.simulator import Engine, EngineKind, RequestSet, Simulator, serve
from gpuyield.model.declaration import Metric, Objective
from gpuyield.model.measure import NANOS, SECOND_NS, Phase, ProbePlan

MS = 1_000_000
_REQUESTS = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A server, what is sent to it, and what it must keep; `guess_rps` is far above what it can do."""

    name: str
    engine: Engine
    requests: RequestSet
    objective: Objective
    guess_rps: float
    process: Process = field(default_factory=Poisson)

    def bench(self) -> Simulator:
        """The server in virtual time."""
        return Simulator(engine=self.engine, requests=self.requests)

    def schedule(self) -> Schedule:
        """How requests arrive."""
        return Schedule(process=self.process, requests=len(self.requests))

    def miss_share(self, rate_rps: float, *, seconds: float, seed: int) -> float:
        """The share of misses in a long run at a rate, after a tenth of it as warm-up."""
        span_ns = round(seconds * SECOND_NS)
        plan = ProbePlan(
            number=0,
            phase=Phase.SEARCH,
            seed=seed,
            rate_rps=rate_rps,
            warmup_ns=span_ns // 10,
            batch_ns=span_ns,
            batches=1,
            runout_ns=0,
            drain_ns=span_ns,
        )
        arrivals = self.schedule().arrivals(plan)
        records = serve(self.engine, self.requests, arrivals, seed=seed)
        missed = marks(self.objective, records, give_up_ns=plan.sending_ns + plan.drain_ns).missed
        return float(missed[records.scheduled_ns >= plan.warmup_ns].mean())


def true_capacity(shape: Shape, *, seconds: float, seeds: Sequence[int]) -> float:
    """The rate at which as many miss as may, by halving over long runs with the same draws at every rate."""
    low, high = 0.0, shape.guess_rps
    allowed = float(1 - shape.objective.share)
    for _ in range(14):
        middle = (low + high) / 2
        share = np.mean([shape.miss_share(middle, seconds=seconds, seed=seed) for seed in seeds])
        low, high = (low, middle) if share > allowed else (middle, high)
    return (low + high) / 2


def shapes() -> tuple[Shape, ...]:
    """Slots, interference by prompts (TTFT, TPOT), mixed lengths, heavy tails, bursts, a strict percentile, quality."""
    slots = Engine(kind=EngineKind.SLOTS, slots=16, step_ns=MS, per_prompt_token_ns=49 * MS)
    short = np.ones(_REQUESTS, np.int64)
    answers = RequestSet(prompt_tokens=short, output_tokens=_lognormal(5, mean=950, cv=1.0))
    chat = RequestSet(
        prompt_tokens=_lognormal(6, mean=500, cv=1.0), output_tokens=_lognormal(7, mean=100, cv=0.7), jitter=0.2
    )
    graded = Engine(
        kind=EngineKind.SLOTS,
        slots=16,
        step_ns=MS,
        per_prompt_token_ns=49 * MS,
        checks={"resolved": (0.97, 0.70)},
        rushed_ns=600 * MS,
    )
    return (
        Shape(name="slots", engine=slots, requests=answers, objective=_within(Metric.TTFT, 1_050), guess_rps=40),
        Shape(name="prefill", engine=_batching(32), requests=chat, objective=_within(Metric.TTFT, 800), guess_rps=40),
        Shape(name="tpot", engine=_batching(128), requests=chat, objective=_within(Metric.TPOT, 30), guess_rps=40),
        Shape(name="mix", engine=_batching(48), requests=_mixed(), objective=_within(Metric.TTFT, 1_000), guess_rps=40),
        Shape(
            name="heavy", engine=_batching(24), requests=_heavy(), objective=_within(Metric.TTFT, 1_500), guess_rps=30
        ),
        Shape(
            name="bursts",
            engine=slots,
            requests=answers,
            objective=_within(Metric.TTFT, 1_050),
            guess_rps=40,
            process=Gamma(cv=2.0),
        ),
        Shape(
            name="p99",
            engine=_batching(32),
            requests=chat,
            objective=_within(Metric.TTFT, 800, share="0.99"),
            guess_rps=40,
        ),
        Shape(
            name="quality",
            engine=graded,
            requests=answers,
            objective=Objective(name="resolved", check="resolved", share=Decimal("0.93")),
            guess_rps=40,
        ),
    )


def _within(metric: Metric, limit_ms: int, share: str = "0.95") -> Objective:
    return Objective(name=str(metric), metric=metric, at_most_us=limit_ms * 1000, share=Decimal(share))


def _batching(slots: int) -> Engine:
    return Engine(
        kind=EngineKind.BATCHING,
        slots=slots,
        step_ns=12 * MS,
        per_sequence_ns=200_000,
        per_prompt_token_ns=40_000,
    )


def _lognormal(seed: int, *, mean: float, cv: float) -> NANOS:
    spread = np.log1p(cv**2)
    values = np.exp(np.random.default_rng(seed).normal(0, np.sqrt(spread), _REQUESTS))
    lengths: NANOS = np.maximum(1, np.rint(values * mean / values.mean())).astype(np.int64)
    return lengths


def _mixed() -> RequestSet:
    is_long = np.random.default_rng(8).random(_REQUESTS) < 0.1
    prompt = np.where(is_long, _lognormal(9, mean=6_000, cv=0.3), _lognormal(10, mean=200, cv=0.6))
    output = np.where(is_long, _lognormal(11, mean=60, cv=0.5), _lognormal(12, mean=150, cv=0.6))
    return RequestSet(prompt_tokens=prompt, output_tokens=output)


def _heavy() -> RequestSet:
    tail = np.random.default_rng(13).pareto(1.6, _REQUESTS) + 0.5
    output = np.clip(np.rint(60 * tail), 1, 4_000).astype(np.int64)
    return RequestSet(prompt_tokens=_lognormal(14, mean=300, cv=1.0), output_tokens=output, jitter=0.3)
