"""A plan as the controller acts on it: each job's place, and what is known of the job itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any  # Documents are JSON.

from gpuyield.controller.actions import Topic
from gpuyield.decide.live.jobs import ReadWork
from gpuyield.model.kueue import Work
from gpuyield.units import parse_instant


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """What a plan gives a job; `start_ms` and `end_ms` are None where it gives none. Times are epoch ms."""

    start_ms: int | None
    end_ms: int | None
    flavor: str | None
    status: str
    gpus: int | None = None
    deadline_ms: int | None = None
    slack_s: float | None = None
    p_late: float | None = None
    why: str = ""
    moved_because: str = ""

    def is_due(self, now_ms: int) -> bool:
        """Whether its time has come."""
        return self.start_ms is not None and self.start_ms <= now_ms


@dataclass(frozen=True, slots=True)
class Sentence:
    """What is said to the one who submitted a job."""

    topic: Topic
    said: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanInForce:
    """The places of all jobs by id, and the Workloads as they were read for it, by uid.

    `sentences` are those that were put in words already: they stay the same as long as the plan does. `first_starts`
    are by uid what any plan gave first, None where that is not known any more.
    """

    places: Mapping[str, Place]
    read: Mapping[str, ReadWork]
    sentences: dict[tuple[str, bool], Sentence | None] = field(default_factory=dict, compare=False, repr=False)
    first_starts: Mapping[str, int | None] = field(default_factory=dict)

    @classmethod
    def of(cls, document: Mapping[str, Any], read: Mapping[str, ReadWork]) -> PlanInForce:
        """From a plan document, and the Workloads as they are read for it, by uid."""
        return cls(places={said["id"]: _place(said) for said in document.get("jobs", ())}, read=read)

    def with_first_starts(
        self, before: Mapping[str, int | None], works: Iterable[Work], *, is_first: bool
    ) -> PlanInForce:
        """The same, where those of these jobs that had a place before keep the first one they had.

        `is_first`: this plan is the first to place those of which `before` says nothing; else what did is lost.
        """
        found = dict[str, int | None]()
        for work in works:
            place = self.places.get(work.id)
            if work.uid in before:
                found[work.uid] = before[work.uid]
            elif place is not None and place.start_ms is not None:
                found[work.uid] = place.start_ms if is_first else None
        return replace(self, first_starts=found)


def _place(said: Mapping[str, Any]) -> Place:
    segments = said.get("segments") or []
    deadline = said.get("deadline") or said.get("due")
    return Place(
        start_ms=parse_instant(segments[0][0]) if segments else None,
        end_ms=parse_instant(segments[-1][1]) if segments else None,
        flavor=said.get("flavor"),
        gpus=said.get("gpus"),
        status=said.get("status", ""),
        deadline_ms=None if deadline is None else parse_instant(deadline),
        slack_s=said.get("slack_s"),
        p_late=said.get("p_late"),
        why=said.get("why") or "",
        moved_because=said.get("moved_because") or "",
    )
