"""The service before the load: what it says of itself, one request to see that it answers, and the sender's ceiling."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from urllib.parse import urlsplit, urlunsplit

import numpy as np

from gpuyield.collect.http import HttpClient, Patience
from gpuyield.errors import SourceError
from gpuyield.measure.protocols.chat import Chat
from gpuyield.measure.protocols.completions import Completions
from gpuyield.measure.protocols.protocol import Spoken
from gpuyield.measure.sender.bench import LiveBench, Orders
from gpuyield.measure.served import Served, read_served
from gpuyield.model.measure import SECOND_NS, Arrivals, Phase, ProbePlan, ResponseStatus
from gpuyield.steps.measure_asked import Asked

_PATIENCE = Patience(connect_s=3, read_s=5, total_s=5, attempts=1)
_FIRST_S = 120.0


def looker(asked: Asked) -> Callable[[], Served]:
    """A function that asks the service what it is; what does not answer is left unknown."""
    split = urlsplit(asked.where.base_url)
    root = urlunsplit((split.scheme, split.netloc, split.path.removesuffix("/v1"), "", ""))
    base = HttpClient(asked.where, patience=_PATIENCE)
    above = HttpClient(replace(asked.where, base_url=root.rstrip("/")), patience=_PATIENCE)

    def look() -> Served:
        metrics = _body(above, "/metrics")
        return read_served(
            models=_body(base, "/models"),
            version=_body(above, "/version"),
            metrics=None if metrics is None else metrics.decode("utf-8", "replace"),
        )

    return look


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
        SourceError: It does not answer rightly, with what is wrong.
    """
    problem, e2e_s = _try(asked, asked.spoken)
    if problem in ("HTTP 400", "HTTP 422") and isinstance(asked.spoken, Chat | Completions) and asked.spoken.streams:
        plainer = replace(asked.spoken, usage=False)
        again, e2e_s = _try(asked, plainer)
        if not again:
            return FirstAnswer(spoken=plainer, e2e_s=e2e_s)
    if problem:
        raise SourceError(
            f"the first request failed: {problem}.",
            where=asked.target.url,
            fix="Is the model's name right, is a key needed, and does the URL end in /v1? Try it with curl.",
        )
    return FirstAnswer(spoken=asked.spoken, e2e_s=e2e_s)


def _try(asked: Asked, spoken: Spoken) -> tuple[str, float]:
    """What is wrong with one answer (empty: nothing), and how long it took."""
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
            return next(iter(bench.problems), f"no answer within {_FIRST_S:.0f} s"), 0.0
        return "", int(records.end_ns[0] - records.sent_ns[0]) / SECOND_NS
