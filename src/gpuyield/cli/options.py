"""Options that many commands share. A flag beats the environment, that beats the file, that beats the default."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from cyclopts import Group, Parameter, Token
from cyclopts.validators import Number

_COMMON = Group("Common options", sort_key=90)
_WINDOW = Group("Window", sort_key=50)


def _whole(_: object, tokens: Sequence[Token]) -> int:
    text = tokens[0].value
    if not re.fullmatch(r"[+-]?[0-9]{1,19}", text):
        raise ValueError(f'"{text[:40]}" is no whole number.')
    return int(text)


Whole = Annotated[int, Parameter(converter=_whole)]
"""A whole number; `1.5` is a mistake, never 2."""

Seed = Annotated[int, Parameter(converter=_whole, validator=Number(gte=0))]
"""A whole number from 0 on."""


class Output(StrEnum):
    """The format of the answer on stdout."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"
    MARKDOWN = "markdown"


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class Common:
    """What every command takes."""

    file: Annotated[Path, Parameter(name=("--file", "-f"), group=_COMMON)] = Path("gpuyield.yaml")
    """What the team declares."""

    ledger: Annotated[Path | None, Parameter(group=_COMMON)] = None
    """Folder of everything collected (default: .gpuyield beside the file given with -f, else here)."""

    output: Annotated[Output, Parameter(name=("--output", "-o"), group=_COMMON)] = Output.TABLE
    """Format of the answer on stdout."""

    quiet: Annotated[bool, Parameter(group=_COMMON, negative="")] = False
    """No progress and no hints on stderr."""

    debug: Annotated[bool, Parameter(group=_COMMON, negative="")] = False
    """Show what happens inside, and the whole trace of an error of ours."""

    @property
    def ledger_root(self) -> Path:
        """The folder of the ledger: as named, else `.gpuyield` beside the declaration."""
        return self.ledger if self.ledger is not None else self.file.parent / ".gpuyield"


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """The window that a question is about."""

    window: Annotated[str | None, Parameter(group=_WINDOW)] = None
    """The last 14d, 36h, ... that were collected, or a calendar month such as 2026-11 (default: 14d)."""

    begin: Annotated[str | None, Parameter(name="--from", group=_WINDOW)] = None
    """Start, such as 2026-11-16T00:00:00Z; needs --to."""

    end: Annotated[str | None, Parameter(name="--to", group=_WINDOW)] = None
    """End (not part of the window)."""


COMMON = Common()
SPAN = Span()
