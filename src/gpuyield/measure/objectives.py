"""What each metric of a response is, and which requests of a probe miss an objective.

All latencies count from the scheduled time, so that a late sender or a full connection pool is part of them:

- ttft: until the read that carries the first content. Without streaming that is the end.
- e2e: until the end of the response.
- tpot: (last content - first content) / (output tokens - 1); where the server does not tell its tokens, reads that
  carried content stand in for them, which can only make it longer. It is also the mean gap per token.
- itl: the longest gap between two reads that carried content.
- error: whether the response is OK at all.

A response of a single token has no tpot and no itl (it is not 0) and cannot miss them. One of several tokens, or of
nobody knows how many, that came in one read has them too, but they are unknown: unknown is a miss, else a server that
holds its tokens back would keep every limit. Anything but an OK response is a miss.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from gpuyield.errors import DeclarationError, EvidenceError
from gpuyield.model.declaration import Metric, Objective
from gpuyield.model.measure import SECOND_NS, Grade, Records, ResponseStatus

Flags = NDArray[np.bool_]
Numbers = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """For each request: whether it missed, and whether nobody can say yet (still running within its limit)."""

    missed: Flags
    pending: Flags


def seconds_of(metric: Metric, records: Records) -> Numbers:
    """A latency of each request in seconds; NaN where it has none."""
    match metric:
        case Metric.TTFT:
            found = _since(records.first_ns, records.scheduled_ns)
        case Metric.E2E:
            found = _since(records.end_ns, records.scheduled_ns)
        case Metric.TPOT:
            # A count of at most one beside several reads contradicts them, and is none.
            tokens = np.where(records.output_tokens > 1, records.output_tokens, records.reads)
            apart = np.where(records.reads > 1, tokens - 1, np.nan)
            found = _since(records.last_ns, records.first_ns) / apart
        case Metric.ITL:
            found = np.where(records.gap_max_ns >= 0, records.gap_max_ns / SECOND_NS, np.nan)
        case Metric.QUEUE | Metric.ERROR:
            raise DeclarationError(
                f"{metric} is no latency that a client can measure.",
                where="objectives",
                fix="Write ttft, which includes the time in the server's queue.",
            )
        case _:
            assert_never(metric)
    return found


def marks(objective: Objective, records: Records, *, give_up_ns: int) -> Marks:
    """Which requests miss the objective, when the probe waited until `give_up_ns`.

    Raises:
        DeclarationError: The objective is on a metric that a client cannot see.
        EvidenceError: Nobody graded the responses for the check of the objective.
    """
    running = records.status == ResponseStatus.IN_FLIGHT
    failed = ~running & (records.status != ResponseStatus.OK)
    if objective.check is not None:
        grades = records.grades.get(objective.check)
        if grades is None:
            raise EvidenceError(f'nothing graded "{objective.check}".', where=objective.name)
        return Marks(missed=~running & (grades != Grade.GOOD), pending=running)
    if objective.metric is None or objective.metric is Metric.ERROR:
        return Marks(missed=failed, pending=running)
    limit_s = (objective.at_most_us or 0) / 1e6
    over = seconds_of(objective.metric, records) > limit_s
    if objective.metric in (Metric.TTFT, Metric.E2E):
        happened = records.first_ns if objective.metric is Metric.TTFT else records.end_ns
        over |= running & (happened < 0) & ((give_up_ns - records.scheduled_ns) / SECOND_NS > limit_s)
        settled = over | ((objective.metric is Metric.TTFT) & (happened >= 0))
        return Marks(missed=failed | over, pending=running & ~settled)
    over |= (records.reads == 1) & (records.output_tokens != 1)
    return Marks(missed=failed | (over & ~running), pending=running)


def _since(ends_ns: NDArray[np.int64], begins_ns: NDArray[np.int64]) -> Numbers:
    there = (ends_ns >= 0) & (begins_ns >= 0)
    return np.where(there, (ends_ns - begins_ns) / SECOND_NS, np.nan)
