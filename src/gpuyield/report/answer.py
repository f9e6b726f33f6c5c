"""What a command answers: one document for machines, and the words and tables for people."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import tzinfo
from typing import Any  # JSON has no narrower type than this.

from gpuyield.errors import Mistake
from gpuyield.report.tables import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class Next:
    """A command that makes sense now, and what it is for."""

    command: str
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The answer to one command.

    `headline` is the answer in words, first line first; `csv` is the table for `-o csv` (None: the first of
    `tables`); `notes` are gaps and remarks; `text` stands in for all of these where the answer is a text of its own
    (a schema, a draft). `exit_code` is 0, 4 or 10: what failed is an error, not an answer. Only `doctor` answers
    what failed: then it is 3, and `mistakes` go to stderr beside the answer. `zone` is that of the times in words and
    titles (None: there are none; a column of instants has its table's); the answer names it once.
    """

    document: Mapping[str, Any]
    headline: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    csv: Table | None = None
    notes: tuple[str, ...] = ()
    next: tuple[Next, ...] = ()
    text: str | None = None
    exit_code: int = 0
    mistakes: tuple[Mistake, ...] = ()
    zone: tzinfo | None = None

    @property
    def remarks(self) -> tuple[str, ...]:
        """The notes, and last the zone of all times that are shown."""
        zone = self.zone or next((table.zone for table in self.tables if table.has_instants), None)
        return self.notes if zone is None else (*self.notes, f"Times are in {zone}.")
