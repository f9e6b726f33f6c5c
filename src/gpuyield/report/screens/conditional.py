"""The answer of `gpuyield plan` where nobody declared a deadline: a row per promise."""

from __future__ import annotations

from collections.abc import Sequence
from zoneinfo import ZoneInfo

from gpuyield.model.document import gaps_document
from gpuyield.model.evidence import Gap
from gpuyield.model.plan import ObservedRow
from gpuyield.report.answer import Answer, Next
from gpuyield.report.facts import Document
from gpuyield.report.screens.account import gap_notes
from gpuyield.report.sentences import count
from gpuyield.report.tables import Column, Kind, Table

GATE_FAILED = 10


def conditional_answer(
    rows: Sequence[ObservedRow],
    *,
    jobs: int,
    schema: str,
    zone: ZoneInfo,
    gaps: Sequence[Gap] = (),
    gate: bool = False,
) -> Answer:
    """If the observed jobs may each finish within so long, so many GPUs suffice; status stays unknown."""
    if not rows:
        lacking = gaps_document((_NO_JOBS, *gaps))
        return Answer(
            document={"schema": schema, "status": "unknown", "jobs": [], "conditional": [], "gaps": lacking},
            headline=("unknown: no batch job was seen in the last week, and no job file is named.",),
            next=(Next(command="gpuyield plan --jobs jobs.yaml --gpus 64", why="plan declared jobs"),),
            exit_code=4,
        )
    have = max(sum(need.available for need in row.plan.gpus) for row in rows)
    listed = [
        {
            "finish_within": row.finish_within,
            "gpus_needed": row.gpus_needed,
            "lower_bound": row.lower_bound,
            "available": sum(need.available for need in row.plan.gpus),
            "impossible": row.impossible,
        }
        for row in rows
    ]
    table = conditional_table(listed)
    return Answer(
        document={
            "schema": schema,
            "status": "unknown",
            "jobs": [],
            "observed_jobs": jobs,
            "conditional": listed,
            "gaps": gaps_document((_NO_DEADLINE, *gaps)),
        },
        headline=(
            "No job declares a deadline, so the answer is conditional.",
            f"If the {count(jobs, 'batch job')} of the last week may each finish within (services leave {have} GPUs):",
        ),
        tables=() if table is None else (table,),
        notes=(*conditional_words(listed), *gap_notes(tuple(gaps), zone=zone)),
        next=(
            Next(command="gpuyield plan --jobs jobs.yaml --gpus 64", why="plan declared jobs"),
            Next(command="gpuyield decide", why="what to change first"),
        ),
        exit_code=GATE_FAILED if gate else 0,
    )


def conditional_table(rows: Sequence[Document], *, title: str = "") -> Table | None:
    """If the observed jobs may each finish within so long: the GPUs needed, and the proven floor; None without rows."""
    if not rows:
        return None
    return Table(
        title=title,
        columns=(
            Column("finish_within", "finish within"),
            Column("gpus_needed", "GPUs suffice", Kind.COUNT),
            Column("lower_bound", "proven floor", Kind.COUNT),
            Column("impossible", "jobs left out", Kind.COUNT),
        ),
        rows=tuple(
            (str(row["finish_within"]), row.get("gpus_needed"), row.get("lower_bound"), row.get("impossible"))
            for row in rows
        ),
    )


def conditional_words(rows: Sequence[Document]) -> tuple[str, ...]:
    """What a row leaves out, and what a dash means, where there is one."""
    lines = []
    if any(row.get("impossible") for row in rows):
        lines.append("Jobs left out of a row cannot finish in that time even alone.")
    if any(row.get("gpus_needed") is None or row.get("lower_bound") is None for row in rows):
        lines.append("A dash: no such plan, or no such proof, was found.")
    return tuple(lines)


_NO_JOBS = Gap(reason="No batch job was seen in the last week.", where="ledger")
_NO_DEADLINE = Gap(reason="No job declares a deadline.", where="jobs")
