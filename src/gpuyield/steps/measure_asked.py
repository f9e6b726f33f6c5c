"""What `gpuyield measure` is asked, read and checked as a whole: every mistake at once, before anything is sent."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from zoneinfo import ZoneInfo

from gpuyield.collect.endpoint import Endpoint
from gpuyield.errors import DeclarationError
from gpuyield.measure.arrivals import Gamma, Process, Schedule
from gpuyield.measure.graders import Check
from gpuyield.measure.protocols.protocol import Spoken
from gpuyield.measure.recorded import Recorded, drawn_pairs
from gpuyield.measure.requests import RequestLine
from gpuyield.measure.sender.abort import Condition, parse_condition
from gpuyield.measure.sender.health import LAG_SHARE
from gpuyield.measure.sender.target import Target
from gpuyield.measure.traces import Replay, Trace
from gpuyield.model.declaration import Declaration, Metric, Objective, Service
from gpuyield.model.measure import Level
from gpuyield.steps.measure_collected import Collected
from gpuyield.steps.measure_judge import ModelJudge, asked_judge
from gpuyield.steps.measure_load import trace_from
from gpuyield.steps.measure_options import (
    RECORDED,
    check_bodies,
    check_expected,
    check_numbers,
    check_objective,
    check_recorded,
    endpoint_of,
    exporter_at,
    lines_of,
    objectives_of,
    process_of,
    rate_of,
    service_of,
    spoken_of,
    target_at,
)
from gpuyield.steps.measure_prompts import prompts_of_lengths
from gpuyield.steps.measure_question import Question
from gpuyield.units import parse_duration, parse_zone


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The question as values. `requests_sha256` is of the file, None for made-up prompts.

    `trace` None: arrivals are those of `process`. `recorded` is what the service really gets (None: not told).
    `gpus` is the page of the GPU exporter, None where none is named. `replicas` answer under the URL, with so many GPUs
    each; None: not told.
    """

    service: Service | None
    name: str
    where: Endpoint
    gpus: Endpoint | None
    target: Target
    spoken: Spoken
    model: str
    objectives: tuple[Objective, ...]
    checks: Mapping[str, Check]
    judge: ModelJudge | None
    lines: tuple[RequestLine, ...]
    requests_file: str | None
    requests_sha256: str | None
    level: Level
    max_rps: float
    max_duration_s: float | None
    at_least_rps: Decimal | None
    abort_if: tuple[Condition, ...]
    process: Process
    seed: int
    workers: int
    zone: ZoneInfo
    replicas: int | None
    gpus_per_replica: int | None
    protocol: str = "chat"
    trace: Trace | None = None
    recorded: Recorded | None = None

    @property
    def schedule(self) -> Schedule | Replay:
        """When what is sent: it draws the arrivals of a probe."""
        if self.trace is not None:
            return Replay(trace=self.trace, requests=len(self.lines))
        return Schedule(process=self.process, requests=len(self.lines))

    @property
    def requests_words(self) -> str:
        """The request set, as people name it."""
        if self.requests_file is not None:
            return f"{len(self.lines)} of {self.requests_file}"
        if self.trace is not None:
            return f"made-up prompts, as long as the {len(self.trace):,} of the trace"
        return (
            "made-up prompts"
            if self.recorded is None
            else f"made-up prompts, as long as those of {self.recorded.source}"
        )

    @property
    def lag_limit_s(self) -> float:
        """How late the sender may be: a twentieth of the strictest latency limit.

        A time per token spreads an error at the ends of an answer over its tokens: there it is half of the limit.
        """
        limits = [
            one.at_most_us / 1e6 * (0.5 if one.metric is Metric.TPOT else LAG_SHARE)
            for one in self.objectives
            if one.at_most_us is not None
        ]
        return min(limits, default=0.05)


