"""The load of a measurement where it is recorded: a trace to be replayed, or a profile of what the service gets."""

from __future__ import annotations

import hashlib
from pathlib import Path

from gpuyield.errors import DeclarationError
from gpuyield.ledger.parquet import read_parquet
from gpuyield.measure.recorded import Recorded, profile_of_page, profile_of_trace
from gpuyield.measure.requests import RequestLine
from gpuyield.measure.traces import Trace, read_trace, trace_of
from gpuyield.steps.measure_prompts import made_up_prompts, prompts_of_lengths

LEDGER, SERVER = "ledger", "server"
"""Names that --profile takes beside files."""


def trace_from(path: Path, option: str) -> tuple[Trace, str]:
    """A trace from CSV, JSON lines or Parquet, and the digest of its file.

    Raises:
        DeclarationError: It cannot be read, or is none.
    """
    data = bytes_of(path, option)
    digest = hashlib.sha256(data).hexdigest()
    if path.suffix != ".parquet":
        return read_trace(data, where=str(path)), digest
    table = read_parquet(path)
    return trace_of((dict(zip(table.columns, row, strict=True)) for row in table.rows), where=str(path)), digest


def lines_of_trace(trace: Trace, protocol: str, *, seed: int, where: str) -> tuple[RequestLine, ...]:
    """A made-up request for each row, as long as it was; where no length is recorded, made-up ones of mixed lengths.

    Raises:
        DeclarationError: They would not fit into memory.
    """
    if (trace.prompt_tokens < 0).all() and (trace.output_tokens < 0).all():
        return made_up_prompts(protocol, seed=seed)
    return prompts_of_lengths(protocol, trace.prompt_tokens, trace.output_tokens, seed=seed, where=where)


def recorded_from(path: Path) -> Recorded:
    """A profile from a file: a log or trace of requests, or a metrics page that was saved.

    Raises:
        DeclarationError: It is neither, or tells of too few requests.
    """
    data = bytes_of(path, "--profile")
    if path.suffix != ".parquet" and data.lstrip()[:1] == b"#":
        return recorded_of_page(data.decode("utf-8", "replace"), source=str(path), where=str(path))
    trace, _ = trace_from(path, "--profile")
    return Recorded(profile=profile_of_trace(trace), source=str(path), requests=len(trace))


def recorded_of_page(page: str, *, source: str, where: str) -> Recorded:
    """A profile from what a server prints: lengths only, of all that it served since it started.

    Raises:
        DeclarationError: It tells no lengths, or of too few requests.
    """
    found = profile_of_page(page)
    if found is None:
        raise DeclarationError(
            "it tells no lengths of prompts and answers, or of fewer than 100 requests.",
            where=where,
            fix="Name a log of requests instead: JSON lines of at_s, prompt_tokens, output_tokens.",
        )
    profile, requests = found
    return Recorded(profile=profile, source=source, requests=requests)


def bytes_of(path: Path, option: str) -> bytes:
    """What is in a file.

    Raises:
        DeclarationError: It cannot be read.
    """
    try:
        return path.read_bytes()
    except OSError as err:
        raise DeclarationError(
            f"cannot be read: {err.strerror or err}.", where=str(path), fix=f"Name a file with {option}."
        ) from err
