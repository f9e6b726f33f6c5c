"""The answer of `gpuyield plan`: the status with its reason, the jobs, what would make it fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil, floor
from typing import Any  # Documents are JSON.
from zoneinfo import ZoneInfo

from gpuyield.model.evidence import Gap
from gpuyield.report.answer import Answer, Next
from gpuyield.report.facts import Document
from gpuyield.report.screens.nodes import nodes_table
from gpuyield.report.screens.run_times import run_times_table
from gpuyield.report.screens.waiting import waiting_table
from gpuyield.report.sentences import count, listed
from gpuyield.report.tables import Cell, Column, Kind, Table, format_local, format_span
from gpuyield.units import format_duration, parse_instant

_SHOWN = 40


def plan_answer(
    plan: Document,
    *,
    zone: ZoneInfo,
    path: str | None,
    again: str = "gpuyield plan",
    gaps: Sequence[Gap] = (),
    after_services: bool = False,
    notes: Sequence[str] = (),
    exit_code: int = 0,
) -> Answer:
    """The plan as a screen; `path` is the file that it was written to, `again` the command line that made it.

    `after_services`: the GPUs that exist for it are those that services leave.
    """
    explanation = [str(line) for line in plan.get("explanation") or ()]
    first = _status_words(plan, explanation)
    where = f" {path}" if path else ""
    jobs = list(plan["jobs"])
    lines = [f"gap: {gap.where}: {gap.reason}" for gap in gaps]
    if len(jobs) > _SHOWN:
        lines.append(f"{count(len(jobs) - _SHOWN, 'more job')}: -o csv or -o json lists all.")
    if plan.get("stopped_because") == "time":
        lines.append("The time limit cut the search: the same inputs may give another plan. Raise --time-limit.")
    checks = Next(command=f"gpuyield verify{where}", why="check plan and proof again, from the inputs alone")
    example = next((str(job["id"]) for job in jobs if job["status"] != "planned"), str(jobs[0]["id"]) if jobs else "")
    explain = f"gpuyield explain {example}" + (f" --document {path}" if path else "")
    steps = [checks, Next(command=explain, why="when, and why not earlier")] if path else []
    if not path:
        steps.append(Next(command=f"{again} --out plan.json", why="keep it, so that verify and explain find it"))
    return Answer(
        document=plan,
        headline=(*first, *_objective_words(plan)),
        tables=tuple(
            table
            for table in (
                gpus_table(plan, after_services=after_services),
                jobs_table(plan, zone, most=_SHOWN),
                waiting_table(plan.get("waiting") or (), zone, most=_SHOWN),
                relaxations_table(plan, zone),
                nodes_table(plan),
                run_times_table(plan),
            )
            if table is not None
        ),
        csv=jobs_table(plan, zone),
        notes=(*lines, *notes),
        next=tuple(steps),
        exit_code=exit_code,
    )


def _status_words(plan: Document, explanation: Sequence[str]) -> list[str]:
    """The status with its reason; where all is met that can be, impossible jobs are no reason for it."""
    status = str(plan["status"])
    impossible = statuses(plan["jobs"]).get("impossible", 0)
    if impossible and status in ("optimal", "feasible"):
        return [f"{status}, without {count(impossible, 'job')} that can never run:", *explanation]
    if not explanation:
        return [f"{status}."]
    return [f"{status}: {explanation[0]}", *explanation[1:]]


def _objective_words(plan: Document) -> list[str]:
    """How good the plan is by its objective, and what is proven of any plan; nothing where the rest says it."""
    one = plan.get("objective") or {}
    value, bound = one.get("value"), one.get("bound")
    best = one.get("gap") == 0
    match one.get("name"):
        case "makespan" if value is not None:
            most = f"no plan takes less than {_span(bound)}" if bound is not None else "no bound is proven"
            return [f"All is done {_span(value)} after the start; {'no plan is faster' if best else most}."]
        case "cheapest" if value is not None:
            unit = f" {one['currency']}" if one.get("currency") else ""
            least = f"no plan costs less than {bound}{unit}" if bound is not None else "no bound is proven"
            return [f"The plan costs {value}{unit}, at the prices declared; {'no plan costs less' if best else least}."]
        case "on-time" if value is not None and value < 1:
            most = (
                f"no plan has more than {ceil(round(bound * 1000, 6)) / 10:.1f} %"
                if bound is not None
                else "no bound is proven"
            )
            tenths = floor(round(value * 1000, 6))
            share = "Over 99.9 %" if tenths == 1000 else f"{tenths / 10:.1f} %"
            return [f"{share} of the weight is on time; {'no plan has more' if best else most}."]
    return []


def _span(seconds: float) -> str:
    return format_duration(round(seconds * 1000))


def gpus_table(plan: Document, *, after_services: bool = False) -> Table | None:
    """What exists, is needed and is proven of each resource; None where there is none."""
    gpus = plan.get("gpus") or {}
    if not gpus:
        return None
    at_once = plan.get("peak_if_started_at_once") or {}
    return Table(
        title="GPUs that services leave" if after_services else "GPUs",
        columns=(
            Column("resource", "resource"),
            Column("available", "exist", Kind.COUNT),
            Column("needed", "needed", Kind.COUNT),
            Column("lower_bound", "proven floor", Kind.COUNT),
            Column("at_once", "all started at once", Kind.COUNT),
        ),
        rows=tuple(
            (name, one.get("available"), one.get("needed"), one.get("lower_bound"), at_once.get(name))
            for name, one in gpus.items()
        ),
    )


def jobs_table(plan: Document, zone: ZoneInfo, *, most: int | None = None) -> Table:
    """Every job (at most so many) with its start and end, in order of its start; those not run come first."""
    ordered = sorted(plan["jobs"], key=_start)
    risky = any(job.get("p_late") is not None for job in ordered)
    soft = any(job.get("due") for job in ordered)
    rows: list[tuple[Cell, ...]] = []
    for job in ordered[:most]:
        segments = job.get("segments") or []
        rows.append(
            (
                str(job["id"]),
                str(job["status"]),
                job.get("flavor"),
                job.get("gpus"),
                parse_instant(segments[0][0]) if segments else None,
                parse_instant(segments[-1][1]) if segments else None,
                parse_instant(job["deadline"]) if job.get("deadline") else None,
                round(job["slack_s"] * 1000) if job.get("slack_s") is not None else None,
                *(_due_cells(job) if soft else ()),
                *((job.get("p_late"),) if risky else ()),
                str(job.get("why") or ""),
            )
        )
    return Table(
        title="Every job" if most is None or len(ordered) <= most else "Jobs",
        columns=(
            Column("job", "job"),
            Column("status", "status"),
            Column("flavor", "flavor"),
            Column("gpus", "GPUs", Kind.COUNT),
            Column("start", "start", Kind.INSTANT),
            Column("end", "end", Kind.INSTANT),
            Column("deadline", "deadline", Kind.INSTANT),
            Column("slack_ms", "slack", Kind.DURATION),
            *(_DUE if soft else ()),
            *((Column("p_late", "late in", Kind.RATIO),) if risky else ()),
            Column("why", "why"),
        ),
        rows=tuple(rows),
        zone=zone,
    )


_DUE = (Column("due", "due", Kind.INSTANT), Column("late_ms", "after due", Kind.DURATION))


def _due_cells(job: Mapping[str, Any]) -> tuple[Cell, ...]:
    if not job.get("due"):
        return (None, None)
    return (parse_instant(job["due"]), round(job["late_s"] * 1000) if job.get("segments") else None)


def _start(job: Mapping[str, Any]) -> tuple[str, str]:
    segments = job.get("segments") or []
    return (str(segments[0][0]) if segments else "", str(job["id"]))


def relaxations_table(plan: Document, zone: ZoneInfo) -> Table | None:
    """What would make it fit, each checked by a plan; None where nothing is needed."""
    found = list(plan.get("relaxations") or ())
    if not found:
        return None
    return Table(
        title="It would fit with",
        columns=(Column("change", "change"), Column("least", "less does not do")),
        rows=tuple((relaxation_words(one, zone), _least(one.get("irreducible"))) for one in found),
    )


def _least(irreducible: object) -> str | None:
    return "proven" if irreducible is True else None


def relaxation_words(one: Mapping[str, Any], zone: ZoneInfo) -> str:
    """A relaxation in words."""
    match one["kind"]:
        case "add-gpus":
            begin, end = parse_instant(one["from"]), parse_instant(one["to"])
            resource = str(one["resource"]).removeprefix("gpu/").removeprefix("gpu")
            what = count(int(one["amount"]), f"more {resource} GPU".replace("  ", " "))
            return f"{what} from {format_local(begin, zone)} to {format_local(end, zone)}"
        case "move-deadline":
            moved = [f"{job['id']} by {format_span(round(job['by_s'] * 1000))}" for job in one["jobs"]]
            return f"{count(len(moved), 'deadline')} later: {listed(moved)}"
        case _:
            jobs = [str(job) for job in one["jobs"]]
            return f"without {count(len(jobs), 'job')}: {listed(jobs)}"


def statuses(jobs: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """How many jobs have each status."""
    found: dict[str, int] = {}
    for job in jobs:
        found[job["status"]] = found.get(job["status"], 0) + 1
    return found
