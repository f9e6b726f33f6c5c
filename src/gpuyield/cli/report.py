"""gpuyield report: one page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from gpuyield.cli.options import COMMON, SPAN, Common, Span, Whole
from gpuyield.report.answer import Answer


def report(
    *,
    out: Path | None = None,
    jobs: Path | None = None,
    capacity: Path | None = None,
    gpus: Whole | None = None,
    origin: str | None = None,
    span: Annotated[Span, Parameter(name="*")] = SPAN,
    common: Annotated[Common, Parameter(name="*")] = COMMON,
) -> Answer:
    """One page: the answer, and how each number was made.

    Parameters
    ----------
    out:
        File to write: .html (opens offline), .md or .json.
    jobs:
        Declared jobs, as in gpuyield plan (default: the observed batch jobs of the ledger).
    capacity:
        What exists, as in gpuyield plan.
    gpus:
        Or a constant number of GPUs.
    origin:
        Start of the plan (default: now, to the minute).
    """
    from gpuyield.cli.progress import progress
    from gpuyield.steps.report import report_answer as step

    with progress(common) as tell:
        return step(
            file=common.file,
            ledger_root=common.ledger_root,
            window=span.window,
            begin=span.begin,
            end=span.end,
            jobs=jobs,
            capacity=capacity,
            gpus=gpus,
            origin=origin,
            out=out,
            tell=tell,
        )
