"""gpuyield outcomes: what came of the work."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from gpuyield.cli.help import Columns
from gpuyield.cli.options import COMMON, Common
from gpuyield.report.answer import Answer

_HELP = Columns("gpuyield outcomes import --format jsonl outcomes/evals.jsonl")

app = App(name="outcomes", help_formatter=_HELP)


@app.command(name="import", help_formatter=Columns("gpuyield outcomes import --format jsonl outcomes/evals.jsonl"))
def import_outcomes(
    *paths: Path,
    format: str = "jsonl",
    common: Annotated[Common, Parameter(name="*")] = COMMON,
) -> Answer:
    """Import outcomes and verdicts; the same file twice changes nothing.

    Parameters
    ----------
    paths:
        Files of outcomes (one JSON object a line; a verdict if it has `check`).
    format:
        Format of the files: jsonl.
    """
    from gpuyield.steps.outcomes import import_outcomes as step

    return step(paths=paths, format=format, ledger_root=common.ledger_root)
