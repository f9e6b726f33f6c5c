"""Digest and housekeeping of the ledger."""

from __future__ import annotations

from pathlib import Path

from gpuyield.ledger import Ledger
from gpuyield.model.document import schema_name
from gpuyield.report.answer import Answer, Next


def digest(root: Path) -> Answer:
    """One digest of all that was collected."""
    found = Ledger.existing(root).digest()
    return Answer(
        document={"schema": schema_name("ledger-digest"), "digest": found},
        headline=(found,),
        next=(Next(command="gpuyield account", why="where every GPU-hour went"),),
    )


def vacuum(root: Path) -> Answer:
    """Delete files that no version of a table needs any more."""
    deleted = Ledger.existing(root).vacuum()
    files = "file" if deleted == 1 else "files"
    return Answer(
        document={"schema": schema_name("ledger-vacuum"), "deleted_files": deleted},
        headline=(f"Deleted {deleted} {files} that no table needs any more.",),
        next=(Next(command="gpuyield ledger digest", why="what is kept is unchanged"),),
    )
