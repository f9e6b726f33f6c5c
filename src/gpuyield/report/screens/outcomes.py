"""The answer of `gpuyield outcomes import`: what was new."""

from __future__ import annotations

from collections.abc import Sequence

from gpuyield.model.document import schema_name
from gpuyield.outcomes.store import Import
from gpuyield.report.answer import Answer, Next
from gpuyield.report.sentences import count
from gpuyield.report.tables import Cell, Column, Kind, Table


def import_answer(done: Sequence[tuple[str, Import]]) -> Answer:
    """New and known outcomes and verdicts, by file."""
    outcomes = sum(one.new_outcomes for _, one in done)
    verdicts = sum(one.new_verdicts for _, one in done)
    orphans = sum(one.orphans for _, one in done)
    notes = (f"{count(orphans, 'verdict')} without an outcome so far: they count when it comes.",) if orphans else ()
    names = ("new_outcomes", "known_outcomes", "new_verdicts", "known_verdicts", "orphans")
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (path, *(int(getattr(one, name)) for name in names)) for path, one in done
    )
    return Answer(
        document={
            "schema": schema_name("outcomes-import"),
            "files": [{"path": row[0], **dict(zip(names, row[1:], strict=True))} for row in rows],
        },
        headline=(f"Imported {count(outcomes, 'new outcome')} and {count(verdicts, 'new verdict')}.",),
        tables=(
            Table(
                title="",
                columns=(Column("path", "file"), *(Column(name, name.replace("_", " "), Kind.COUNT) for name in names)),
                rows=rows,
            ),
        ),
        notes=notes,
        next=(Next(command="gpuyield cost --by team", why="what a verified outcome costs"),),
    )
