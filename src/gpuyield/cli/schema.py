"""gpuyield schema: the JSON Schema of gpuyield.yaml."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from gpuyield.cli.options import COMMON, Common
from gpuyield.report.answer import Answer


def schema(*, common: Annotated[Common, Parameter(name="*")] = COMMON) -> Answer:
    """Print the JSON Schema of gpuyield.yaml, for completion in editors."""
    from gpuyield.steps.check import schema as step

    return step()
