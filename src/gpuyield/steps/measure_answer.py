"""What a search found, as document and answer."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any  # Documents are JSON.

from gpuyield import __version__
from gpuyield.measure.protocols.choices import Choices
from gpuyield.measure.witness_document import witness_remarks
from gpuyield.model.measure import ProbeStatus
from gpuyield.report.answer import Answer, Next
from gpuyield.report.screens.measure import measured_answer
from gpuyield.steps.documents import write
from gpuyield.steps.measure_document import Found, document_of
from gpuyield.steps.setting import wall_clock_ms

CERTIFIED, GATE_FAILED, UNDECIDED = 0, 10, 4


def answer_of(found: Found, *, gate: bool, ledger_root: Path, out: Path | None) -> Answer:
    """The answer; the document goes to the ledger, and to `out` where one is named."""
    page, out = (out, out.with_suffix(".json")) if out is not None and out.suffix == ".html" else (None, out)
    document, notes = document_of(found, ledger_root=ledger_root, out=out)
    if page is not None:
        _draw(found, document, page, beside=out)
        notes = (*notes, f"Page: {page}")
    return measured_answer(
        document,
        exit_code=_exit_code(found, gate=gate),
        notes=(*notes, *_remarks(found)),
        next_=(
            [Next(command=f"gpuyield verify {out}", why="checks the bounds again, from the counts alone")]
            if out is not None
            else [Next(command="gpuyield decide", why="what the measured rates mean for the next purchase")]
        ),
    )


def _draw(found: Found, document: Mapping[str, Any], page: Path, *, beside: Path | None) -> None:
    from gpuyield.report.html import page_html
    from gpuyield.report.measure_page import measure_page

    drawn = measure_page(document, now_ms=wall_clock_ms(), zone=found.asked.zone, version=__version__, path=str(beside))
    write(page, page_html(drawn).encode())


def _exit_code(found: Found, *, gate: bool) -> int:
    certified, refuted = found.measurement.certified_rps, found.measurement.refuted_rps
    needed = found.asked.at_least_rps
    if not gate or needed is None:
        return CERTIFIED if certified is not None else UNDECIDED
    if certified is not None and Decimal(repr(certified)) >= needed:
        return CERTIFIED
    return GATE_FAILED if refuted is not None and Decimal(repr(refuted)) <= needed else UNDECIDED


def _remarks(found: Found) -> list[str]:
    remarks = []
    if found.asked.requests_file is None and found.asked.trace is None and found.asked.recorded is None:
        remarks.append("The prompts were made up: what your users send may be longer or shorter. See --requests.")
    if found.served.engine is None:
        remarks.append("The server tells nothing of its engine and settings, so a change would go unseen.")
    if found.asked.judge is not None:
        remarks.append(found.asked.judge.told())
    spoken = found.asked.spoken
    if isinstance(spoken, Choices) and spoken.streams and not spoken.usage:
        remarks.append(
            "The server refuses stream_options, so nobody counts tokens: in tpot, reads that carried content stand in "
            "for them, which can only make it longer."
        )
    remarks += witness_remarks(found.measurement.probes)
    # The table cuts them short.
    remarks += dict.fromkeys(one.reason for one in found.measurement.probes if one.status is ProbeStatus.INVALID)
    return remarks
