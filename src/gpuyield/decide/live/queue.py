"""The waits of all jobs that wait now, by cause: from when each was created until this instant."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any  # Documents are JSON.

from gpuyield.decide.live.waiting import Waiting, waiting_document
from gpuyield.decide.queue import queue_document
from gpuyield.errors import DeclarationError
from gpuyield.model.document import gaps_document, window_document
from gpuyield.model.evidence import Gap
from gpuyield.model.kueue_counts import KueueCounts, Level, Waits
from gpuyield.model.queue import Cause, Queue, QueueRow
from gpuyield.units import Window

KEYS = ("team", "queue", "flavor")
_NOT_KNOWN = Gap(
    reason="Each wait counts from the job's creation until now, at the cause that holds now; what was free or held "
    "idle meanwhile is not known from the live cluster: gpuyield queue --window 14d asks the ledger.",
    where="queue",
)


def live_queue_document(
    waiting: Sequence[Waiting],
    *,
    at_ms: int,
    by: tuple[str, ...],
    gaps: Sequence[Gap],
    counts: KueueCounts | None = None,
) -> dict[str, Any]:
    """The document of a queue (contracts, section 4) of the jobs that wait now, with each of them in `waiting`.

    `kueue` has what Kueue itself counted, None where that is not known.

    Raises:
        DeclarationError: No such key.
    """
    for name in by:
        if name not in KEYS:
            raise DeclarationError(
                f'there is no "{name}" of jobs that wait now.',
                where="--by",
                fix=f"Write one or more of {', '.join(KEYS)}, or add --window 14d to ask the ledger.",
            )
    total: dict[Cause, int] = defaultdict(int)
    keyed: dict[tuple[str | None, ...], dict[Cause, int]] = defaultdict(lambda: defaultdict(int))
    for one in waiting:
        gpu_ms = one.gpus * max(0, at_ms - one.since_ms)
        values = {"team": one.team, "queue": one.queue, "flavor": one.flavor}
        total[one.cause] += gpu_ms
        keyed[tuple(values[name] for name in by)][one.cause] += gpu_ms
    first_ms = min((one.since_ms for one in waiting), default=at_ms)
    all_gaps = (*gaps, _NOT_KNOWN)
    queue = Queue(
        window=Window(min(first_ms, at_ms), at_ms),
        by=by,
        total=_row({}, total),
        rows=tuple(
            _row(dict(zip(by, key, strict=True)), causes)
            for key, causes in sorted(keyed.items(), key=lambda item: tuple(part or "" for part in item[0]))
        )
        if by
        else (),
        free_gpu_ms=0,
        idle_gpu_ms=0,
        gaps=all_gaps,
    )
    return {
        **queue_document(queue),
        "meanwhile": {"free_gpu_ms": None, "idle_held_gpu_ms": None},
        "gaps": gaps_document(all_gaps),
        "waiting": waiting_document(waiting),
        "kueue": None if counts is None else _counts_document(counts),
    }


def _counts_document(counts: KueueCounts) -> dict[str, Any]:
    return {
        "window": window_document(counts.window),
        "known": counts.known,
        "queues": [
            {
                "queue": one.queue,
                "waiting": _optional(one.waiting),
                "reserved_gpus": _optional(one.reserved_gpus),
                "used_gpus": _optional(one.used_gpus),
                "admitted": one.admitted,
                "evicted": None if one.evicted is None else dict(one.evicted),
                "waits": _optional(one.waits),
            }
            for one in counts.queues
        ],
    }


def _optional(of: Level | Waits | None) -> dict[str, Any] | None:
    return None if of is None else asdict(of)


def _row(key: dict[str, str | None], causes: dict[Cause, int]) -> QueueRow:
    return QueueRow(key=key, causes={cause: causes.get(cause, 0) for cause in Cause})
