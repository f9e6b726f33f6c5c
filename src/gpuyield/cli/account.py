"""gpuyield account: where every GPU-hour went."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from gpuyield.cli.options import COMMON, SPAN, Common, Span
from gpuyield.report.answer import Answer


def account(
    *,
    by: str | None = None,
    span: Annotated[Span, Parameter(name="*")] = SPAN,
    common: Annotated[Common, Parameter(name="*")] = COMMON,
) -> Answer:
    """Where every GPU-hour went, and who holds what.

    Parameters
    ----------
    by:
        One or more of team,namespace,family,workload,flavor,hour; a family is one declared under batch.
    """
    from gpuyield.steps.account import account_answer as step

    return step(
        file=common.file,
        ledger_root=common.ledger_root,
        window=span.window,
        begin=span.begin,
        end=span.end,
        by=by,
    )
