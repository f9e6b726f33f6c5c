"""gpuyield decide: do we need to buy?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from gpuyield.cli.options import COMMON, SPAN, Common, Span, Whole
from gpuyield.report.answer import Answer


def decide(
    *,
    jobs: Path | None = None,
    capacity: Path | None = None,
    gpus: Whole | None = None,
    origin: str | None = None,
    horizon: str = "26w",
    gate: Annotated[bool, Parameter(negative="")] = False,
    out: Path | None = None,
    span: Annotated[Span, Parameter(name="*")] = SPAN,
    common: Annotated[Common, Parameter(name="*")] = COMMON,
) -> Answer:
    """Do we need to buy GPUs? The levers in order, with their proof.

    Parameters
    ----------
    jobs:
        Declared jobs, as in gpuyield plan (default: the observed batch jobs of the ledger).
    capacity:
        What exists, as in gpuyield plan.
    gpus:
        Or a constant number of GPUs.
    origin:
        Start of the plan (default: now, to the minute).
    horizon:
        How far a forecast of demand looks ahead. This version makes none: the length is kept in the document, and
        changes no answer.
    gate:
        Exit 0 when no purchase is needed, 10 when one is, 4 when that is unknown.
    out:
        File to write the decision to as well, with its inputs beside it.
    """
    from gpuyield.cli.progress import progress
    from gpuyield.steps.decide import decide_answer as step

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
            horizon=horizon,
            gate=gate,
            out=out,
            tell=tell,
        )
