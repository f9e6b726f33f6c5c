"""What the machine lacks: it skips a test, and fails it in a stage of .ci/run that requires it."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest

_ENVIRONMENT = dict(os.environ)
"""As it was before any test took the settings of the machine out of it."""


def missing(stage: str, why: str) -> NoReturn:
    """Skip a test that cannot run here, so that a machine without the programs passes; fail it where
    GPUYIELD_REQUIRE_<stage> is 1, so that a stage in which nothing was shown does not look like a pass.
    """
    required = f"GPUYIELD_REQUIRE_{stage}"
    if _ENVIRONMENT.get(required) == "1":
        pytest.fail(f"{why} {required}=1.")
    pytest.skip(why)
