"""Check a document again, from its inputs alone."""

from __future__ import annotations

from pathlib import Path

from gpuyield.errors import DeclarationError
from gpuyield.report.answer import Answer
from gpuyield.report.screens.verify import verify_answer as answer_of
from gpuyield.steps.documents import place_of_inputs
from gpuyield.verify import check, compare_sources, passed_over, read_document, read_limited
from gpuyield.verify.report import Refused


def verify_answer(
    *, document: Path, inputs: Path | None, jobs: Path | None, capacity: Path | None, ledger_root: Path
) -> Answer:
    """The answer of `gpuyield verify`: 0 accepted, 10 refused."""
    try:
        found = read_document(document)
    except Refused as err:
        raise DeclarationError(
            f"not a document: {err}", where=str(document), fix="Name a document, such as plan.json."
        ) from err
    except OSError as err:
        raise DeclarationError(
            f"cannot be read: {err.strerror or err}.", where=str(document), fix="Name a document, such as plan.json."
        ) from err
    place = place_of_inputs(document, found, inputs, ledger_root)
    try:
        data = read_limited(place)
        others = compare_sources(data, [path for path in (jobs, capacity) if path is not None])
    except OSError as err:
        raise DeclarationError(f"cannot be read: {err.strerror or err}.", where=str(err.filename)) from err
    except Refused as err:
        raise DeclarationError(
            f"not canonical inputs: {err}", where=str(place), fix="Name the file that was written beside the document."
        ) from err
    other_inputs = passed_over(document, place) if inputs is None else None
    return answer_of(
        check(found, data),
        document=str(document),
        inputs=str(place),
        passed_over=None if other_inputs is None else str(other_inputs),
        others=tuple(others),
    )
