"""Import outcomes and verdicts."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from gpuyield.errors import DeclarationError, Mistake
from gpuyield.ledger import Ledger
from gpuyield.model.declaration import Declaration
from gpuyield.outcomes.jsonl import parse_jsonl
from gpuyield.outcomes.store import Import, write_outcomes
from gpuyield.report.answer import Answer
from gpuyield.report.screens.outcomes import import_answer
from gpuyield.steps.setting import files_of, wall_clock_ms

FORMATS = ("jsonl",)
LATER_FORMATS = ("parquet", "otlp", "inspect", "lm-eval", "langfuse", "litellm", "k8s", "goodput")


def import_outcomes(*, paths: Sequence[Path], format: str, ledger_root: Path) -> Answer:
    """The answer of `gpuyield outcomes import`."""
    if not paths:
        raise DeclarationError(
            "no file is named.", where="gpuyield outcomes import", fix="Write gpuyield outcomes import outcomes.jsonl."
        )
    _check_format(format, where="--format")
    ledger = Ledger.create(ledger_root)
    done = [import_file(path, source=format, ledger=ledger, now_ms=wall_clock_ms()) for path in paths]
    return import_answer(list(zip([str(path) for path in paths], done, strict=True)))


def import_declared(declared: Declaration, *, folder: Path, ledger: Ledger, now_ms: int) -> list[Import]:
    """The files that the declaration names, each whole; one that did not change changes nothing."""
    done: list[Import] = []
    for source in declared.sources.outcomes:
        _check_format(source.format, where="sources.outcomes")
        done += [
            import_file(path, source=source.format, ledger=ledger, now_ms=now_ms) for path in files_of(source, folder)
        ]
    return done


def import_file(path: Path, *, source: str, ledger: Ledger, now_ms: int) -> Import:
    """One file of JSON lines.

    Raises:
        DeclarationError: It cannot be read, or lines of it are wrong; nothing of it is written then.
    """
    try:
        data = path.read_bytes()
    except OSError as err:
        raise DeclarationError(
            f"cannot be read: {err.strerror or err}.", where=str(path), fix="Name a file of outcomes."
        ) from err
    parsed = parse_jsonl(data.splitlines(), source=source, file=str(path))
    return write_outcomes(ledger, parsed, ingested_us=now_ms * 1000, sha256=hashlib.sha256(data).hexdigest())


def _check_format(name: str, *, where: str) -> None:
    if name in FORMATS:
        return
    later = name in LATER_FORMATS
    what = f"format {name} is not in this version." if later else f'"{name}" is no format.'
    raise DeclarationError.of([Mistake(what=what, where=where, fix="Use --format jsonl.")])
