"""The service before the load: what it says of itself, and one request to see whether and how it answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from urllib.parse import urlsplit, urlunsplit

import numpy as np

from gpuyield.collect.endpoint import Endpoint
from gpuyield.collect.http import HttpClient, Patience
from gpuyield.errors import SourceError
from gpuyield.measure.protocols.choices import Choices
from gpuyield.measure.protocols.protocol import Spoken
from gpuyield.measure.sender.bench import LiveBench, Orders
from gpuyield.measure.served import Served, read_served
from gpuyield.model.measure import SECOND_NS, Arrivals, Phase, ProbePlan, ResponseStatus
from gpuyield.steps.measure_asked import Asked
from gpuyield.steps.measure_options import NEEDS_STREAM

_PATIENCE = Patience(connect_s=3, read_s=5, total_s=5, attempts=1)
_TRIES = 6
_FIRST_S = 120.0
_NOT_UNDERSTOOD = ("HTTP 400", "HTTP 422")
_MANY_TOKENS = 8
"""So many do not come in a single read by chance."""


def looker(asked: Asked) -> Callable[[], Served]:
    """A function that asks the service what it is; what does not answer is left unknown."""
    return look_at(asked.where)


def look_at(where: Endpoint) -> Callable[[], Served]:
    """The same of an endpoint.

    What answered once is asked several times: a server that has not got over its load yet has not changed.
    """
    base = HttpClient(where, patience=_PATIENCE)
    above = HttpClient(above_v1(where), patience=_PATIENCE)
    answered: set[str] = set()

    def page(client: HttpClient, path: str) -> bytes | None:
        for _ in range(_TRIES if path in answered else 1):
            body = _body(client, path)
            if body is not None:
                answered.add(path)
                return body
        return None

    def look() -> Served:
        metrics = page(above, "/metrics")
        return read_served(
            models=page(base, "/models"),
            version=page(above, "/version"),
            metrics=None if metrics is None else metrics.decode("utf-8", "replace"),
        )

    return look


def above_v1(where: Endpoint) -> Endpoint:
    """Where a server tells of itself: beside `/v1`, not below it."""
    split = urlsplit(where.base_url)
    root = urlunsplit((split.scheme, split.netloc, split.path.removesuffix("/v1"), "", ""))
    return replace(where, base_url=root.rstrip("/"))


def _body(client: HttpClient, path: str) -> bytes | None:
    try:
        answer = client.get(path)
    except SourceError:
        return None
    return answer.body if answer.status == 200 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstAnswer:
    """The protocol in the form that the service understands, and how long an answer took."""

    spoken: Spoken
    e2e_s: float


def first_answer(asked: Asked) -> FirstAnswer:
    """Find out with one request whether, and how, the service answers.

    Some servers reject `stream_options`: they are asked again without it, and then nobody counts tokens.

    Raises:
        SourceError: It does not answer rightly, or in one piece where the time between tokens is judged.
    """
    spoken = asked.spoken
    tried = _try(asked, spoken)
    if tried.problem in _NOT_UNDERSTOOD and isinstance(spoken, Choices) and spoken.streams:
        plainer = replace(spoken, usage=False)
        again = _try(asked, plainer)
        if not again.problem:
            spoken, tried = plainer, again
    if tried.problem:
        raise SourceError(
            f"the first request failed: {tried.problem}.",
            where=asked.target.url,
            fix="Is the model's name right, is a key needed, and does the URL end in /v1? Try it with curl.",
        )
    judged = [str(one.metric) for one in asked.objectives if one.metric in NEEDS_STREAM]
    if judged and tried.in_one_piece:
        raise SourceError(
            f"the first answer came in one piece, so that its {' and '.join(judged)} cannot be known.",
            where=asked.target.url,
            fix="Turn off what holds tokens back on the way (buffering of a proxy), or judge ttft and e2e instead.",
        )
    return FirstAnswer(spoken=spoken, e2e_s=tried.e2e_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tried:
    """What one answer was like. `problem` is empty when it was right; `in_one_piece`: many tokens in a single read."""

    problem: str = ""
    e2e_s: float = 0.0
    in_one_piece: bool = False


def _try(asked: Asked, spoken: Spoken) -> _Tried:
    orders = Orders(target=asked.target, spoken=spoken, lines=asked.lines[:1], model=asked.model)
    one = Arrivals(scheduled_ns=np.zeros(1, dtype=np.int64), request=np.zeros(1, dtype=np.int64))
    plan = ProbePlan(
        number=0,
        phase=Phase.SEARCH,
        seed=0,
        rate_rps=1.0,
        warmup_ns=0,
        batch_ns=1,
        batches=1,
        runout_ns=0,
        drain_ns=round(_FIRST_S * 1e9),
    )
    with LiveBench(orders) as bench:
        records = bench.run(plan, one).records
        if records.status[0] != ResponseStatus.OK:
            return _Tried(problem=next(iter(bench.problems), f"no answer within {_FIRST_S:.0f} s"))
    return _Tried(
        e2e_s=int(records.end_ns[0] - records.sent_ns[0]) / SECOND_NS,
        in_one_piece=int(records.reads[0]) == 1 and int(records.output_tokens[0]) >= _MANY_TOKENS,
    )
