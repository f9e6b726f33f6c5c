"""gpuyield check: every mistake of gpuyield.yaml at once."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from gpuyield.cli.options import COMMON, Common
from gpuyield.report.answer import Answer


def check(*, common: Annotated[Common, Parameter(name="*")] = COMMON) -> Answer:
    """Validate gpuyield.yaml: every mistake at once as file:line:col, what is wrong, and its fix."""
    from gpuyield.steps.check import check as step

    return step(common.file)
