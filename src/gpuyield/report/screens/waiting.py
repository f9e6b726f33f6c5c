"""The jobs of a live cluster that wait: why, and when each starts by the plan."""

from __future__ import annotations

from collections.abc import Sequence
from zoneinfo import ZoneInfo

from gpuyield.report.answer import Answer, Next
from gpuyield.report.facts import Document
from gpuyield.report.screens.queue import causes, causes_table, keys_table, queue_finding, queue_table
from gpuyield.report.sentences import count
from gpuyield.report.tables import Column, Kind, Table
from gpuyield.units import parse_instant


def live_queue_answer(document: Document, *, zone: ZoneInfo) -> Answer:
    """The jobs that wait now, and their waits by cause."""
    waiting = document["waiting"]
    table = waiting_table(waiting, zone)
    first = (
        f"{count(len(waiting), 'job')} wait{'s' if len(waiting) == 1 else ''} now. {queue_finding(causes(document))}."
        if waiting
        else "No job waits now."
    )
    keys = [keys_table(document)] if document["by"] else []
    return Answer(
        document=document,
        headline=(first,),
        tables=tuple(one for one in (table, *keys, queue_table(document) if waiting else None) if one is not None),
        csv=causes_table(document) if document["by"] else table,
        notes=tuple(f"gap: {one['where']}: {one['reason']}" for one in document["gaps"]),
        next=(
            Next(command="gpuyield plan", why="when each of them starts, and what runs"),
            Next(command="gpuyield queue --window 14d", why="why work waited in the past, from the ledger"),
        ),
        zone=zone,
    )


def waiting_table(waiting: Sequence[Document], zone: ZoneInfo, *, most: int | None = None) -> Table | None:
    """The jobs that wait (at most so many), in the order in which they came; None where none does."""
    if not waiting:
        return None
    return Table(
        title="Why each job waits" if most is None or len(waiting) <= most else f"Why the first {most} jobs wait",
        columns=(
            Column("job", "job"),
            Column("queue", "queue"),
            Column("gpus", "GPUs", Kind.COUNT),
            Column("since", "since", Kind.INSTANT),
            Column("eta", "starts", Kind.INSTANT),
            Column("blocked_by", "in the way"),
            Column("why", "why"),
        ),
        rows=tuple(
            (
                str(one["job"]),
                one["queue"],
                int(one["gpus"]),
                parse_instant(str(one["since"])),
                parse_instant(str(one["eta"])) if one["eta"] else None,
                str(one["blocked_by"]),
                str(one["why"]),
            )
            for one in waiting[:most]
        ),
        zone=zone,
    )
