"""The plan against reality: when the jobs of planned queues began, and when they were planned to."""

from __future__ import annotations

from collections.abc import Sequence

from gpuyield.model.starts import ON_TIME_MS, Started
from gpuyield.report.facts import Facts
from gpuyield.report.page import Section
from gpuyield.report.sentences import count, percent
from gpuyield.report.tables import Cell, Column, Kind, Table, format_span

_MOST_ROWS = 50

_HOW = (
    f"As planned is within {ON_TIME_MS // 1000} seconds of the start that the plan in force gave a job when it was let "
    "go. First planned is what whoever submitted it was told at first. The marks on its Workload tell both, and why it "
    "began when it did; gpuyield collect keeps them."
)


def starts_section(facts: Facts) -> Section | None:
    """How the enforced plan was kept; None where no plan is enforced."""
    if facts.starts is None:
        return None
    if not facts.starts:
        return Section(
            id="starts", kicker="Plan against reality", title="No job of a planned queue began in this window", how=_HOW
        )
    return Section(
        id="starts",
        kicker="Plan against reality",
        title=starts_finding(facts.starts),
        lead=tuple(_lead(facts.starts)),
        tables=(starts_table(facts.starts),),
        how=_HOW,
    )


def starts_finding(starts: Sequence[Started]) -> str:
    """How many began as planned."""
    known = [one for one in starts if one.late_ms is not None]
    if not known:
        return f"What was planned for {count(len(starts), 'job')} that began is not known"
    kept = sum(one.is_as_planned for one in known)
    return f"{percent(kept, len(known))} of {count(len(known), 'job')} began as planned"


def _lead(starts: Sequence[Started]) -> list[str]:
    known = [one.late_ms for one in starts if one.late_ms is not None]
    late, early = (sum(sign * one > ON_TIME_MS for one in known) for sign in (1, -1))
    told = []
    if late or early:
        told.append(f"{late} began later, {early} earlier than the plan in force said.")
    moved = sorted(one.moved_ms for one in starts if one.moved_ms is not None)
    if moved:
        middle, far = moved[len(moved) // 2], moved[min(len(moved) - 1, len(moved) * 95 // 100)]
        told.append(f"Against what was told at first: {_shift(middle)} in the middle, {_shift(far)} or less for 95 %.")
    unknown = len(starts) - len(known)
    if unknown:
        told.append(f"Of {count(unknown, 'job')} it is not known: somebody else let them go, or their marks are gone.")
    return told


def starts_table(starts: Sequence[Started]) -> Table:
    """The jobs that began furthest from the plan."""
    furthest = sorted(starts, key=lambda one: (-abs(one.late_ms or 0), -abs(one.moved_ms or 0), one.started_ms))
    rows: list[tuple[Cell, ...]] = [
        (
            f"{one.namespace}/{one.name}",
            one.gpus,
            one.first_ms,
            one.planned_ms,
            one.started_ms,
            None if one.late_ms is None else _shift(one.late_ms),
            one.because or None,
        )
        for one in furthest[:_MOST_ROWS]
    ]
    return Table(
        title="Jobs, those furthest from the plan first",
        columns=(
            Column("job", "job"),
            Column("gpus", "GPUs", Kind.NUMBER),
            Column("first_planned", "first planned", Kind.INSTANT),
            Column("planned", "planned", Kind.INSTANT),
            Column("began", "began", Kind.INSTANT),
            Column("late", "against the plan"),
            Column("because", "because"),
        ),
        rows=tuple(rows),
    )


def _shift(late_ms: int) -> str:
    if abs(late_ms) < 1000:
        return "on time"
    return f"{format_span(abs(late_ms))} {'later' if late_ms > 0 else 'earlier'}"
