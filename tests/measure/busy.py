"""Measuring on a machine that may be too busy for it: the sender says so, and then nothing was shown."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from doubles.command import Ended
from required import missing

_Found = TypeVar("_Found")


def measured_when_quiet(measure: Callable[[int], _Found], *, why_invalid: Callable[[_Found], str]) -> _Found:
    """What `measure` finds, which gets the number of the attempt; tried again once where it was invalid.

    `why_invalid` says why nothing was measured, empty when it was. Where that is so again the test is skipped, and
    failed with GPUYIELD_REQUIRE_MEASURING=1, so that a stage in which nothing was measured does not look like a pass.
    """
    found = measure(0)
    if why_invalid(found):
        found = measure(1)
    why = why_invalid(found)
    if why:
        missing("MEASURING", f"this machine is too busy to measure on (2 attempts): {why}")
    return found


def why_invalid(done: Ended) -> str:
    """Why a command measured nothing; empty when it did."""
    if done.document["result"]["stopped_because"] != "invalid":
        return ""
    return str(done.document["probes"][-1]["reason"])
