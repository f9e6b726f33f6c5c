"""The answer of `gpuyield decide`: the status in a sentence, and the levers in order."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any  # Documents are JSON.

from gpuyield.report.facts import Document
from gpuyield.report.tables import Cell, Column, Kind, Table

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


def money_words(money: Any) -> str | None:
    """`19,995.00 EUR`; None where it is not known."""
    if money is None:
        return None
    if isinstance(money, Mapping):
        amount = money.get("amount")
        return None if amount is None else f"{Decimal(str(amount)):,.2f} {money.get('currency') or ''}".rstrip()
    return f"{Decimal(str(money)):,.2f}"


def conditional_table(decision: Document) -> Table | None:
    """If the observed jobs may each finish within so long: the GPUs needed, and the proven floor."""
    rows = decision.get("conditional") or []
    if not rows:
        return None
    return Table(
        title="If the observed jobs may each finish within",
        columns=(
            Column("finish_within", "finish within"),
            Column("gpus_needed", "GPUs suffice", Kind.COUNT),
            Column("lower_bound", "proven floor", Kind.COUNT),
            Column("impossible", "jobs impossible even alone", Kind.COUNT),
        ),
        rows=tuple(
            (str(row["finish_within"]), row.get("gpus_needed"), row.get("lower_bound"), row.get("impossible"))
            for row in rows
        ),
    )
