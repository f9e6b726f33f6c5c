"""The answer of `gpuyield queue`: waiting GPU time by cause."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from zoneinfo import ZoneInfo

from gpuyield.decide.queue import queue_document
from gpuyield.model.queue import Queue
from gpuyield.report.answer import Answer, Next
from gpuyield.report.facts import Document
from gpuyield.report.screens.account import gap_notes, zone_of_gaps
from gpuyield.report.sentences import count, gpu_hours, key_word, percent
from gpuyield.report.tables import Cell, Column, Kind, Table
from gpuyield.units import largest_remainder

CAUSE_WORDS: Mapping[str, str] = {
    "not_due_yet": "not due yet",
    "impossible": "impossible",
    "quota": "quota",
    "fragmented": "fragmented GPUs",
    "held_idle": "idle GPUs held by others",
    "undeclared": "no deadline known",
    "order": "order of the queue",
    "serving": "held by services above need",
    "pairing": "a better pairing exists",
    "capacity": "too few GPUs",
    "unexplained": "unexplained",
}

CAUSE_MEANING: Mapping[str, str] = {
    "not_due_yet": "it has a deadline or due time and kept it",
    "impossible": "no number of GPUs would have met its deadline, or it asks for more than any node has",
    "quota": "its queue's quota was used up",
    "fragmented": "GPUs were free, but not together on one node",
    "held_idle": "it would have started on GPUs that others held idle",
    "undeclared": "nobody can say whether the wait harmed",
    "order": "our plan runs it in time on the same GPUs",
    "serving": "services held more than their certified capacity and demand need",
    "pairing": "a measured better pair of model and hardware exists",
    "capacity": "what is left: GPUs were lacking",
    "unexplained": "the evidence does not say",
}


def causes(queue: Document) -> list[tuple[str, int]]:
    """Causes and their waiting GPU-ms, in the order in which they are tried."""
    return [(str(one["cause"]), int(one["gpu_ms"])) for one in queue["causes"]]


def queue_table(queue: Document) -> Table:
    """The causes, with their sum."""
    found = causes(queue)
    total = sum(amount for _, amount in found)
    shares = largest_remainder([amount for _, amount in found], 1000 if total else 0)
    return Table(
        title="Waiting GPU-hours by cause",
        columns=(
            Column("cause", "cause"),
            Column("waiting_gpu_ms", "GPU-hours", Kind.GPU_TIME),
            Column("share", "share", Kind.RATIO),
            Column("meaning", ""),
        ),
        rows=tuple(
            (CAUSE_WORDS.get(cause, cause), amount, share / 1000, CAUSE_MEANING.get(cause, ""))
            for (cause, amount), share in zip(found, shares, strict=True)
            if amount
        ),
        total=("all waiting", total, 1.0 if total else 0.0, ""),
    )


def queue_answer(queue: Queue, *, zone: ZoneInfo) -> Answer:
    """The causes, and the keys where some were asked for."""
    document = queue_document(queue)
    tables = [keys_table(document)] if queue.by else []
    return Answer(
        document=document,
        headline=(queue_finding(causes(document)) + ".", *_meanwhile(queue)),
        tables=(*tables, queue_table(document)),
        csv=causes_table(document),
        notes=(*_too_wide(queue), *gap_notes(queue.gaps, zone=zone)),
        next=(
            Next(command="gpuyield plan", why="whether the work fits the GPUs that exist"),
            Next(command="gpuyield decide", why="what to change first"),
        ),
        zone=zone_of_gaps(queue.gaps, zone),
    )


def queue_finding(found: Sequence[tuple[str, int]]) -> str:
    """Planning or too few GPUs, in one sentence."""
    total = sum(amount for _, amount in found)
    if not total:
        return "No work waited for GPUs in this window"
    by_cause = dict(found)
    planning = sum(by_cause.get(cause, 0) for cause in _PLANNING)
    short, harmless = by_cause.get("capacity", 0), by_cause.get("not_due_yet", 0)
    if planning and planning >= short:
        return (
            f"Work waited {gpu_hours(total)}: {percent(planning, total)} of it for reasons that planning and giving "
            f"back idle GPUs remove, {percent(short, total) if short else 'none'} for lack of GPUs"
        )
    if short:
        return f"Work waited {gpu_hours(total)}: {percent(short, total)} of it for lack of GPUs"
    if harmless:
        return f"Work waited {gpu_hours(total)}: {percent(harmless, total)} of it harmed no deadline"
    cause, amount = max(found, key=lambda pair: pair[1])
    return f"Work waited {gpu_hours(total)}: {percent(amount, total)} of it {CAUSE_WORDS.get(cause, cause)}"


def keys_table(queue: Document) -> Table:
    """Waiting GPU time of each key, the causes that occur as columns."""
    used = [cause for cause, amount in causes(queue) if amount]
    rows: list[tuple[Cell, ...]] = []
    for row in queue["rows"]:
        amounts = dict(causes(row))
        # Without a flavor a job takes any.
        names = tuple(
            "(any)" if (name, part) == ("flavor", None) else key_word(name, part) for name, part in row["key"].items()
        )
        rows.append((*names, int(row["waiting_gpu_ms"]), *(amounts[cause] for cause in used)))
    return Table(
        title=f"Waiting GPU-hours by {' and '.join(queue['by'])}",
        columns=(
            *(Column(name, name) for name in queue["by"]),
            Column("waiting_gpu_ms", "waited", Kind.GPU_TIME),
            *(Column(f"{cause}_gpu_ms", CAUSE_WORDS.get(cause, cause), Kind.GPU_TIME) for cause in used),
        ),
        rows=tuple(sorted(rows, key=lambda row: -int(row[len(queue["by"])] or 0))),
    )


def causes_table(queue: Document) -> Table:
    """Every cause of every key, exact: what goes into a spreadsheet."""
    rows: list[tuple[Cell, ...]] = []
    for row in queue["rows"] or [{"key": {}, "causes": queue["causes"]}]:
        rows += [(*row["key"].values(), cause, amount) for cause, amount in causes(row)]
    return Table(
        title="",
        columns=(
            *(Column(name, name) for name in queue["by"]),
            Column("cause", "cause"),
            Column("waiting_gpu_ms", "GPU-ms", Kind.GPU_TIME),
        ),
        rows=tuple(rows),
    )


def _meanwhile(queue: Queue) -> tuple[str, ...]:
    if not queue.total.gpu_ms:
        return ()
    return (
        f"While work waited, {gpu_hours(queue.idle_gpu_ms)} were held idle and {gpu_hours(queue.free_gpu_ms)} free.",
    )


def _too_wide(queue: Queue, *, most: int = 5) -> list[str]:
    lines = [
        f"{one.job} asks for {count(one.gpus, 'GPU')} on one node, and the widest has {one.widest_node}: it can never "
        "start. Let it ask for fewer, or spread it over several pods."
        for one in queue.too_wide[:most]
    ]
    rest = len(queue.too_wide) - most
    return (
        [*lines, f"{count(rest, 'more job')} ask for more than any node has: -o json lists all."] if rest > 0 else lines
    )


_PLANNING = ("held_idle", "order", "fragmented", "quota", "serving", "pairing")
"""Causes that planning, or giving back idle GPUs, removes."""
