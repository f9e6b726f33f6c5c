"""The answer of `gpuyield explain`: a job's place in the plan, a lever's reasons, a figure's definition."""

from __future__ import annotations

import re
from collections.abc import Mapping
from zoneinfo import ZoneInfo

from gpuyield.model.document import schema_name, window_document
from gpuyield.model.waterfall import Account
from gpuyield.report.answer import Answer, Next
from gpuyield.report.facts import Document
from gpuyield.report.screens.decide import money_words
from gpuyield.report.screens.plan import relaxation_words
from gpuyield.report.screens.run_times import run_time_words
from gpuyield.report.sentences import CLASS_WORDS, count, gpu_hours, idle_sentence, percent, window_words
from gpuyield.report.tables import Column, Table, format_local, format_span
from gpuyield.report.waterfall import TREE
from gpuyield.units import parse_instant

FIGURES: Mapping[str, tuple[str, str]] = {
    "unavailable": (
        "Cards that are unhealthy, or on a node that is not ready or cordoned, and that nobody holds.",
        "kube_node_status_capacity and _allocatable, kube_node_status_condition, kube_node_spec_unschedulable",
    ),
    "unallocated": (
        "Cards that nobody holds, split by what pending work could have used them.",
        "node capacity minus what bound pods hold, pending pods from kube_pod_status_phase",
    ),
    "allocated": (
        "Cards held by a bound pod that is not terminal: starting + idle, held + underused + unobserved + busy.",
        "kube_pod_container_resource_requests, kube_pod_status_phase, kube_pod_status_scheduled_time",
    ),
    "starting": (
        "Held, and not running yet: pulling images, init containers, waiting for the gang.",
        "from kube_pod_status_scheduled_time to kube_pod_container_state_started",
    ),
    "idle_held": (
        "A whole device below the activity threshold for at least idle_after, without a break. Only it is reclaimable.",
        "activity samples of the card (DCGM) while the pod ran; rules in gpuyield.yaml",
    ),
    "underused": (
        "(1 - activity) of all other observed time. A hint, never a saving.",
        "activity samples of the card (DCGM) while the pod ran",
    ),
    "unobserved": (
        "Held, and no activity sample says how busy it was. Never counted as idle.",
        "where activity samples are missing for longer than the gap limit",
    ),
    "busy": (
        "Activity-weighted time of running work: productive + lost + unjudged.",
        "activity samples of the card (DCGM) x the share of it that the pod holds",
    ),
    "productive": (
        "Busy time of attempts whose outcome every required check passed.",
        "outcomes and verdicts (gpuyield outcomes import), policy in gpuyield.yaml",
    ),
    "lost": (
        "Busy time of attempts that failed, were replaced, came too late or were rejected.",
        "outcomes and verdicts (gpuyield outcomes import), deadlines in gpuyield.yaml",
    ),
    "unjudged": (
        "Busy time without a conclusive verdict. Not lost, not productive, not a saving.",
        "outcomes and verdicts (gpuyield outcomes import)",
    ),
}

_STARTS = re.compile(r"Starts at [^,]+, (.+)", re.DOTALL)

PROVENANCE_WORDS: Mapping[str, str] = {
    "here": "measured on this cluster",
    "elsewhere": "measured on another cluster",
    "modelled": "modelled, not measured",
}


def known_figures() -> list[str]:
    """Figures that can be explained."""
    return list(FIGURES)


def explain_figure(name: str, account: Account | None, *, zone: ZoneInfo) -> Answer:
    """What a figure means, what it is made from, and what it was in the window of an account (None: not collected)."""
    meaning, evidence = FIGURES[name]
    document = {"schema": schema_name("explain"), "what": name, "meaning": meaning, "evidence": evidence}
    words = [f"{CLASS_WORDS[name]}: {meaning}", f"Made from: {evidence}."]
    if account is None:
        words.append("Nothing was collected yet, so there is no value: gpuyield collect.")
        return Answer(document=document | {"gpu_ms": None}, headline=tuple(words), next=_WHOSE)
    classes = next(classes for line, _, classes in TREE if line == name)
    fall = account.waterfall
    gpu_ms = fall.gpu_ms(*classes)
    share = percent(gpu_ms, fall.capacity_gpu_ms)
    words.append(f"{window_words(account.window, zone)}: {gpu_hours(gpu_ms)}, {share} of capacity.")
    idle = idle_sentence(account) if name == "idle_held" else None
    return Answer(
        document=document | {"gpu_ms": gpu_ms, "window": window_document(account.window)},
        headline=(*words, *([idle] if idle else [])),
        next=_WHOSE,
        zone=zone,
    )


_WHOSE = (Next(command="gpuyield account --by workload", why="whose it is"),)


