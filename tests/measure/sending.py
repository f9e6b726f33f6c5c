"""Sends a few requests with the real sender and hands back what it recorded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gpuyield.measure.graders import Check
from gpuyield.measure.protocols.chat import Chat
from gpuyield.measure.protocols.protocol import Spoken
from gpuyield.measure.requests import RequestLine
from gpuyield.measure.sender.bench import LiveBench, Orders
from gpuyield.measure.sender.limits import Limits
from gpuyield.measure.sender.target import parse_target
from gpuyield.model.measure import Arrivals, Phase, ProbePlan, ResponseStatus, Run

PATIENT = Limits(connect_s=20, first_s=60, between_s=60, total_s=120)


@dataclass(frozen=True, slots=True, kw_only=True)
class Took:
    """What came back, in the order of the requests; `started_ns` is the zero of its times."""

    run: Run
    started_ns: int
    connections: int
    problems: Mapping[str, int]

    def status(self, row: int) -> ResponseStatus:
        """How a request ended."""
        return ResponseStatus(int(self.run.records.status[row]))

    @property
    def statuses(self) -> list[ResponseStatus]:
        """How each ended."""
        return [self.status(row) for row in range(len(self.run.records))]


def every(spacing_s: float, count: int, *, kinds: int | None = None) -> Arrivals:
    """Arrivals at equal distance, through the request set again and again."""
    rows = np.arange(count, dtype=np.int64)
    return Arrivals(scheduled_ns=np.rint(rows * spacing_s * 1e9).astype(np.int64), request=rows % (kinds or count))


def plan_for(arrivals: Arrivals, *, drain_s: float = 30.0) -> ProbePlan:
    """A probe that sends just these."""
    span_ns = int(arrivals.scheduled_ns[-1]) + 1
    return ProbePlan(
        number=0,
        phase=Phase.SEARCH,
        seed=0,
        rate_rps=len(arrivals) / span_ns * 1e9 if len(arrivals) > 1 else 1.0,
        warmup_ns=0,
        batch_ns=span_ns,
        batches=1,
        runout_ns=0,
        drain_ns=round(drain_s * 1e9),
    )


def prompts(*texts: str, max_tokens: int | None = 4) -> list[RequestLine]:
    """Requests with these prompts."""
    return [
        RequestLine(id=str(number), kind="prompt", content=text, max_tokens=max_tokens)
        for number, text in enumerate(texts)
    ]


def send(
    url: str,
    lines: Sequence[RequestLine],
    *,
    spoken: Spoken | None = None,
    limits: Limits = PATIENT,
    checks: Mapping[str, Check] | None = None,
    workers: int = 1,
    spacing_s: float = 0.005,
    drain_s: float = 30.0,
    ca_pem: str = "",
) -> Took:
    """Send each request once."""
    orders = Orders(
        target=parse_target(url, ca_pem=ca_pem),
        spoken=spoken or Chat(),
        lines=lines,
        model="double",
        checks=checks or {},
        limits=limits,
        workers=workers,
    )
    arrivals = every(spacing_s, len(lines))
    with LiveBench(orders) as bench:
        run = bench.run(plan_for(arrivals, drain_s=drain_s), arrivals)
        return Took(run=run, started_ns=bench.started_ns, connections=bench.connections, problems=bench.problems)
