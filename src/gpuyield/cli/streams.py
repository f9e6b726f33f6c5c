"""The two streams: answers go to stdout, all else to stderr."""

from __future__ import annotations

import sys


def out(line: str = "") -> None:
    """A line of the answer."""
    sys.stdout.write(f"{line}\n")


def err(line: str) -> None:
    """A line beside the answer."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()
