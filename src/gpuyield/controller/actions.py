"""What the controller may do to a cluster, one value for each write. Nothing here stops work that has begun.

Each carries the Workload as it was seen, so that its versions can be held against what is there when it is written,
and a sentence for those who read logs and events.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from gpuyield.model.kueue import Work


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """Take our name out of the job's gates: Kueue may reserve quota for it."""

    work: Work
    said: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """Answer our checks of a Workload that holds quota: it may start.

    `planned_ms` is the start that the plan in force gives it, `first_ms` the first one that any plan gave (None: none).
    """

    work: Work
    checks: tuple[str, ...]
    said: str
    planned_ms: int | None = None
    first_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Park:
    """Switch a Workload off that holds quota and has not started; `until_ms` is its planned start (None: not known)."""

    work: Work
    until_ms: int | None
    said: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Return:
    """Switch on again what we parked."""

    work: Work
    said: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveQueue:
    """Where gates are not honoured: let a job out of the queue on hold, into the one that it asked for."""

    work: Work
    queue: str
    said: str


class Topic(StrEnum):
    """What an event is about."""

    PLANNED = "Planned"
    MOVED = "Moved"
    AT_RISK = "AtRisk"
    MISSED = "Missed"
    DROPPED = "Dropped"
    IMPOSSIBLE = "Impossible"
    BACKFILL = "Backfill"
    NO_DEADLINE = "NoDeadline"


@dataclass(frozen=True, slots=True, kw_only=True)
class Say:
    """Tell the person who submitted it: an event on job and Workload, and the message of our Pending check."""

    work: Work
    topic: Topic
    said: str


Action = Release | Ready | Park | Return | MoveQueue | Say
