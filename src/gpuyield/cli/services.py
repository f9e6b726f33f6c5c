"""gpuyield services: objectives kept round the clock, and the headroom left."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from gpuyield.cli.options import COMMON, SPAN, Common, Span
from gpuyield.report.answer import Answer


def services(
    *,
    span: Annotated[Span, Parameter(name="*")] = SPAN,
    common: Annotated[Common, Parameter(name="*")] = COMMON,
) -> Answer:
    """Objectives kept round the clock, and the headroom left.

    The headroom is what gpuyield measure certified for the replicas there are, less the peak of what was asked (the
    99th percentile of five minutes). Without a measurement that still counts it is not known.
    """
    from gpuyield.steps.services import services_answer as step

    return step(
        file=common.file,
        ledger_root=common.ledger_root,
        window=span.window,
        begin=span.begin,
        end=span.end,
    )
