"""gpuyield doctor: which sources answer, and what is missing."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from gpuyield.cli.options import COMMON, Common
from gpuyield.report.answer import Answer


def doctor(
    *,
    opencost: Annotated[bool, Parameter(negative="")] = False,
    common: Annotated[Common, Parameter(name="*")] = COMMON,
) -> Answer:
    """Which sources answer, what is missing, and what each gap costs in certainty.

    Parameters
    ----------
    opencost:
        Compare a live OpenCost with our own integration.
    """
    from gpuyield.cli.progress import progress
    from gpuyield.steps.doctor import doctor as step

    with progress(common) as tell:
        return step(file=common.file, ledger_root=common.ledger_root, opencost=opencost, tell=tell)
