"""The answer of `gpuyield explain job/NAME` on a live cluster, for somebody who may read one namespace."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any  # Documents are JSON.
from zoneinfo import ZoneInfo

from gpuyield.declare.annotations import JobPromise
from gpuyield.errors import DeclarationError, Mistake
from gpuyield.model.document import schema_name
from gpuyield.model.kueue import Work, WorkState
from gpuyield.model.marks import CONTROLLER, PARKED, PARKED_WHY, PLAN
from gpuyield.model.one_job import OneJob, QueueSeen, Said
from gpuyield.report.answer import Answer, Next
from gpuyield.report.facts import Document
from gpuyield.report.sentences import count, listed, sentence
from gpuyield.report.tables import format_local, format_span
from gpuyield.units import format_instant, parse_instant

NO_DEADLINE = (
    "It declares no deadline, so it has weight 1 and runs as backfill. Add the annotation "
    'gpuyield.dev/deadline: "within 8h" to a job to have it planned.'
)
_MOST_SAID = 3


def explain_live(
    one: OneJob,
    promise: JobPromise | None,
    mistakes: Sequence[Mistake],
    *,
    planned: Document | None,
    planned_by: str,
    eta: Document | None,
    not_seen: Sequence[str],
    zone: ZoneInfo,
) -> Answer:
    """State, plan, deadline and reason of a job.

    `planned` is its entry in the plan in force (`planned_by` says which), `eta` what planning the live cluster now
    tells of it; either is None where it may not be seen. `not_seen` are sentences on what this account may not see.
    """
    work = one.work
    ours = [each for each in one.said if each.by == CONTROLLER]
    lines = [_state(one, zone)]
    lines += _planned_words(planned, planned_by, zone) if work is not None and _is_ahead(work) else []
    if planned is None and eta is not None:
        lines.append(_eta_words(eta, zone))
    if promise is not None and work is not None:
        lines += _promise_words(promise, work, one.at_ms, zone)
    lines += [f"{_key(each)} does not count: {each.what} {each.fix}".rstrip() for each in mistakes]
    lines += [
        f"The controller said at {format_local(each.at_ms, zone)}: {sentence(each.message)}"
        for each in ours[-_MOST_SAID:]
    ]
    if work is not None and _is_ahead(work) and not ours and planned is None:
        kueue = f"{work.reason}: {work.said}".strip(": ")
        lines += [f"Kueue says: {sentence(kueue)}"] if kueue else []
    lines += _queue_words(one.queue)
    return Answer(
        document={
            "schema": schema_name("explain"),
            "what": f"{one.kind}/{one.name}",
            "namespace": one.namespace,
            "state": _state_name(one),
            "queue": one.in_queue or None,
            "gpus": None if work is None else work.gpus,
            "gates": [] if work is None else list(work.gates),
            "parked": _parked_document(work),
            "deadline": _instant(None if promise is None else promise.deadline_ms),
            "due": _instant(None if promise is None else promise.due_ms),
            "mistakes": [{"what": each.what, "where": each.where, "fix": each.fix} for each in mistakes],
            "planned": dict(planned) if planned is not None else None,
            "eta": dict(eta) if eta is not None else None,
            "said": [_said_document(each) for each in one.said],
            "local_queue": _queue_document(one.queue),
            "not_seen": list(not_seen),
            "may_not_read": list(one.lacking),
        },
        headline=tuple(lines),
        notes=tuple(not_seen),
        next=_next(one),
        zone=zone,
    )


def _is_ahead(work: Work) -> bool:
    return work.state in (WorkState.WAITING, WorkState.RESERVED)


def _state_name(one: OneJob) -> str:
    if one.work is None:
        return "unknown" if one.is_there is None else ("no_workload" if one.is_there else "absent")
    if PARKED in one.work.marks and not one.work.active:
        return "parked"
    return "gated" if PLAN in one.work.gates and one.work.state is WorkState.WAITING else str(one.work.state)


def _state(one: OneJob, zone: ZoneInfo) -> str:
    work = one.work
    if work is None:
        return _without_workload(one)
    gpus, name = count(work.gpus, "GPU"), one.id
    match work.state:
        case WorkState.FINISHED:
            how = {True: " and succeeded", False: " and failed", None: ""}[work.succeeded]
            ran = f" It ran {format_span(work.run_ms)} on {gpus}." if work.run_ms is not None else ""
            ended = f" {format_local(work.finished_ms, zone)}" if work.finished_ms is not None else ""
            return f"{name} ended{ended}{how}.{ran}"
        case WorkState.ADMITTED:
            since = f" since {format_local(work.admitted_ms, zone)}" if work.admitted_ms is not None else ""
            on = f" {listed(list(work.held))}" if work.held else ""
            return f"{name} runs{since} on {gpus}{on and f' of flavor{on}'}."
        case WorkState.RESERVED:
            asked = [each.name for each in work.checks if each.state == "Pending"]
            waits = f" and waits for {'the check' if len(asked) == 1 else 'checks'} {listed(asked)}" if asked else ""
            return f"{name} holds quota for {gpus}{waits}; it has not started."
    since = f"since {format_local(work.created_ms, zone)}"
    if not work.active:
        if PARKED in work.marks:
            until, why = work.marks[PARKED], work.marks.get(PARKED_WHY, "")
            when = f" until {format_local(parse_instant(until), zone)}" if _is_instant(until) else ""
            return f"{name} ({gpus}) is parked{when}; it holds no quota. {sentence(why)}".rstrip()
        return f"{name} ({gpus}) is switched off: spec.active of its Workload is false, and not by gpuyield."
    others = [gate for gate in work.gates if gate != PLAN]
    if others:
        return f"{name} ({gpus}) waits {since}: {listed(others)} has to remove its gate."
    if PLAN in work.gates:
        return f"{name} ({gpus}) waits {since} for its planned time; until then it holds no quota."
    return f"{name} ({gpus}) waits {since} for quota."


def _without_workload(one: OneJob) -> str:
    if one.is_there is None:
        return f"{one.id}: this account may not read {listed(list(one.lacking))}, so nothing is known of it."
    if not one.is_there:
        return f"There is no {one.kind} {one.name} in namespace {one.namespace}."
    if not one.in_queue:
        return (
            f"{one.id} names no queue: without the label kueue.x-k8s.io/queue-name neither Kueue nor a plan holds it."
        )
    if f"workloads.{_KUEUE}" in one.lacking:
        return f"{one.id} is there; its Workload may not be read, so it is not known how far it has come."
    return f"{one.id} is there, and Kueue has made no Workload of it yet that asks for GPUs."


_KUEUE = "kueue.x-k8s.io"


def _planned_words(planned: Document | None, by: str, zone: ZoneInfo) -> list[str]:
    if planned is None:
        return []
    segments = planned.get("segments") or []
    why = sentence(str(planned.get("why") or ""))
    if not segments:
        return [f"The plan in force ({by}) does not run it in time ({planned['status']}). {why} It runs as backfill."]
    start, end = (format_local(parse_instant(at), zone) for at in (segments[0][0], segments[-1][1]))
    slack = planned.get("slack_s")
    left = "" if slack is None else f", {format_span(round(slack * 1000))} before its deadline"
    lines = [f"Planned ({by}): starts {start}, ends {end}{left}. {why}".rstrip()]
    if planned.get("moved_because"):
        lines.append(f"Moved: {sentence(str(planned['moved_because']))}")
    if planned.get("p_late"):
        lines.append(f"In {planned['p_late'] * 100:.0f} of 100 cases it would be late, with run times as they vary.")
    return lines


def _eta_words(eta: Document, zone: ZoneInfo) -> str:
    why = sentence(str(eta["why"]))
    if eta["eta"] is None:
        return f"No start is planned. In the way: {why}"
    return f"By a plan made now it starts {format_local(parse_instant(eta['eta']), zone)}. In the way: {why}"


def _promise_words(promise: JobPromise, work: Work, now_ms: int, zone: ZoneInfo) -> list[str]:
    limit_ms = promise.deadline_ms if promise.deadline_ms is not None else promise.due_ms
    if limit_ms is None:
        return [] if work.state is WorkState.FINISHED else [NO_DEADLINE]
    word = "deadline" if promise.deadline_ms is not None else "due time"
    at = format_local(limit_ms, zone)
    if work.finished_ms is not None:
        early = limit_ms - work.finished_ms
        kept = f"kept, {format_span(early)} early" if early >= 0 else f"missed by {format_span(-early)}"
        return [f"Its {word} {at} was {kept}."]
    left = (
        f"in {format_span(limit_ms - now_ms)}" if limit_ms > now_ms else f"missed {format_span(now_ms - limit_ms)} ago"
    )
    return [f"Its {word} is {at}, {left}."]


def _queue_words(queue: QueueSeen | None) -> list[str]:
    if queue is None:
        return []
    parts = [
        f"{number} {word}"
        for number, word in ((queue.pending, "waiting"), (queue.reserving, "with quota"), (queue.admitted, "running"))
        if number is not None
    ]
    stopped = f" It is stopped ({queue.stopped})." if queue.stopped else ""
    inactive = f" It admits nothing: {sentence(queue.inactive)}" if queue.inactive and not stopped else ""
    return [f"Its queue {queue.name}: {', '.join(parts) or 'nothing is counted'}.{stopped}{inactive}"]


def _key(mistake: Mistake) -> str:
    return mistake.where.partition(": ")[2] or mistake.where


def _next(one: OneJob) -> tuple[Next, ...]:
    if one.work is None or one.work.state is WorkState.FINISHED:
        return (Next(command=f"kubectl get jobs -n {one.namespace}", why="what there is"),)
    return (
        Next(
            command=f"kubectl get events -n {one.namespace} --field-selector involvedObject.name={one.name}",
            why="all that was said about it",
        ),
    )


def _parked_document(work: Work | None) -> dict[str, Any] | None:
    if work is None or work.active or PARKED not in work.marks:
        return None
    until = work.marks[PARKED]
    return {"until": until if _is_instant(until) else None, "because": work.marks.get(PARKED_WHY)}


def _is_instant(text: str) -> bool:
    try:
        parse_instant(text)
    except DeclarationError:
        return False
    return True


def _said_document(one: Said) -> dict[str, Any]:
    return {"at": format_instant(one.at_ms), "reason": one.reason, "message": one.message, "by": one.by}


def _queue_document(queue: QueueSeen | None) -> dict[str, Any] | None:
    if queue is None:
        return None
    return {
        "name": queue.name,
        "cluster_queue": queue.cluster_queue,
        "waiting": queue.pending,
        "with_quota": queue.reserving,
        "running": queue.admitted,
        "stopped": queue.stopped or None,
    }


def _instant(at_ms: int | None) -> str | None:
    return None if at_ms is None else format_instant(at_ms)
