"""The answer of `gpuyield what-if`: before and after, and the jobs that change."""

from __future__ import annotations

from typing import Any  # Documents are JSON.
from zoneinfo import ZoneInfo

from gpuyield.model.document import gaps_document, schema_name
from gpuyield.model.evidence import Gap
from gpuyield.report.answer import Answer, Next
from gpuyield.report.facts import Document
from gpuyield.report.screens.account import gap_notes
from gpuyield.report.tables import Cell, Column, Kind, Table, format_local
from gpuyield.units import parse_instant


def what_if_answer(
    before: Document, after: Document, *, zone: ZoneInfo, again: str, gaps: tuple[Gap, ...] = ()
) -> Answer:
    """Both plans side by side; `again` is the command that makes the plan without the changes."""
    changed = changes(before, after)
    first = (after.get("explanation") or [""])[0]
    headline = f"{before['status']} before, {after['status']} with the changes."
    return Answer(
        document={
            "schema": schema_name("what-if"),
            "before": before,
            "after": after,
            "changes": changed,
            "gaps": gaps_document(gaps),
        },
        headline=(headline, str(first)) if first else (headline,),
        tables=(_summary(before, after), *([_changes_table(changed, zone)] if changed else [])),
        csv=_changes_table(changed, zone),
        notes=(*(() if changed else ("No job changes.",)), *gap_notes(gaps, zone=zone)),
        next=(Next(command=again, why="the plan as it is; edit the files to keep a change"),),
        zone=zone if changed else None,
    )


def changes(before: Document, after: Document) -> list[dict[str, Any]]:
    """Jobs whose status, start or presence differs."""
    old = {str(job["id"]): job for job in before["jobs"]}
    new = {str(job["id"]): job for job in after["jobs"]}
    found = []
    for name in sorted({*old, *new}):
        left, right = old.get(name), new.get(name)
        if _seen(left) != _seen(right):
            found.append({"id": name, "before": _seen(left), "after": _seen(right), "because": _because(right)})
    return found


def _because(job: Document | None) -> str | None:
    """Why it moved; where it did not, why it runs when it does or does not run."""
    return None if job is None else str(job.get("moved_because") or job.get("why") or "") or None


def _seen(job: Document | None) -> dict[str, Any] | None:
    if job is None:
        return None
    segments = job.get("segments") or []
    return {"status": job["status"], "start": segments[0][0] if segments else None}


def _summary(before: Document, after: Document) -> Table:
    rows: list[tuple[Cell, ...]] = [("status", str(before["status"]), str(after["status"]))]
    for resource in {**(before.get("gpus") or {}), **(after.get("gpus") or {})}:
        for field, words in (("available", "exist"), ("needed", "needed"), ("lower_bound", "proven floor")):
            amounts = [((one.get("gpus") or {}).get(resource) or {}).get(field) for one in (before, after)]
            rows.append((f"{resource} {words}", *("-" if one is None else f"{one:,}" for one in amounts)))
    for one in ("planned", "late", "dropped", "impossible"):
        counts = [sum(1 for job in plan["jobs"] if job["status"] == one) for plan in (before, after)]
        if any(counts):
            rows.append((f"jobs {one}", *(f"{number:,}" for number in counts)))
    return Table(
        title="",
        columns=(
            Column("what", ""),
            Column("before", "before", Kind.NUMBER),
            Column("after", "with the changes", Kind.NUMBER),
        ),
        rows=tuple(rows),
    )


def _changes_table(changed: list[dict[str, Any]], zone: ZoneInfo) -> Table:
    return Table(
        title="Jobs that change",
        columns=(
            Column("job", "job"),
            Column("before", "before"),
            Column("after", "with the changes"),
            Column("because", "because"),
        ),
        rows=tuple(
            (one["id"], _words(one["before"], zone), _words(one["after"], zone), one["because"]) for one in changed
        ),
    )


def _words(seen: dict[str, Any] | None, zone: ZoneInfo) -> str:
    if seen is None:
        return "not there"
    start = seen["start"]
    return f"{seen['status']}, starts {format_local(parse_instant(start), zone)}" if start else str(seen["status"])
