"""gpuyield measure: the highest rate that a service really sustains."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from gpuyield.cli.measure_cluster import BY_ITSELF, Cluster, answer_beyond
from gpuyield.cli.measure_load import AS_ASKED, Load, answer_instead
from gpuyield.cli.options import COMMON, Common, Seed, Whole
from gpuyield.report.answer import Answer


def measure(
    *,
    service: str | None = None,
    url: str | None = None,
    model: str | None = None,
    objective: tuple[str, ...] = (),
    requests: Path | None = None,
    level: Literal["quick", "standard", "strict"] = "standard",
    max_rate: str = "100",
    max_duration: str | None = None,
    at_least: str | None = None,
    gate: Annotated[bool, Parameter(negative="")] = False,
    abort_if: tuple[str, ...] = (),
    arrivals: str = "poisson",
    protocol: Literal["chat", "completions", "responses", "embeddings", "http"] = "chat",
    stream: bool = True,
    check: tuple[str, ...] = (),
    reader: str | None = None,
    judge_url: str | None = None,
    judge_model: str | None = None,
    judge_token_file: Path | None = None,
    judge_prompt: Path | None = None,
    judge_at_most: Whole = 20_000,
    token_file: Path | None = None,
    headers_file: Path | None = None,
    ca_file: Path | None = None,
    gpu_metrics: str | None = None,
    replicas: Whole | None = None,
    gpus_per_replica: Whole | None = None,
    seed: Seed = 0,
    workers: Whole = 1,
    apply: Annotated[bool, Parameter(negative="")] = False,
    out: Path | None = None,
    load: Annotated[Load, Parameter(name="*")] = AS_ASKED,
    cluster: Annotated[Cluster, Parameter(name="*")] = BY_ITSELF,
    common: Annotated[Common, Parameter(name="*")] = COMMON,
) -> Answer:
    """The highest rate that a service really sustains: certified, refuted, and what lies between.

    It sends load, and so it shows what it would send and stops there, unless --apply is given. Hardware and settings
    stay as they are; the rate varies, and the quality of the answers counts. Ctrl-C stops at once, and the same
    command goes on after the last probe. A key is read from --token-file, or from GPUYIELD_API_KEY.

    Parameters
    ----------
    service:
        A service that gpuyield.yaml declares, with its endpoint, model and objectives.
    url:
        Or the address of any server; it ends in /v1 for OpenAI-compatible ones.
    model:
        Model to ask, as /v1/models lists it.
    objective:
        Such as 'ttft p95 800ms', 'error for 99.9%' or 'exact for 95%'; may be repeated.
    requests:
        JSON lines of {id, messages|prompt|input|body, max_tokens, expected} (default: made-up prompts).
    level:
        How sure the answer must be; quick never certifies.
    max_rate:
        Requests a second that are never exceeded.
    max_duration:
        The longest time to send load.
    at_least:
        Requests a second that are needed, for --gate.
    gate:
        Exit 0 when --at-least is certified, 10 when it is refuted, 4 when neither is.
    abort_if:
        Stop at once when this holds: 'error over 20%', 'ttft p99 over 5s', 'in_flight over 5000'; may be repeated.
    arrivals:
        How requests arrive: poisson, constant, gamma:CV for bursts, or recorded: as bursty as --profile.
    protocol:
        What the server speaks; http sends the body of each request as it is.
    stream:
        Ask for answers token by token.
    check:
        A function that grades, as NAME=module:function; may be repeated.
    reader:
        A function that finds the answer in a body, as module:function, for --protocol http.
    judge_url:
        An OpenAI-compatible server whose model grades answers, for an objective such as 'judge 0.7 for 90%'. It gets
        each measured request with its answer, after the probe that brought it.
    judge_model:
        The model that judges.
    judge_token_file:
        File with a bearer token for the judge.
    judge_prompt:
        File with what the judge is asked instead: {answer}, and {request}, {expected}, {mark} where wanted.
    judge_at_most:
        How often the judge is asked at most.
    token_file:
        File with a bearer token.
    headers_file:
        File with further headers, one a line.
    ca_file:
        Certificates to trust, as PEM.
    gpu_metrics:
        Metrics page of the GPU exporter, read beside the load to say how busy the GPUs were.
    replicas:
        How many replicas answer under the URL; without it no rate of one replica, and no headroom, follows.
    gpus_per_replica:
        GPUs of each replica.
    seed:
        The same seed sends the same requests at the same times.
    workers:
        Sender processes; one does for most services.
    apply:
        Send the load.
    out:
        File to write the measurement to as well, with its inputs beside it; NAME.html: a page with pictures, and the
        measurement beside it.
    """
    from gpuyield.cli.progress import progress, say
    from gpuyield.errors import DeclarationError
    from gpuyield.steps.measure import measure as step
    from gpuyield.steps.measure_question import Question

    if check or reader is not None:
        # As with `python -m`: what lies in this folder may be named.
        sys.path.insert(0, str(Path.cwd()))
    question = Question(
        service=service,
        url=url,
        model=model,
        objectives=objective,
        requests=requests,
        level=level,
        max_rate=max_rate,
        max_duration=max_duration,
        at_least=at_least,
        abort_if=abort_if,
        arrivals=arrivals,
        protocol=protocol,
        stream=stream,
        checks=check,
        reader=reader,
        judge_url=judge_url,
        judge_model=judge_model,
        judge_token_file=judge_token_file,
        judge_prompt=judge_prompt,
        judge_at_most=judge_at_most,
        token_file=token_file,
        headers_file=headers_file,
        ca_file=ca_file,
        gpu_metrics=gpu_metrics,
        replicas=replicas,
        gpus_per_replica=gpus_per_replica,
        key=os.environ.get("GPUYIELD_API_KEY"),
        seed=seed,
        workers=workers,
        trace=load.trace,
        profile=load.profile,
    )
    modes = [*load.modes, *cluster.modes]
    if len(modes) > 1:
        raise DeclarationError(f"{' and '.join(modes)} are there together.", where=modes[0], fix="Write one of them.")
    instead = answer_instead(load, question, common, apply=apply, gate=gate, out=out)
    if instead is not None:
        return instead
    beyond = answer_beyond(cluster, question, common, apply=apply, gate=gate, out=out)
    if beyond is not None:
        return beyond
    with progress(common) as tell:
        return step(
            question,
            file=common.file,
            ledger_root=common.ledger_root,
            apply=apply,
            gate=gate,
            out=out,
            say=lambda line: say(common, line),
            tell=tell,
        )
