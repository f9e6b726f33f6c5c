"""What `gpuyield measure` is asked, read and checked as a whole: every mistake at once, before anything is sent."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import TypeVar
from zoneinfo import ZoneInfo

from gpuyield.collect.endpoint import Endpoint, Secrets, endpoint
from gpuyield.declare.objectives import parse_objectives
from gpuyield.errors import DeclarationError, Mistake
from gpuyield.measure.arrivals import Constant, Gamma, Poisson, Process, Schedule
from gpuyield.measure.graders import BUILT_IN, Check, check_from_callable, check_named, mistakes_in
from gpuyield.measure.protocols.named import protocol_named
from gpuyield.measure.protocols.plain import Reader
from gpuyield.measure.protocols.protocol import Spoken
from gpuyield.measure.recorded import Recorded, drawn_pairs
from gpuyield.measure.requests import RequestLine, read_requests
from gpuyield.measure.sender.abort import Condition, parse_condition
from gpuyield.measure.sender.target import Target
from gpuyield.measure.traces import Replay, Trace
from gpuyield.model.declaration import Declaration, Metric, Objective, Service
from gpuyield.model.measure import Level
from gpuyield.steps.measure_judge import JUDGE, JudgeOptions, ModelJudge, asked_judge
from gpuyield.steps.measure_load import LEDGER, lines_of_trace, trace_from
from gpuyield.steps.measure_prompts import made_up_prompts, prompts_of_lengths
from gpuyield.units import parse_duration, parse_zone

RECORDED = "recorded"
"""Arrivals as bursty as the profile."""
LARGEST_RATE = Decimal(1_000_000)
NEEDS_STREAM = (Metric.TPOT, Metric.ITL)
"""Without tokens that come one after another these cannot be known."""
_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """The options, as they were written."""

    service: str | None = None
    url: str | None = None
    model: str | None = None
    objectives: tuple[str, ...] = ()
    requests: Path | None = None
    level: str = "standard"
    max_rate: str = "100"
    max_duration: str | None = None
    at_least: str | None = None
    abort_if: tuple[str, ...] = ()
    arrivals: str = "poisson"
    protocol: str = "chat"
    stream: bool = True
    checks: tuple[str, ...] = ()
    reader: str | None = None
    token_file: Path | None = None
    headers_file: Path | None = None
    ca_file: Path | None = None
    gpu_metrics: str | None = None
    replicas: int | None = None
    gpus_per_replica: int | None = None
    judge_url: str | None = None
    judge_model: str | None = None
    judge_token_file: Path | None = None
    judge_prompt: Path | None = None
    judge_at_most: int = 20_000
    key: str | None = field(default=None, repr=False)
    """From the environment only."""
    seed: int = 0
    workers: int = 1
    trace: Path | None = None
    profile: str | None = None

    @property
    def judge(self) -> JudgeOptions:
        """What is asked of a judge model."""
        return JudgeOptions(
            url=self.judge_url,
            model=self.judge_model,
            token_file=self.judge_token_file,
            prompt=self.judge_prompt,
            at_most=self.judge_at_most,
        )


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
            one.at_most_us / 1e6 * (0.5 if one.metric is Metric.TPOT else 0.05)
            for one in self.objectives
            if one.at_most_us is not None
        ]
        return min(limits, default=0.05)


class _Collected:
    """Runs readers one by one and keeps all their mistakes."""

    def __init__(self) -> None:
        self.mistakes: list[Mistake] = []

    def value(self, read: Callable[[], _Value]) -> _Value | None:
        try:
            return read()
        except DeclarationError as err:
            self.mistakes.extend(err.mistakes)
            return None

    def wrong(self, what: str, where: str, fix: str) -> None:
        self.mistakes.append(Mistake(what=what, where=where, fix=fix))


def read_question(question: Question, declared: Declaration, *, searches: bool = True) -> Asked:
    """Everything that is asked; only a search needs objectives.

    Raises:
        DeclarationError: All mistakes.
    """
    found = _Collected()
    service = found.value(lambda: _service(question, declared))
    url = question.url or (service.endpoint if service is not None else None)
    model = question.model or (service.model if service is not None else None) or ""
    where = None
    if url is None:
        if not found.mistakes:
            found.wrong("nothing to measure is named.", "--url", "Write --url http://HOST:PORT/v1, or --service NAME.")
    else:
        where = found.value(lambda: _endpoint(question, url))
    exporter = question.gpu_metrics
    gpus = None if exporter is None else found.value(lambda: _exporter(exporter))
    spoken = found.value(lambda: _spoken(question))
    objectives = found.value(lambda: _objectives(question, service)) if searches or question.objectives else ()
    for text in question.checks:
        if not all(text.partition("=")):
            found.wrong(f'"{text[:60]}" names no check.', "--check", "Write --check NAME=module:function.")
    judge = found.value(lambda: asked_judge(question.judge, objectives or ()))
    checks: dict[str, Check] = {}
    for one in objectives or ():
        _objective(one, question, spoken, checks, judge, found)
    named = question.trace
    traced = None if named is None else found.value(lambda: trace_from(named, "--trace"))
    lines = found.value(lambda: _lines(question, traced))
    requests_file = None if question.requests is None else str(question.requests)
    if lines is not None:
        _expected(lines[0], checks, requests_file, found)
        if spoken is not None:
            _bodies(spoken, lines[0], model, requests_file, found)
    if not model and question.protocol != "http":
        found.wrong("no model is named.", "--model", "Write --model NAME, as /v1/models lists it.")
    max_rps = found.value(lambda: _rate(question.max_rate, "--max-rate"))
    at_least = question.at_least
    least = None if at_least is None else found.value(lambda: _rate(at_least, "--at-least"))
    longest = question.max_duration
    duration_ms = None if longest is None else found.value(lambda: parse_duration(longest))
    conditions = [found.value(partial(parse_condition, text)) for text in question.abort_if]
    process = found.value(lambda: _process(question.arrivals))
    _recorded(question, found)
    _numbers(question, found)
    if max_rps is not None and least is not None and least > max_rps:
        found.wrong("--at-least is above --max-rate.", "--at-least", "Raise --max-rate.")
    if found.mistakes or where is None or spoken is None or lines is None or max_rps is None or process is None:
        raise DeclarationError.of(found.mistakes)
    return Asked(
        service=service,
        name=service.name if service is not None else where.base_url,
        where=where,
        gpus=gpus,
        target=_target(where),
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


def _recorded(question: Question, found: _Collected) -> None:
    if question.arrivals == RECORDED and question.profile is None:
        found.wrong("nothing is recorded.", "--arrivals", "Write --profile as well.")
    if question.trace is not None and question.arrivals != "poisson":
        found.wrong("a trace has arrivals of its own.", "--arrivals", "Leave it out, or --trace.")
    if question.profile == LEDGER and question.service is None:
        found.wrong("the ledger knows services by name.", "--profile", "Write --service NAME, or name a file.")


def _numbers(question: Question, found: _Collected) -> None:
    if not 1 <= question.workers <= 256:
        found.wrong(f"{question.workers} workers.", "--workers", "Write a number from 1 to 256.")
    for option, number in (("--replicas", question.replicas), ("--gpus-per-replica", question.gpus_per_replica)):
        if number is not None and not 1 <= number <= 1_000_000:
            found.wrong(f"{number} is no number of them.", option, "Write a number from 1 up, or leave it out.")


def _service(question: Question, declared: Declaration) -> Service | None:
    if question.service is None:
        return None
    names = [one.name for one in declared.services]
    if question.service not in names:
        known = f"Declared are {', '.join(names)}." if names else "Declare it under services, or use --url."
        raise DeclarationError(f'"{question.service[:60]}" is no declared service.', where="--service", fix=known)
    service = declared.services[names.index(question.service)]
    if service.endpoint is None and question.url is None:
        raise DeclarationError(
            f"{service.name} has no endpoint.", where="--service", fix="Declare its endpoint, or add --url."
        )
    return service


def _endpoint(question: Question, url: str) -> Endpoint:
    key = question.key
    if key is not None and (not key.isprintable() or not key.isascii()):
        raise DeclarationError("the key cannot be sent.", where="GPUYIELD_API_KEY", fix="Give one printable line.")
    return endpoint(
        product="the model server",
        url=url,
        declared_at="--url" if question.url is not None else "services.endpoint",
        token_file=question.token_file,
        ca_file=question.ca_file,
        headers_file=question.headers_file,
        secrets=Secrets(headers=(("Authorization", f"Bearer {key}"),)) if key else None,
        hint="Is the server up, and does the URL end in /v1?",
    )


def _exporter(url: str) -> Endpoint:
    return endpoint(
        product="the GPU exporter", url=url, declared_at="--gpu-metrics", hint="Is it http://NODE:9400/metrics?"
    )


def _target(where: Endpoint) -> Target:
    from gpuyield.measure.sender.target import parse_target

    return parse_target(where.base_url, headers=where.secrets.headers, ca_pem=where.ca_pem)


def _spoken(question: Question) -> Spoken:
    reader: Reader | None = None
    if question.reader is not None:
        if question.protocol != "http":
            raise DeclarationError("a reader belongs to --protocol http.", where="--reader", fix="Leave it out.")
        reader = _callable(question.reader, "--reader")
    return protocol_named(question.protocol, streams=question.stream, reader=reader)


def _callable(place: str, option: str) -> Reader:
    import importlib

    module, _, function = place.partition(":")
    try:
        called = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError, ValueError) as err:
        raise DeclarationError(
            f"{place[:80]} cannot be imported: {err}.", where=option, fix="Write module:function."
        ) from err
    if not callable(called):
        raise DeclarationError(f"{place[:80]} is no function.", where=option, fix="Write module:function.")
    read: Reader = called
    return read


def _objectives(question: Question, service: Service | None) -> tuple[Objective, ...]:
    if question.objectives:
        return parse_objectives(question.objectives)
    if service is not None and service.objectives:
        return service.objectives
    raise DeclarationError(
        "no objective is named.", where="--objective", fix="Write --objective 'ttft p95 800ms', repeatable."
    )


def _objective(
    one: Objective,
    question: Question,
    spoken: Spoken | None,
    checks: dict[str, Check],
    judge: ModelJudge | None,
    found: _Collected,
) -> None:
    if one.metric is Metric.QUEUE:
        found.wrong("queue is nothing that a client sees.", one.name, "Write ttft, which holds the time in the queue.")
    if one.metric in NEEDS_STREAM and spoken is not None and not spoken.streams:
        found.wrong(f"{one.metric} needs answers that are streamed.", one.name, "Leave --no-stream out.")
    if one.check is not None:
        check = found.value(lambda: _check(one, question, judge))
        if check is not None:
            checks[one.check] = check


def _check(one: Objective, question: Question, judge: ModelJudge | None) -> Check:
    named = dict(text.partition("=")[::2] for text in question.checks)
    assert one.check is not None
    place = named.get(one.check)
    if place is None and one.check not in BUILT_IN:
        raise DeclarationError(
            f'nothing grades "{one.check}".',
            where=one.name,
            fix=f"Name a function with --check {one.check}=module:function, or use {', '.join(BUILT_IN)}.",
        )
    if place is None:
        check = check_named(one.check, at_least=one.score_at_least, judge=judge)
        if one.check == JUDGE and judge is not None:
            check = replace(check, ahead=judge.ahead)
    else:
        check = check_from_callable(place, at_least=one.score_at_least)
    return replace(check, at_most=one.score_at_most)


def _lines(question: Question, traced: tuple[Trace, str] | None) -> tuple[tuple[RequestLine, ...], str | None]:
    if question.requests is None and traced is not None:
        lines = lines_of_trace(traced[0], question.protocol, seed=question.seed, where=str(question.trace))
        return lines, traced[1]
    if question.requests is None:
        return made_up_prompts(question.protocol, seed=question.seed), None
    try:
        data = question.requests.read_bytes()
    except OSError as err:
        raise DeclarationError(
            f"cannot be read: {err.strerror or err}.", where=str(question.requests), fix="Name a file of JSON lines."
        ) from err
    return read_requests(data.split(b"\n"), file=str(question.requests)), hashlib.sha256(data).hexdigest()


def _expected(lines: Sequence[RequestLine], checks: Mapping[str, Check], file: str | None, found: _Collected) -> None:
    for name in checks:
        if file is None and name in BUILT_IN and name != "judge":
            found.wrong(f"{name} compares with what is expected.", "--objective", "Give --requests with expected.")
        elif file is not None:
            found.mistakes.extend(mistakes_in(name, lines, file=file)[:100])


def _bodies(spoken: Spoken, lines: Sequence[RequestLine], model: str, file: str | None, found: _Collected) -> None:
    wrong = 0
    for line in lines:
        try:
            spoken.body(line, model=model)
        except DeclarationError as err:
            wrong += 1
            if wrong <= 100:
                found.wrong(err.mistakes[0].what, file or "--protocol", err.mistakes[0].fix)


def _rate(text: str, option: str) -> Decimal:
    if not re.fullmatch(r"\d{1,9}(\.\d{1,6})?", text) or not 0 < Decimal(text) <= LARGEST_RATE:
        raise DeclarationError(
            f'"{text[:30]}" is no rate.', where=option, fix=f"Write requests a second, such as {option} 50."
        )
    return Decimal(text)


def _process(text: str) -> Process:
    kind, _, value = text.partition(":")
    match kind, value:
        case "recorded", "":
            return Poisson()
        case "poisson", "":
            return Poisson()
        case "constant", "":
            return Constant()
        case "gamma", _ if re.fullmatch(r"\d{1,3}(\.\d{1,3})?", value):
            return Gamma(cv=float(value))
    raise DeclarationError(
        f'"{text[:30]}" is no way to arrive.', where="--arrivals", fix="Write poisson, constant, gamma:2 or recorded."
    )
