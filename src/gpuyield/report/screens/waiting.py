"""The jobs of a live cluster that wait: why, and when each starts by the plan."""

from __future__ import annotations

from collections.abc import Sequence
from zoneinfo import ZoneInfo

from gpuyield.report.answer import Answer, Next
from gpuyield.report.facts import Document
from gpuyield.report.screens.queue import causes, causes_table, keys_table, queue_finding, queue_table
from gpuyield.report.sentences import count
from gpuyield.report.tables import Column, Kind, Table
from gpuyield.units import format_duration, parse_instant

_MOST_TOLD = 3


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
        headline=(first, *growth(document["kueue"])),
        tables=tuple(
            one
            for one in (table, *keys, queue_table(document) if waiting else None, counts_table(document["kueue"]))
            if one is not None
        ),
        csv=causes_table(document) if document["by"] else table,
        notes=tuple(f"gap: {one['where']}: {one['reason']}" for one in document["gaps"]),
        next=(
            Next(command="gpuyield plan", why="when each of them starts, and what runs"),
            Next(command="gpuyield queue --window 14d", why="why work waited in the past, from the ledger"),
        ),
        zone=zone,
    )


def growth(counts: Document | None) -> list[str]:
    """What became of each queue over the window, in a sentence; the queues that grew first."""
    told = []
    for one in counts["queues"] if counts else ():
        waiting = one["waiting"]
        if waiting is None or waiting["first"] is None or waiting["last"] is None:
            continue
        change = waiting["last"] - waiting["first"]
        if max(waiting["first"], waiting["last"]) < 1 or abs(change) < 0.1 * max(waiting["first"], waiting["last"]):
            continue
        verb = "grew" if change > 0 else "shrank"
        sentence = (
            f"Queue {one['queue']} {verb}: {waiting['first']:.1f} jobs waited in the first six hours of the last day, "
            f"{waiting['last']:.1f} in the last six."
        )
        told.append((-change, sentence))
    return [sentence for _, sentence in sorted(told)][:_MOST_TOLD]


def counts_table(counts: Document | None) -> Table | None:
    """What Kueue counted of its queues; None where it is not known."""
    if counts is None or not counts["queues"]:
        return None
    return Table(
        title="In the last day, by Kueue's own count",
        columns=(
            Column("queue", "queue"),
            Column("waiting_mean", "waiting", Kind.NUMBER),
            Column("waiting_most", "at most", Kind.NUMBER),
            Column("reserved_gpus", "GPUs reserved", Kind.NUMBER),
            Column("used_gpus", "GPUs in use", Kind.NUMBER),
            Column("admitted", "started", Kind.COUNT),
            Column("wait_p50_at_most_s", "half waited", Kind.TEXT),
            Column("wait_p90_at_most_s", "90 % waited", Kind.TEXT),
            Column("evicted", "stopped", Kind.TEXT),
        ),
        rows=tuple(
            (
                one["queue"],
                _of(one["waiting"], "mean"),
                _of(one["waiting"], "most"),
                _of(one["reserved_gpus"], "mean"),
                _of(one["used_gpus"], "mean"),
                one["admitted"],
                _bound(one["waits"], "p50_at_most_s"),
                _bound(one["waits"], "p90_at_most_s"),
                _stops(one["evicted"]),
            )
            for one in counts["queues"]
        ),
    )


def _stops(evicted: Document | None) -> str | None:
    """How many were stopped, by Kueue's reason; None where it is not known."""
    if evicted is None:
        return None
    return ", ".join(f"{number} {reason}" for reason, number in evicted.items()) or "none"


def _of(level: Document | None, key: str) -> float | None:
    return None if level is None else level[key]


def _bound(waits: Document | None, key: str) -> str | None:
    """An upper bound of a wait; None where none is known."""
    if waits is None or not waits["n"]:
        return None
    return "beyond the buckets" if waits[key] is None else f"at most {format_duration(round(waits[key] * 1000))}"


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
