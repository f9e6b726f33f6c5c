"""The answer of `gpuyield decide`: the status in a sentence, and the levers in order."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any  # Documents are JSON.
from zoneinfo import ZoneInfo

from gpuyield.model.evidence import Gap
from gpuyield.report.answer import Answer, Next
from gpuyield.report.facts import Document
from gpuyield.report.screens.account import gap_notes, zone_of_gaps
from gpuyield.report.screens.conditional import conditional_table, conditional_words
from gpuyield.report.sentences import sentence
from gpuyield.report.tables import Cell, Column, Kind, Table
from gpuyield.units import Window, parse_instant

STATUS_WORDS: Mapping[str, str] = {
    "not_needed": "No purchase needed",
    "needed": "A purchase is needed",
    "unknown": "Not known yet",
}


def levers_table(decision: Document) -> Table:
    """The levers in order, with what each frees, saves and risks, and how to undo it."""
    rows: list[tuple[Cell, ...]] = []
    for at, lever in enumerate(decision["levers"], 1):
        freed = lever.get("gpus_freed") or {}
        rows.append(
            (
                f"{at} {lever['lever']}",
                lever.get("change"),
                sum(int(number) for number in freed.values()) if freed else 0,
                money_words(lever.get("money_per_month")),
                lever.get("deadlines_saved"),
                lever.get("risk"),
                lever.get("undo"),
                lever.get("provenance"),
            )
        )
    return Table(
        title="Levers, in the order to pull them",
        columns=(
            Column("lever", "lever"),
            Column("change", "change"),
            Column("gpus_freed", "GPUs freed", Kind.COUNT),
            Column("money_per_month", "a month", Kind.NUMBER),
            Column("deadlines_saved", "deadlines saved", Kind.COUNT),
            Column("risk", "risk"),
            Column("undo", "undo"),
            Column("provenance", "provenance"),
        ),
        rows=tuple(rows),
    )


def levers_screen(decision: Document) -> Table:
    """The levers as a terminal has room for: what to change and what it brings; `explain` tells the rest."""
    full = levers_table(decision)
    wanted = ("lever", "change", "gpus_freed", "money_per_month", "deadlines_saved")
    places = [at for at, column in enumerate(full.columns) if column.key in wanted]
    return Table(
        title=full.title,
        columns=tuple(full.columns[at] for at in places),
        rows=tuple(tuple(row[at] for at in places) for row in full.rows),
    )


def money_words(money: Any) -> str | None:
    """`19,995.00 EUR`; None where it is not known."""
    if money is None:
        return None
    if isinstance(money, Mapping):
        amount = money.get("amount")
        return None if amount is None else f"{Decimal(str(amount)):,.2f} {money.get('currency') or ''}".rstrip()
    return f"{Decimal(str(money)):,.2f}"


def observed_table(decision: Document) -> Table | None:
    """If the observed jobs may each finish within so long: the GPUs needed, and the proven floor."""
    return conditional_table(decision.get("conditional") or [], title="If the observed jobs may each finish within")


def decide_answer(
    decision: Document, *, zone: ZoneInfo, path: str | None, notes: tuple[str, ...] = (), exit_code: int = 0
) -> Answer:
    """The decision as a screen; `path` is the file that it was written to."""
    tables = [levers_screen(decision)] if decision.get("levers") else []
    conditional = observed_table(decision)
    if conditional is not None:
        tables.append(conditional)
    lines = [*conditional_words(decision.get("conditional") or [])]
    lines += [str(one["sentence"]) for one in decision.get("flip_points") or ()]
    experiment = decision.get("next_experiment")
    if experiment:
        lines.append(f"To know more: {experiment['sentence']} ({experiment['command']})")
    gaps = decision.get("gaps") or []
    # What the decision itself lacks comes before what single nodes lack.
    found = [_gap(gap) for gap in gaps]
    own = tuple(gap for gap in found if gap.window is None)
    rest = tuple(gap for gap in found if gap.window is not None)
    lines += [*gap_notes(own, zone=zone), *gap_notes(rest, zone=zone, most=_SHOWN_GAPS)]
    steps = [Next(command="gpuyield report --out report.html", why="one page for all of it")]
    if path:
        steps.insert(0, Next(command=f"gpuyield verify {path}", why="check the proof again, from the inputs alone"))
    if path and decision.get("levers"):
        lever = str(decision["levers"][-1]["lever"])
        why = "its risk, and how to undo it"
        steps.insert(1, Next(command=f"gpuyield explain {lever} --document {path}", why=why))
    steps.append(Next(command="gpuyield decide --gate", why="the same answer as an exit code, for CI"))
    covered = decision.get("coverage")
    coverage = [] if covered is None else [f"Declared coverage: {covered * 100:.0f} % of held GPU-hours."]
    return Answer(
        document=decision,
        headline=(
            str(decision["headline"]),
            *(str(line) for line in decision.get("lead") or ()),
            *(sentence(str(line)) for line in decision.get("reasons") or ()),
            *coverage,
        ),
        tables=tuple(tables),
        csv=levers_table(decision) if decision.get("levers") else None,
        notes=(*lines, *notes),
        next=tuple(steps),
        exit_code=exit_code,
        zone=zone_of_gaps(found, zone),
    )


_SHOWN_GAPS = 3


def _gap(gap: Mapping[str, Any]) -> Gap:
    window = gap.get("window")
    return Gap(
        reason=str(gap["reason"]),
        where=str(gap.get("where") or ""),
        window=Window(parse_instant(window["from"]), parse_instant(window["to"])) if window else None,
        gpu_ms=gap.get("gpu_ms"),
    )