def explain_job(plan: Document, inputs: Document | None, name: str, *, zone: ZoneInfo, path: str) -> Answer:
    """When a job runs, its slack, what it waits for, and what would bring it forward."""
    job = next(one for one in plan["jobs"] if str(one["id"]) == name)
    segments = job.get("segments") or []
    lines = []
    if segments:
        begin, end = parse_instant(segments[0][0]), parse_instant(segments[-1][1])
        gpus = count(int(job["gpus"]), "GPU")
        when = f"{name} runs {format_local(begin, zone)} to {format_local(end, zone)} on {gpus}"
        lines.append(_with_reason(when, str(job.get("why") or "")))
    else:
        lines.append(f"{name} is {job['status']}: it is not run.")
        if job.get("why"):
            lines.append(f"Why: {job['why']}")
    if job.get("moved_because"):
        lines.append(f"Moved since the plan before: {job['moved_because']}")
    if job.get("slack_s") is not None and job.get("deadline"):
        deadline = format_local(parse_instant(job["deadline"]), zone)
        lines.append(f"Deadline {deadline}, slack {format_span(round(job['slack_s'] * 1000))}.")
    if job.get("due"):
        kept = ", kept" if segments and not job["late_s"] else ""
        late = f", ends {format_span(round(job['late_s'] * 1000))} after it" if job["late_s"] else kept
        lines.append(f"Due {format_local(parse_instant(job['due']), zone)}{late}.")
    length_ms = sum(parse_instant(end) - parse_instant(begin) for begin, end in segments)
    planned = run_time_words(plan, _family(inputs, name), length_ms)
    if planned:
        lines.append(planned)
    if job.get("p_late") is not None:
        lines.append(f"In {job['p_late'] * 100:.0f} of 100 cases it would be late, with run times as they vary.")
    lines.extend(_on_nodes(plan, name))
    rows = []
    for one in (plan.get("relaxations") or ()) if job["status"] != "planned" else ():
        named = {str(entry["id"]) if isinstance(entry, Mapping) else str(entry) for entry in one.get("jobs") or ()}
        if one["kind"] == "add-gpus" or name in named:
            rows.append((relaxation_words(one, zone),))
    before = _before(plan, job, inputs)
    if before:
        lines.append(f"On its GPUs before it: {', '.join(before)}.")
    tables = (Table(title="What would help", columns=(Column("change", "change"),), rows=tuple(rows)),) if rows else ()
    return Answer(
        document={
            "schema": schema_name("explain"),
            "what": name,
            "job": dict(job),
            "runs_before": before,
            "relaxations": [row[0] for row in rows],
            "document": path,
            "inputs_digest": plan.get("inputs_digest"),
        },
        headline=tuple(lines),
        tables=tables,
        next=(Next(command=f"gpuyield verify {path}", why="check it again, from the inputs alone"),),
        zone=zone,
    )


def _with_reason(when: str, why: str) -> str:
    """When it runs and why not earlier, in one sentence."""
    told = _STARTS.match(why)
    if told:
        return f"{when}, {told[1]}"
    return f"{when}. {why}" if why else f"{when}."


def _family(inputs: Document | None, name: str) -> str | None:
    """The family that the inputs name for a job."""
    return None if inputs is None else next((one.get("family") for one in inputs["jobs"] if one["id"] == name), None)


def _on_nodes(plan: Document, name: str) -> list[str]:
    """Where it runs, if the plan was replayed on nodes."""
    lines = []
    for one in plan.get("placement") or ():
        held = (one.get("where") or {}).get(name)
        if held:
            where = ", ".join(f"{node} ({count(int(gpus), 'GPU')})" for node, gpus in held)
            lines.append(f"Nodes: {where}.")
        elif name in (one.get("unplaced") or ()):
            lines.append(f"No {one['flavor']} node has room for it at that time: the free GPUs lie on several nodes.")
    return lines


def _before(plan: Document, job: Document, inputs: Document | None, most: int = 6) -> list[str]:
    """Jobs that end where this one starts: it waited for their GPUs."""
    segments = job.get("segments") or []
    if not segments:
        return []
    start = segments[0][0]
    release = None
    if inputs is not None:
        release = next((one["release_ms"] for one in inputs["jobs"] if one["id"] == job["id"]), None)
        if release is not None and int(inputs["origin_ms"]) + int(release) >= parse_instant(start):
            return []
    return [
        str(one["id"])
        for one in plan["jobs"]
        if one["id"] != job["id"]
        and one.get("flavor") == job.get("flavor")
        and any(end == start for _, end in one.get("segments") or ())
    ][:most]


def explain_lever(decision: Document, name: str, *, path: str) -> Answer:
    """What a lever changes, what it frees and risks, and how to undo it."""
    found = [lever for lever in decision["levers"] if lever["lever"] == name]
    lines = []
    for lever in found:
        lines.append(f"{name}: {lever['change']}")
        freed = {key: value for key, value in (lever.get("gpus_freed") or {}).items() if value}
        if freed:
            lines.append(f"Frees: {', '.join(f'{number} {flavor}' for flavor, number in freed.items())}.")
        money = money_words(lever.get("money_per_month"))
        if money:
            lines.append(f"Worth {money} a month.")
        for field, words in (("risk", "Risk"), ("undo", "Undo")):
            if lever.get(field):
                lines.append(f"{words}: {lever[field]}")
        if lever.get("provenance"):
            lines.append(f"Evidence: {PROVENANCE_WORDS.get(lever['provenance'], lever['provenance'])}.")
    return Answer(
        document={"schema": schema_name("explain"), "what": name, "levers": [dict(lever) for lever in found]},
        headline=tuple(lines),
        next=(Next(command=f"gpuyield verify {path}", why="check the decision again, from the inputs alone"),),
    )