def read_question(question: Question, declared: Declaration, *, searches: bool = True) -> Asked:
    """Everything that is asked; only a search needs objectives.

    Raises:
        DeclarationError: All mistakes.
    """
    found = Collected()
    service = found.value(lambda: service_of(question, declared))
    url = question.url or (service.endpoint if service is not None else None)
    model = question.model or (service.model if service is not None else None) or ""
    where = None
    if url is None:
        if not found.mistakes:
            found.wrong("nothing to measure is named.", "--url", "Write --url http://HOST:PORT/v1, or --service NAME.")
    else:
        where = found.value(lambda: endpoint_of(question, url))
    exporter = question.gpu_metrics
    gpus = None if exporter is None else found.value(lambda: exporter_at(exporter))
    spoken = found.value(lambda: spoken_of(question))
    objectives = found.value(lambda: objectives_of(question, service)) if searches or question.objectives else ()
    for text in question.checks:
        if not all(text.partition("=")):
            found.wrong(f'"{text[:60]}" names no check.', "--check", "Write --check NAME=module:function.")
    judge = found.value(lambda: asked_judge(question.judge, objectives or ()))
    checks: dict[str, Check] = {}
    for one in objectives or ():
        check_objective(one, question, spoken, checks, judge, found)
    named = question.trace
    traced = None if named is None else found.value(lambda: trace_from(named, "--trace"))
    lines = found.value(lambda: lines_of(question, traced))
    requests_file = None if question.requests is None else str(question.requests)
    if lines is not None:
        check_expected(lines[0], checks, requests_file, found)
        if spoken is not None:
            check_bodies(spoken, lines[0], model, requests_file, found)
    if not model and question.protocol != "http":
        found.wrong("no model is named.", "--model", "Write --model NAME, as /v1/models lists it.")
    max_rps = found.value(lambda: rate_of(question.max_rate, "--max-rate"))
    at_least = question.at_least
    least = None if at_least is None else found.value(lambda: rate_of(at_least, "--at-least"))
    longest = question.max_duration
    duration_ms = None if longest is None else found.value(lambda: parse_duration(longest))
    conditions = [found.value(partial(parse_condition, text)) for text in question.abort_if]
    process = found.value(lambda: process_of(question.arrivals))
    check_recorded(question, found)
    check_numbers(question, found)
    if max_rps is not None and least is not None and least > max_rps:
        found.wrong("--at-least is above --max-rate.", "--at-least", "Raise --max-rate.")
    if found.mistakes or where is None or spoken is None or lines is None or max_rps is None or process is None:
        raise DeclarationError.of(found.mistakes)
    return Asked(
        service=service,
        name=service.name if service is not None else where.base_url,
        where=where,
        gpus=gpus,
        target=target_at(where),
        spoken=spoken,
        model=model,
        objectives=objectives or (),
        checks=checks,
        judge=judge,
        lines=lines[0],
        requests_file=requests_file,
        requests_sha256=lines[1],
        level=Level(question.level),
        max_rps=float(max_rps),
        max_duration_s=None if duration_ms is None else duration_ms / 1000,
        at_least_rps=least,
        abort_if=tuple(one for one in conditions if one is not None),
        process=process,
        seed=question.seed,
        workers=question.workers,
        zone=parse_zone(declared.reporting_zone),
        replicas=question.replicas,
        gpus_per_replica=question.gpus_per_replica,
        protocol=question.protocol,
        trace=None if traced is None else traced[0],
    )


def with_recorded(asked: Asked, question: Question, recorded: Recorded | None) -> Asked:
    """The same, held against what the service really gets; made-up prompts and `--arrivals recorded` follow it.

    Raises:
        DeclarationError: Bursts are to be as recorded, and nobody recorded them.
    """
    if recorded is None:
        return asked
    asked = replace(asked, recorded=recorded)
    profile = recorded.profile
    if question.arrivals == RECORDED:
        if profile.dispersion is None:
            raise DeclarationError(
                "its bursts are not recorded.",
                where="--profile",
                fix="Write --arrivals poisson, or give a log of requests.",
            )
        # Counts in long windows of independent gaps vary as the square of the gaps' coefficient (Cox and Lewis 1966).
        cv = min(100.0, max(0.01, profile.dispersion**0.5))
        asked = replace(asked, process=Gamma(cv=float(f"{cv:.3g}")))
    if question.requests is not None or asked.trace is not None or (profile.prompt is None and profile.output is None):
        return asked
    pairs = drawn_pairs(profile, seed=question.seed)
    digest = hashlib.sha256(b"".join(one.tobytes() for one in pairs)).hexdigest()
    lines = prompts_of_lengths(question.protocol, *pairs, seed=question.seed, where="--profile")
    return replace(asked, lines=lines, requests_sha256=digest)
