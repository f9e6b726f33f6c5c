"""Progress on stderr, on a terminal only."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from gpuyield.cli.options import Common
from gpuyield.cli.streams import err

Tell = Callable[[str], None]


@contextmanager
def progress(common: Common) -> Iterator[Tell]:
    """A function that shows what is being done; it shows nothing with --quiet or where stderr is no terminal."""
    if common.quiet or not sys.stderr.isatty():
        yield _silent
        return
    from rich.console import Console

    with Console(stderr=True).status("") as status:
        yield status.update


def say(common: Common, line: str) -> None:
    """One line on stderr, unless --quiet."""
    if not common.quiet:
        err(line)


def _silent(_: str) -> None:
    return
