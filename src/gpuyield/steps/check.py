"""Validate gpuyield.yaml, and print its JSON Schema."""

from __future__ import annotations

import json
from pathlib import Path

from gpuyield.model.declaration import Declaration
from gpuyield.model.document import schema_name
from gpuyield.report.answer import Answer, Next
from gpuyield.report.sentences import count
from gpuyield.steps.setting import read_declaration


def check(file: Path) -> Answer:
    """What the file declares; with mistakes, all of them are the answer (exit 2)."""
    declared = read_declaration(file, required=True)
    without = [service.name for service in declared.services if not service.objectives]
    open_ended = [one.name for one in declared.batch if one.deadline is None and one.due is None]
    notes = []
    if without:
        notes.append(f"{count(len(without), 'service')} without an objective: {', '.join(without)}.")
    if open_ended:
        notes.append(
            f"{count(len(open_ended), 'batch family', 'batch families')} without a deadline: {', '.join(open_ended)}."
        )
    if not declared.prices:
        notes.append("No prices: answers are in GPU-hours only.")
    return Answer(
        document={
            "schema": schema_name("check"),
            "file": str(file),
            "mistakes": [],
            "services": len(declared.services),
            "services_without_objective": without,
            "batch": len(declared.batch),
            "batch_without_deadline": open_ended,
            "prices": len(declared.prices),
        },
        headline=(_summary(file, declared),),
        notes=tuple(notes),
        next=(Next(command="gpuyield collect --window 14d", why="read the sources into the ledger"),),
    )


def schema() -> Answer:
    """The JSON Schema of gpuyield.yaml."""
    from gpuyield.declare.schema import declaration_schema

    document = declaration_schema()
    return Answer(document=document, text=json.dumps(document, ensure_ascii=False, indent=2))


def _summary(file: Path, declared: Declaration) -> str:
    parts = [
        count(len(declared.services), "service"),
        count(len(declared.batch), "batch family", "batch families"),
        count(len(declared.prices), "price"),
    ]
    return f"{file}: no mistakes. {', '.join(parts)}."
