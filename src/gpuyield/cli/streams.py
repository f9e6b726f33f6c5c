"""The two streams: answers go to stdout, all else to stderr."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout


@contextmanager
def writable() -> Iterator[None]:
    """Streams such that every text can be written: a closed one swallows it, a narrow one shows escapes."""
    with (
        open(os.devnull, "w", encoding="utf-8") as nowhere,
        redirect_stdout(sys.stdout or nowhere),
        redirect_stderr(sys.stderr or nowhere),
    ):
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")
        yield


def out(line: str = "") -> None:
    """A line of the answer."""
    sys.stdout.write(f"{line}\n")


def err(line: str) -> None:
    """A line beside the answer."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()
