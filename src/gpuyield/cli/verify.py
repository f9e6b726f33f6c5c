"""gpuyield verify: check a document again, from its inputs alone."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from gpuyield.cli.options import COMMON, Common
from gpuyield.report.answer import Answer


def verify(
    document: Path,
    /,
    *,
    inputs: Path | None = None,
    jobs: Path | None = None,
    capacity: Path | None = None,
    common: Annotated[Common, Parameter(name="*")] = COMMON,
) -> Answer:
    """Check a plan or decision again, from its canonical inputs alone. Exit 10 when it is refused.

    Parameters
    ----------
    document:
        The document to check.
    inputs:
        Its canonical inputs (default: NAME.inputs.json beside it, else the ledger's copy).
    jobs:
        Job file that the plan must have been made from.
    capacity:
        Capacity file that the plan must have been made from.
    """
    from gpuyield.steps.verify import verify_answer as step

    return step(document=document, inputs=inputs, jobs=jobs, capacity=capacity, ledger_root=common.ledger_root)
