"""One shard of a probe, as it runs in a pod: it meets the others, sends its part, and leaves what it found."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType

from gpuyield.errors import DeclarationError, SourceError
from gpuyield.measure.protocols.choices import Choices
from gpuyield.measure.sender.abort import Condition
from gpuyield.measure.sender.bench import Flight, LiveBench
from gpuyield.measure.sender.ceiling import self_test
from gpuyield.measure.sender.clock import clock_error_s
from gpuyield.measure.shards import Report, Round, Shard, Symptoms, part_of
from gpuyield.model.declaration import Declaration
from gpuyield.model.document import schema_name
from gpuyield.model.measure import Arrivals
from gpuyield.report.answer import Answer
from gpuyield.steps.measure_asked import Asked, read_question
from gpuyield.steps.measure_meeting import Meeting
from gpuyield.steps.measure_orders import orders_of
from gpuyield.steps.measure_question import Question
from gpuyield.steps.measure_round import RoundFile, check_round, read_round, with_round, write_shard
from gpuyield.steps.measure_service import first_answer, looker
from gpuyield.steps.setting import wall_clock_ms

INDEX_VARIABLE = "JOB_COMPLETION_INDEX"
_SETTLE_MS = 3_000
"""Idle connections are opened so long before the start: a server closes them when nothing comes for some seconds."""

Say = Callable[[str], None]


def run_shard(question: Question, round_file: Path, records: Path, *, apply: bool, say: Say) -> Answer:
    """The answer of `gpuyield measure --shard`; of the question only files and key are its own.

    Raises:
        DeclarationError: The round is none, or asks what this machine cannot send.
        SourceError: The service is out of reach, another shard is missing or stopped, or it was too late.
    """
    file = read_round(round_file)
    index = _index(file.round)
    asked = _asked(file, question)
    arrivals = check_round(asked, file.round, where=str(round_file))
    if file.round.plan.rate_rps > asked.max_rps:
        raise DeclarationError(
            "the rate of the round is above --max-rate.", where=str(round_file), fix="Make the round again."
        )
    part = part_of(arrivals, index, file.round.shards)
    document = {
        "schema": schema_name("measure-shard"),
        "round": file.round.name,
        "shard": index,
        "shards": file.round.shards,
        "requests": len(part),
        "applied": apply,
    }
    told = f"Shard {index} of {file.round.shards}: {len(part)} of {len(arrivals)} requests to {asked.target.url}."
    if not apply:
        return Answer(document=document, headline=("Nothing was sent.", told))
    folder = records / file.round.name
    meeting = Meeting(folder, index, file.round.shards)
    with _stopped_by_signals():
        meeting.come(file)
        say(told)
        try:
            _send(file.round, asked, part, meeting, folder, index)
        except BaseException:
            meeting.stop()
            raise
    return Answer(document=document, headline=(told, "All of them were sent."))


def _send(round_: Round, asked: Asked, part: Arrivals, meeting: Meeting, folder: Path, index: int) -> None:
    look = looker(asked)
    served = look()
    first = first_answer(asked)
    asked = replace(asked, spoken=first.spoken)

    def tell(_: Flight) -> None:
        if meeting.is_stopped:
            raise SourceError("another shard stopped: so did this one.", where=str(folder), fix="See its log.")

    conditions = [_share(one, round_.shards) for one in asked.abort_if]
    orders = orders_of(asked, cost=self_test(), e2e_s=first.e2e_s)
    with LiveBench(replace(orders, abort_if=conditions, look=look, tell=tell)) as bench:
        meeting.wait(until_ms=round_.start_at_ms - _SETTLE_MS)
        _sleep_until(round_.start_at_ms - _SETTLE_MS)
        run = bench.run(round_.plan, part, start_ns=_monotonic_ns(round_.start_at_ms))
        vitals = bench.vitals
    assert vitals is not None
    spoken = asked.spoken
    report = Report(
        round=round_.name,
        index=index,
        files={},
        symptoms=Symptoms(
            throttled_s=vitals.throttled_s,
            waited_s=vitals.waited_s,
            duration_s=vitals.duration_s,
            shortage=vitals.shortage,
            lost_worker=vitals.lost_worker,
        ),
        ceiling_share=run.health.ceiling_share,
        changed=run.changed,
        served=served,
        usage=spoken.usage if isinstance(spoken, Choices) else None,
        beat_ms=meeting.beat_ms,
        seen_ms=meeting.seen_ms,
        clock_error_s=clock_error_s(),
    )
    shard = Shard(report=report, records=run.records, lags_ns=vitals.lags_ns, loop_lags_ns=vitals.loop_lags_ns)
    write_shard(folder, shard, round_.plan, part)


def _asked(file: RoundFile, own: Question) -> Asked:
    if file.has_requests and own.requests is None:
        raise DeclarationError("the round sends requests of a file.", where="--requests", fix="Name that file.")
    if file.trace is not None and own.trace is None:
        raise DeclarationError("the round replays a trace.", where="--trace", fix="Name its file.")
    question = replace(
        file.question,
        requests=own.requests,
        trace=own.trace,
        token_file=own.token_file,
        ca_file=own.ca_file,
        key=own.key,
    )
    declared = Declaration(services=() if file.service is None else (file.service,))
    return with_round(read_question(question, declared), question, file)


def _index(round_: Round) -> int:
    text = os.environ.get(INDEX_VARIABLE, "")
    if not re.fullmatch(r"\d{1,4}", text) or int(text) >= round_.shards:
        raise DeclarationError(
            f"this is no index of a shard from 0 to {round_.shards - 1}.",
            where=INDEX_VARIABLE,
            fix="An Indexed Job sets it; elsewhere set it yourself.",
        )
    return int(text)


def _share(condition: Condition, shards: int) -> Condition:
    """Each shard sees its own requests in flight."""
    return replace(condition, limit=condition.limit / shards) if condition.what == "in_flight" else condition


def _monotonic_ns(at_ms: int) -> int:
    return time.monotonic_ns() + at_ms * 1_000_000 - time.time_ns()


def _sleep_until(at_ms: int) -> None:
    time.sleep(max(0, at_ms - wall_clock_ms()) / 1000)


@contextmanager
def _stopped_by_signals() -> Iterator[None]:
    """SIGTERM ends it as Ctrl-C does: the first process of a container would not even notice it."""

    def stop(_: int, __: FrameType | None) -> None:
        raise KeyboardInterrupt("Nothing is sent any more.")

    before = {one: signal.signal(one, stop) for one in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
