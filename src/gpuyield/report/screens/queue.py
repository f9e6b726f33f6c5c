"""The answer of `gpuyield queue`: waiting GPU time by cause."""

from __future__ import annotations

from collections.abc import Mapping

from gpuyield.report.facts import Document
from gpuyield.report.tables import Column, Kind, Table
from gpuyield.units import largest_remainder

CAUSE_WORDS: Mapping[str, str] = {
    "not_due_yet": "not due yet",
    "impossible": "impossible deadline",
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
    "impossible": "no number of GPUs would have met its deadline",
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
