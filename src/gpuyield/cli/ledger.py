"""gpuyield ledger: digest and housekeeping."""

from __future__ import annotations

from typing import Annotated

from cyclopts import App, Parameter

from gpuyield.cli.help import Columns
from gpuyield.cli.options import COMMON, Common
from gpuyield.report.answer import Answer

app = App(name="ledger", help_formatter=Columns("gpuyield ledger digest"))


@app.command(help_formatter=Columns("gpuyield ledger digest"))
def digest(*, common: Annotated[Common, Parameter(name="*")] = COMMON) -> Answer:
    """Print one digest of all that was collected: equal ledgers have equal digests."""
    from gpuyield.steps.ledger import digest as step

    return step(common.ledger_root)


@app.command(help_formatter=Columns("gpuyield ledger vacuum"))
def vacuum(*, common: Annotated[Common, Parameter(name="*")] = COMMON) -> Answer:
    """Delete files that no version of a table needs any more."""
    from gpuyield.steps.ledger import vacuum as step

    return step(common.ledger_root)
