"""gpuyield cost: cost per verified outcome."""

from __future__ import annotations

from typing import Annotated, Literal

from cyclopts import Parameter

from gpuyield.cli.options import COMMON, SPAN, Common, Span
from gpuyield.report.answer import Answer


def cost(
    *,
    by: str | None = None,
    basis: Literal["list", "contracted", "effective", "billed"] | None = None,
    gate: Annotated[bool, Parameter(negative="")] = False,
    span: Annotated[Span, Parameter(name="*")] = SPAN,
    common: Annotated[Common, Parameter(name="*")] = COMMON,
) -> Answer:
    """Cost per verified outcome, and the reconciled bill.

    Parameters
    ----------
    by:
        One or more of team,namespace,family,workload,flavor; a family is one declared under batch.
    basis:
        Which prices count (default: the declared ones).
    gate:
        Exit 10 when the bill does not reconcile.
    """
    from gpuyield.steps.cost import cost_answer as step

    return step(
        file=common.file,
        ledger_root=common.ledger_root,
        window=span.window,
        begin=span.begin,
        end=span.end,
        by=by,
        basis=basis,
        gate=gate,
    )
