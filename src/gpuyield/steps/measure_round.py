"""A round: the file that tells every shard the same, and the folder in which they meet and leave their records."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any  # Documents are JSON.

import msgspec
import numpy as np

from gpuyield.errors import DeclarationError, Mistake, SourceError
from gpuyield.ledger.parquet import read_columns, write_columns
from gpuyield.ledger.whole import write_whole
from gpuyield.measure.recorded import recorded_document, recorded_of_document
from gpuyield.measure.shards import Report, Round, Shard, arrivals_sha256
from gpuyield.model.declaration import Service
from gpuyield.model.document import schema_name
from gpuyield.model.measure import RECORD_NUMBERS, Arrivals, ProbePlan, Records
from gpuyield.steps.measure_asked import Asked, with_recorded
from gpuyield.steps.measure_kept import question_key, record_columns
from gpuyield.steps.measure_question import Question

ROUND_FILE = "round.json"
_OUT = "Leave it out, or send from one machine."
_INSTEAD = {
    "headers_file": "Name a Secret with a bearer token: --token-secret.",
    "--gpu-metrics": "Declare the service and sources.prometheus: what that scraped is read when a round is merged.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundFile:
    """What the shards of a round are told. Files of the question are left out, and so is a key.

    `trace` is the name of the file with the trace that the pods get. `recorded` is what the service really gets.
    """

    schema: str
    round: Round
    question: Question
    service: Service | None
    has_requests: bool
    trace: str | None = None
    recorded: Mapping[str, Any] | None = None


def new_round(asked: Asked, question: Question, plan: ProbePlan, *, shards: int, start_at_ms: int) -> RoundFile:
    """The next probe for so many shards.

    Raises:
        DeclarationError: The question needs a file of this machine, or what one sender alone can do.
    """
    paths = [one.name for one in fields(question) if isinstance(getattr(question, one.name), Path)]
    strange = sorted({*paths} - {"requests", "trace", "token_file", "ca_file"})
    wrong = [
        Mistake(
            what="the pods do not have this file.", where=f"--{name.replace('_', '-')}", fix=_INSTEAD.get(name, _OUT)
        )
        for name in strange
    ]
    for option, is_there, what in (
        ("--judge-url", asked.judge is not None, "a model judges on one machine only."),
        ("--gpu-metrics", question.gpu_metrics is not None, "the exporter's page is read from one machine only."),
    ):
        if is_there:
            wrong.append(Mistake(what=what, where=option, fix=_INSTEAD.get(option, _OUT)))
    if wrong:
        raise DeclarationError.of(wrong)
    arrivals = arrivals_of(asked, plan)
    key = question_key(asked, None)
    round_ = Round(
        name=f"gpuyield-{key[:8]}-{plan.number}-{start_at_ms // 1000:x}",
        plan=plan,
        shards=shards,
        start_at_ms=start_at_ms,
        question_sha256=key,
        arrivals_sha256=arrivals_sha256(arrivals),
    )
    return RoundFile(
        schema=schema_name("measure-round"),
        round=round_,
        question=replace(
            question, key=None, requests=None, trace=None, token_file=None, headers_file=None, ca_file=None
        ),
        service=asked.service,
        has_requests=question.requests is not None,
        trace=None if question.trace is None else trace_name(question.trace),
        recorded=None if asked.recorded is None else recorded_document(asked.recorded),
    )


def trace_name(trace: Path) -> str:
    """What a trace is called where pods find it: its ending says how it is read."""
    return f"trace{trace.suffix}"


def with_round(asked: Asked, question: Question, file: RoundFile) -> Asked:
    """The question with what was recorded when the round was made."""
    recorded = None if file.recorded is None else recorded_of_document(file.recorded)
    return with_recorded(asked, question, recorded)


def arrivals_of(asked: Asked, plan: ProbePlan) -> Arrivals:
    """Every arrival of a probe."""
    return asked.schedule.arrivals(plan)


def check_round(asked: Asked, round_: Round, *, where: str) -> Arrivals:
    """The arrivals of a round, which belongs to this question.

    Raises:
        DeclarationError: It belongs to another one, or was drawn by another version.
    """
    if question_key(asked, None) != round_.question_sha256:
        raise DeclarationError(
            "this round belongs to another question.",
            where=where,
            fix="Give the same options and requests with which it was made.",
        )
    arrivals = arrivals_of(asked, round_.plan)
    if arrivals_sha256(arrivals) != round_.arrivals_sha256:
        raise DeclarationError(
            "here the same seed draws another schedule.",
            where=where,
            fix="Use the same version of gpuyield everywhere: see --image.",
        )
    return arrivals


def round_bytes(file: RoundFile) -> bytes:
    """A round as JSON."""
    return msgspec.json.encode(file, enc_hook=str)


def read_round(path: Path) -> RoundFile:
    """A round from its file.

    Raises:
        DeclarationError: It is none.
    """
    try:
        return msgspec.json.decode(path.read_bytes(), type=RoundFile, dec_hook=lambda kind, value: kind(value))
    except OSError as err:
        reason = err.strerror or str(err)
        raise DeclarationError(
            f"cannot be read: {reason}.", where=str(path), fix="Name the folder of a round."
        ) from err
    except msgspec.MsgspecError as err:
        raise DeclarationError(
            f"no round of this version: {err}.", where=str(path), fix="Use the same version everywhere."
        ) from err


def write_shard(folder: Path, shard: Shard, plan: ProbePlan, arrivals: Arrivals) -> None:
    """Leave what a shard found: the report comes last, so that what has one is whole.

    Raises:
        DeclarationError: It cannot be written.
    """
    report = shard.report
    stem = f"shard-{report.index:05}"
    lags = np.concatenate([shard.lags_ns, shard.loop_lags_ns])
    is_loop = np.arange(len(lags)) >= len(shard.lags_ns)
    columns = {
        f"{stem}.parquet": record_columns(plan, arrivals, shard.records),
        f"{stem}.lags.parquet": {"lag_ns": lags, "is_loop": is_loop},
    }
    for name, values in columns.items():
        write_columns(folder / name, values)
    files = {name: _sha256(folder / name) for name in columns}
    write_whole(folder / f"{stem}.json", msgspec.json.encode(replace(report, files=files)))


def read_shards(folder: Path) -> Sequence[Shard]:
    """What the shards left.

    Raises:
        SourceError: A file is torn, changed or missing; all mistakes.
    """
    found: list[Shard] = []
    mistakes: list[Mistake] = []
    for path in sorted(folder.glob("shard-*.json")):
        try:
            found.append(_read_shard(path))
        except (DeclarationError, OSError, KeyError, ValueError, msgspec.MsgspecError) as err:
            what = err.mistakes[0].what if isinstance(err, DeclarationError) else f"it is not whole ({err})."
            mistakes.append(Mistake(what=what, where=str(path), fix="Copy the folder again, or run the probe again."))
    if mistakes:
        raise SourceError.of(mistakes)
    return found


def _read_shard(path: Path) -> Shard:
    report = msgspec.json.decode(path.read_bytes(), type=Report)
    stem = path.name.removesuffix(".json")
    if stem != f"shard-{report.index:05}":
        raise ValueError(f"it is the report of shard {report.index}")
    rows, lags = path.with_name(f"{stem}.parquet"), path.with_name(f"{stem}.lags.parquet")
    for one in (rows, lags):
        if report.files.get(one.name) != _sha256(one):
            raise ValueError(f"{one.name} is another file than its report says")
    columns, told = read_columns(rows), read_columns(lags)
    is_loop = told["is_loop"].astype(bool)
    return Shard(
        report=report,
        records=Records(
            **{name: columns[name].astype(np.int64) for name in RECORD_NUMBERS},
            status=columns["status"].astype(np.int8),
            grades={
                name.removeprefix("grade_"): column.astype(np.int8)
                for name, column in columns.items()
                if name.startswith("grade_")
            },
        ),
        lags_ns=told["lag_ns"][~is_loop].astype(np.int64),
        loop_lags_ns=told["lag_ns"][is_loop].astype(np.int64),
    )


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
