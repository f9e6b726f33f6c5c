"""Each option of `gpuyield measure` as a value, or a mistake that names it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal

from gpuyield.collect.endpoint import Endpoint, Secrets, endpoint
from gpuyield.declare.objectives import parse_objectives
from gpuyield.errors import DeclarationError
from gpuyield.measure.arrivals import Constant, Gamma, Poisson, Process
from gpuyield.measure.graders import BUILT_IN, Check, check_from_callable, check_named, mistakes_in
from gpuyield.measure.protocols.named import protocol_named
from gpuyield.measure.protocols.plain import Reader
from gpuyield.measure.protocols.protocol import Spoken
from gpuyield.measure.requests import RequestLine, read_requests
from gpuyield.measure.sender.target import Target
from gpuyield.measure.traces import Trace
from gpuyield.model.declaration import Declaration, Metric, Objective, Service
from gpuyield.steps.measure_collected import Collected
from gpuyield.steps.measure_judge import JUDGE, ModelJudge
from gpuyield.steps.measure_load import LEDGER, lines_of_trace
from gpuyield.steps.measure_prompts import made_up_prompts
from gpuyield.steps.measure_question import Question

RECORDED = "recorded"
"""Arrivals as bursty as the profile."""
LARGEST_RATE = Decimal(1_000_000)
NEEDS_STREAM = (Metric.TPOT, Metric.ITL)
"""Without tokens that come one after another these cannot be known."""


def check_recorded(question: Question, found: Collected) -> None:
    """Note what of recorded arrivals does not go together."""
    if question.arrivals == RECORDED and question.profile is None:
        found.wrong("nothing is recorded.", "--arrivals", "Write --profile as well.")
    if question.trace is not None and question.arrivals != "poisson":
        found.wrong("a trace has arrivals of its own.", "--arrivals", "Leave it out, or --trace.")
    if question.profile == LEDGER and question.service is None:
        found.wrong("the ledger knows services by name.", "--profile", "Write --service NAME, or name a file.")


def check_gate(question: Question, *, gate: bool) -> None:
    """See to it that a gate has a rate to judge by.

    Raises:
        DeclarationError: It has none.
    """
    if gate and question.at_least is None:
        raise DeclarationError("--gate has nothing to judge by.", where="--gate", fix="Write --at-least R as well.")


def check_numbers(question: Question, found: Collected) -> None:
    """Note numbers out of range."""
    if not 1 <= question.workers <= 256:
        found.wrong(f"{question.workers} workers.", "--workers", "Write a number from 1 to 256.")
    for option, number in (("--replicas", question.replicas), ("--gpus-per-replica", question.gpus_per_replica)):
        if number is not None and not 1 <= number <= 1_000_000:
            found.wrong(f"{number} is no number of them.", option, "Write a number from 1 up, or leave it out.")


def service_of(question: Question, declared: Declaration) -> Service | None:
    """The declared service; None where none is named.

    Raises:
        DeclarationError: It is not declared, or has no endpoint.
    """
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


def endpoint_of(question: Question, url: str) -> Endpoint:
    """Where the model server is, and what it is asked with.

    Raises:
        DeclarationError: The key, a file or the address is wrong.
    """
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


def exporter_at(url: str) -> Endpoint:
    """Where the page of the GPU exporter is.

    Raises:
        DeclarationError: That is no address.
    """
    return endpoint(
        product="the GPU exporter", url=url, declared_at="--gpu-metrics", hint="Is it http://NODE:9400/metrics?"
    )


def target_at(where: Endpoint) -> Target:
    """The same for the sender."""
    from gpuyield.measure.sender.target import parse_target

    return parse_target(where.base_url, headers=where.secrets.headers, ca_pem=where.ca_pem)


def spoken_of(question: Question) -> Spoken:
    """What the server speaks.

    Raises:
        DeclarationError: There is no such protocol, or no such reader.
    """
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


def objectives_of(question: Question, service: Service | None) -> tuple[Objective, ...]:
    """The objectives named, else those declared.

    Raises:
        DeclarationError: There are none, or one cannot be read.
    """
    if question.objectives:
        return parse_objectives(question.objectives)
    if service is not None and service.objectives:
        return service.objectives
    raise DeclarationError(
        "no objective is named.", where="--objective", fix="Write --objective 'ttft p95 800ms', repeatable."
    )


def check_objective(
    one: Objective,
    question: Question,
    spoken: Spoken | None,
    checks: dict[str, Check],
    judge: ModelJudge | None,
    found: Collected,
) -> None:
    """Note an objective that cannot be judged; what grades it goes into `checks`."""
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


def lines_of(question: Question, traced: tuple[Trace, str] | None) -> tuple[tuple[RequestLine, ...], str | None]:
    """The request set, and the digest of its file (None for made-up prompts).

    Raises:
        DeclarationError: The file cannot be read, or holds something else.
    """
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


def check_expected(
    lines: Sequence[RequestLine], checks: Mapping[str, Check], file: str | None, found: Collected
) -> None:
    """Note requests that lack what a check compares with."""
    for name in checks:
        if file is None and name in BUILT_IN and name != "judge":
            found.wrong(f"{name} compares with what is expected.", "--objective", "Give --requests with expected.")
        elif file is not None:
            found.mistakes.extend(mistakes_in(name, lines, file=file)[:100])


def check_bodies(spoken: Spoken, lines: Sequence[RequestLine], model: str, file: str | None, found: Collected) -> None:
    """Note requests that the protocol cannot ask."""
    wrong = 0
    for line in lines:
        try:
            spoken.body(line, model=model)
        except DeclarationError as err:
            wrong += 1
            if wrong <= 100:
                found.wrong(err.mistakes[0].what, file or "--protocol", err.mistakes[0].fix)


def rate_of(text: str, option: str) -> Decimal:
    """Requests a second.

    Raises:
        DeclarationError: That is no rate.
    """
    if not re.fullmatch(r"\d{1,9}(\.\d{1,6})?", text) or not 0 < Decimal(text) <= LARGEST_RATE:
        raise DeclarationError(
            f'"{text[:30]}" is no rate.', where=option, fix=f"Write requests a second, such as {option} 50."
        )
    return Decimal(text)


def process_of(text: str) -> Process:
    """How requests arrive.

    Raises:
        DeclarationError: That is no way to arrive.
    """
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
