"""gpuyield collect: sources into the ledger."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from gpuyield.cli.options import COMMON, SPAN, Common, Span
from gpuyield.report.answer import Answer


def collect(
    *,
    refresh: Annotated[bool, Parameter(negative="")] = False,
    span: Annotated[Span, Parameter(name="*")] = SPAN,
    common: Annotated[Common, Parameter(name="*")] = COMMON,
) -> Answer:
    """Read the sources into the ledger: incremental, resumable, and the same ledger however often it is run.

    Parameters
    ----------
    refresh:
        Read days again that are complete.
    """
    from gpuyield.cli.progress import progress
    from gpuyield.steps.collect import collect as step

    with progress(common) as tell:
        return step(
            file=common.file,
            ledger_root=common.ledger_root,
            window=span.window,
            begin=span.begin,
            end=span.end,
            refresh=refresh,
            tell=tell,
        )
