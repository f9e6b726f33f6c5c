"""The answer of `gpuyield plan` where nobody declared a deadline: a row per promise."""

from __future__ import annotations

from collections.abc import Sequence
from zoneinfo import ZoneInfo

from gpuyield.model.plan import ObservedRow
from gpuyield.report.answer import Answer, Next
from gpuyield.report.sentences import count
from gpuyield.report.tables import Column, Kind, Table

GATE_FAILED = 10


def conditional_answer(
    rows: Sequence[ObservedRow], *, jobs: int, schema: str, zone: ZoneInfo, gate: bool = False
) -> Answer:
    """If the observed jobs may each finish within so long, so many GPUs suffice; status stays unknown."""
    if not rows:
        return Answer(
            document={"schema": schema, "status": "unknown", "jobs": [], "conditional": [], "gaps": [_no_jobs()]},
            headline=("unknown: no batch job was seen in the last week, and no job file is named.",),
            next=(Next(command="gpuyield plan --jobs jobs.yaml --gpus 64", why="plan declared jobs"),),
            exit_code=4,
        )
    have = max(sum(need.available for need in row.plan.gpus) for row in rows)
    return Answer(
        document={
            "schema": schema,
            "status": "unknown",
            "jobs": [],
            "observed_jobs": jobs,
            "conditional": [
                {
                    "finish_within": row.finish_within,
                    "gpus_needed": row.gpus_needed,
                    "lower_bound": row.lower_bound,
                    "available": sum(need.available for need in row.plan.gpus),
                    "impossible": row.impossible,
                }
                for row in rows
            ],
            "gaps": [{"reason": "No job declares a deadline.", "where": "jobs", "window": None, "gpu_ms": None}],
        },
        headline=(
            "No job declares a deadline, so the answer is conditional.",
            f"If the {count(jobs, 'batch job')} of the last week may each finish within (batch has {have} GPUs now):",
        ),
        tables=(observed_rows_table(rows),),
        next=(
            Next(command="gpuyield plan --jobs jobs.yaml --gpus 64", why="plan declared jobs"),
            Next(command="gpuyield decide", why="what to change first"),
        ),
        exit_code=GATE_FAILED if gate else 0,
    )


def observed_rows_table(rows: Sequence[ObservedRow]) -> Table:
    """The rows as a table."""
    return Table(
        title="",
        columns=(
            Column("finish_within", "finish within"),
            Column("gpus_needed", "GPUs suffice", Kind.COUNT),
            Column("lower_bound", "proven floor", Kind.COUNT),
            Column("impossible", "jobs impossible even alone", Kind.COUNT),
        ),
        rows=tuple((row.finish_within, row.gpus_needed, row.lower_bound, row.impossible) for row in rows),
    )


def _no_jobs() -> dict[str, object]:
    return {"reason": "No batch job was seen in the last week.", "where": "ledger", "window": None, "gpu_ms": None}
