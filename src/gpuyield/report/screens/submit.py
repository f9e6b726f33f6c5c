"""The answer of `gpuyield what-if --job my.yaml`: what becomes of a job before it is submitted."""

from __future__ import annotations

from collections.abc import Sequence
from zoneinfo import ZoneInfo

from gpuyield.decide.live.foreign import ANOTHER, Foreign
from gpuyield.decide.live.submitted import Submitted
from gpuyield.model.document import gaps_document, schema_name
from gpuyield.model.evidence import Gap
from gpuyield.report.answer import Answer, Next
from gpuyield.report.facts import Document
from gpuyield.report.screens.account import gap_notes
from gpuyield.report.screens.plan import relaxation_words
from gpuyield.report.screens.what_if import changes
from gpuyield.report.sentences import count, sentence
from gpuyield.report.tables import Column, Kind, Table, format_local, format_span


def submit_answer(
    jobs: Sequence[Submitted],
    before: Document,
    after: Document,
    *,
    foreign: Foreign,
    gaps: tuple[Gap, ...],
    manifest: str,
    zone: ZoneInfo,
) -> Answer:
    """Start, flavor and slack of each job, or its earliest end and what to add; `before` and `after` are plans."""
    named = {one.job for one in jobs}
    others = [one for one in changes(before, after) if one["id"] not in named]
    kept = all(one.status == "planned" for one in jobs)
    ways = [] if kept else [foreign.text(relaxation_words(one, zone)) for one in after.get("relaxations") or ()]
    notes = [*(() if kept else (f"It would fit with {one}." for one in ways)), _others_words(others, foreign)]
    return Answer(
        document={
            "schema": schema_name("what-if"),
            "jobs": [one.document() for one in jobs],
            "plan": {"before": before["status"], "after": after["status"]},
            "changes": [_change(one, foreign) for one in others],
            "would_fit_with": ways,
            "gaps": gaps_document(gaps),
        },
        headline=tuple(line for one in jobs for line in _words(one, zone)),
        tables=(_table(jobs, zone),) if len(jobs) > 1 else (),
        csv=_table(jobs, zone),
        notes=(*notes, *gap_notes(gaps, zone=zone)),
        next=(Next(command=f"kubectl apply -f {manifest}", why="submit it; then gpuyield explain job/NAME tells"),),
        zone=zone,
    )


def _words(one: Submitted, zone: ZoneInfo) -> list[str]:
    lines = []
    gpus = count(one.gpus, f"{one.flavor} GPU" if one.flavor else "GPU")
    if one.start_ms is not None and one.end_ms is not None:
        start, end = format_local(one.start_ms, zone), format_local(one.end_ms, zone)
        lines.append(f"{one.job} would start {start} on {gpus} and end {end}{_slack(one)}.")
    else:
        lines.append(f"{one.job} would not be planned ({one.status}). {sentence(one.why)}")
    if one.earliest_end_ms is not None and one.deadline_ms is not None and one.status != "planned":
        earliest, deadline = format_local(one.earliest_end_ms, zone), format_local(one.deadline_ms, zone)
        late = format_span(max(0, one.earliest_end_ms - one.deadline_ms))
        lines.append(f"Its deadline is {deadline}; it could end by {earliest} at the earliest, {late} later.")
    lines += [f"Add to it: {each}." for each in one.add]
    return lines


def _slack(one: Submitted) -> str:
    if one.slack_ms is None:
        return ""
    if one.slack_ms < 0:
        return f", {format_span(-one.slack_ms)} late"
    return f", {format_span(one.slack_ms)} before its deadline"


def _change(one: Document, foreign: Foreign) -> Document:
    return {
        "id": foreign.name(one["id"]),
        "before": one["before"],
        "after": one["after"],
        "because": None if one["because"] is None else foreign.text(one["because"]),
    }


def _others_words(others: Sequence[Document], foreign: Foreign) -> str:
    """What it does to the jobs that are there."""
    if not others:
        return "No other job would change."
    worse = [one for one in others if _status(one["before"]) == "planned" and _status(one["after"]) != "planned"]
    theirs = sum(1 for one in others if one["id"] in foreign)
    own = [foreign.name(one["id"]) for one in others if one["id"] not in foreign]
    whose = [*(own[:5]), *([ANOTHER if theirs == 1 else f"{theirs} jobs of other teams"] if theirs else [])]
    late = f"{len(worse)} of them would miss a deadline" if worse else "none would miss its deadline"
    return f"Other jobs would start at another time ({', '.join(whose)}); {late}."


def _status(seen: Document | None) -> str:
    return "" if seen is None else str(seen["status"])


def _table(jobs: Sequence[Submitted], zone: ZoneInfo) -> Table:
    return Table(
        title="Jobs that are not submitted yet",
        columns=(
            Column("job", "job"),
            Column("gpus", "GPUs", Kind.COUNT),
            Column("status", "status"),
            Column("start", "start", Kind.INSTANT),
            Column("end", "end", Kind.INSTANT),
            Column("flavor", "flavor"),
            Column("deadline", "deadline", Kind.INSTANT),
            Column("slack", "slack"),
            Column("earliest_end", "earliest end", Kind.INSTANT),
            Column("why", "why"),
        ),
        rows=tuple(
            (
                one.job,
                one.gpus,
                one.status,
                one.start_ms,
                one.end_ms,
                one.flavor,
                one.deadline_ms,
                None if one.slack_ms is None else format_span(one.slack_ms),
                one.earliest_end_ms,
                one.why,
            )
            for one in jobs
        ),
        zone=zone,
    )
