"""What the person who submitted a job is told: when it runs, by when it has to end, why not now, what to ask next."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import tzinfo

from gpuyield.controller.actions import Say, Topic
from gpuyield.controller.places import Place, PlanInForce, Sentence
from gpuyield.decide.live.foreign import Foreign
from gpuyield.model.kueue import ClusterSnapshot, Work, WorkState
from gpuyield.report.tables import format_local, format_span

AT_RISK = 0.25
"""A job is at risk when it is late with this probability."""

_NAME = re.compile(r"[a-z0-9](?:[-a-z0-9.]*[a-z0-9])?/[a-z0-9](?:[-a-z0-9.]*[a-z0-9])?")
_NO_DEADLINE = (
    "It has no deadline: add the annotation gpuyield.dev/deadline, such as 2026-12-01T06:00:00Z or within 8h, if it"
    " has to end in time."
)


def told(
    seen: ClusterSnapshot, plan: PlanInForce, now_ms: int, *, zone: tzinfo, ours: Callable[[Work], bool]
) -> Iterator[Say]:
    """One sentence or two for each job of ours that waits, the same until the plan changes it."""
    for work in seen.work:
        if work.state is WorkState.FINISHED or not ours(work):
            continue
        place = plan.places.get(work.id)
        missed = place is not None and place.deadline_ms is not None and place.deadline_ms < now_ms
        key = (work.uid, missed)
        if key not in plan.sentences:
            plan.sentences[key] = _sentence(work, plan, zone, missed=missed)
        found = plan.sentences[key]
        if found is not None:
            yield Say(work=work, topic=found.topic, said=found.said)


def _sentence(work: Work, plan: PlanInForce, zone: tzinfo, *, missed: bool) -> Sentence | None:
    """With the next command, and without the names of other teams' jobs."""
    found = _told_of(work, plan, zone, missed=missed)
    if found is None:
        return None
    topic, said = found
    own = f"{work.namespace}/"
    named = (
        [one for one in _NAME.findall(said) if not one.startswith(own) and one in plan.places] if "/" in said else []
    )
    shown = Foreign(named, own={work.namespace}).text(said) if named else said
    return Sentence(topic, f"{shown} Next: kubectl gpuyield explain job/{work.name} -n {work.namespace}")


def _told_of(work: Work, plan: PlanInForce, zone: tzinfo, *, missed: bool) -> tuple[Topic, str] | None:
    place = plan.places.get(work.id)
    if place is None:
        read = plan.read.get(work.uid)
        if read is None:
            return None
        return Topic.BACKFILL, f"No plan holds it: {read.why}. It runs where it delays nothing that is planned."
    if missed and place.deadline_ms is not None:
        return Topic.MISSED, f"Its deadline, {format_local(place.deadline_ms, zone)}, has passed. {_when(place, zone)}"
    match place.status:
        case "impossible":
            said = f"It cannot meet its deadline: {place.why} It runs where it delays nothing that is planned."
            return Topic.IMPOSSIBLE, said
        case "dropped":
            said = f"Its deadline is given up: {place.why} It runs where it delays nothing that is planned."
            return Topic.DROPPED, said
    said = _when(place, zone)
    if place.moved_because:
        return Topic.MOVED, f"{said} Moved: {place.moved_because}"
    if place.deadline_ms is None:
        return Topic.NO_DEADLINE, f"{said} {_NO_DEADLINE}"
    if place.p_late is not None and place.p_late >= AT_RISK:
        return Topic.AT_RISK, f"{said} It is late with a probability of {place.p_late:.0%}."
    return Topic.PLANNED, said


def _when(place: Place, zone: tzinfo) -> str:
    if place.start_ms is None or place.end_ms is None:
        return place.why
    said = f"Planned for {format_local(place.start_ms, zone)}"
    if place.flavor:
        said += f" on {place.flavor}"
    said += f", to end {format_local(place.end_ms, zone)}"
    if place.deadline_ms is not None:
        slack_ms = place.deadline_ms - place.end_ms
        room = f"{format_span(abs(slack_ms))} {'before' if slack_ms >= 0 else 'after'} its deadline"
        said += f", {room}"
    return f"{said}. {place.why}".strip()
