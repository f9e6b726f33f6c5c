"""The two streams: answers go to stdout, all else to stderr."""

from __future__ import annotations

import io
import os
import sys


def prepare() -> None:
    """Make both streams such that every text can be written: a closed one swallows it, a narrow one shows escapes."""
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def out(line: str = "") -> None:
    """A line of the answer."""
    sys.stdout.write(f"{line}\n")


def err(line: str) -> None:
    """A line beside the answer."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()
