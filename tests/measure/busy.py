"""Measuring on a machine that may be too busy for it: the sender says so, and then nothing was shown."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TypeVar

import pytest

from doubles.command import Ended

_Found = TypeVar("_Found")
_ATTEMPTS = 2
_REQUIRED = os.environ.get("GPUYIELD_REQUIRE_MEASURING") == "1"
"""Looked up before any test takes the settings of the machine out of its environment."""


def measured_when_quiet(measure: Callable[[int], _Found], *, why_invalid: Callable[[_Found], str]) -> _Found:
    """What `measure` finds, which gets the number of the attempt; tried again once where it was invalid.

    `why_invalid` says why nothing was measured, empty when it was. Where that is so again the test is skipped, and
    failed with GPUYIELD_REQUIRE_MEASURING=1, so that a stage in which nothing was measured does not look like a pass.
    """
    why = ""
    for attempt in range(_ATTEMPTS):
        found = measure(attempt)
        why = why_invalid(found)
        if not why:
            return found
    said = f"this machine is too busy to measure on ({_ATTEMPTS} attempts): {why}"
    if _REQUIRED:
        pytest.fail(f"{said} GPUYIELD_REQUIRE_MEASURING=1.")
    pytest.skip(said)


def why_invalid(done: Ended) -> str:
    """Why a command measured nothing; empty when it did."""
    if done.document["result"]["stopped_because"] != "invalid":
        return ""
    return str(done.document["probes"][-1]["reason"])
