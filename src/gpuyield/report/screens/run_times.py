"""What the run times of a plan rest on, by family."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any  # Documents are JSON.

from gpuyield.report.facts import Document
from gpuyield.report.sentences import count
from gpuyield.report.tables import Cell, Column, Kind, Table, format_span

_BASIS = {"family": "its runs", "declared": "declared", "all": "all runs: it has too few"}


def run_times_table(plan: Document) -> Table | None:
    """How long each family is planned for, on what, and how often that was kept; None where every job states it."""
    found = list(plan.get("durations") or ())
    if not found:
        return None
    rows: list[tuple[Cell, ...]] = [
        (
            str(one["family"]),
            _BASIS.get(str(one["basis"]), str(one["basis"])),
            one["runs"],
            _ms(one["planned_s"]),
            one["quantile"],
            one["coverage"],
            one["overran"],
            _ms(one["p50_s"]),
            _ms(one["p90_s"]),
            _ms(one["mean_s"]),
        )
        for one in found
    ]
    return Table(
        title="Run times",
        columns=(
            Column("family", "family"),
            Column("basis", "known from"),
            Column("runs", "runs", Kind.COUNT),
            Column("planned_ms", "forecast", Kind.DURATION),
            Column("quantile", "to cover", Kind.RATIO),
            Column("coverage", "covered", Kind.RATIO),
            Column("overran", "overran by > 1/4", Kind.RATIO),
            Column("p50_ms", "median", Kind.DURATION),
            Column("p90_ms", "90th percentile", Kind.DURATION),
            Column("mean_ms", "mean", Kind.DURATION),
        ),
        rows=tuple(rows),
    )


def run_time_words(plan: Document, family: str | None, length_ms: int) -> str | None:
    """What a run time rests on, as a sentence; None where it is not that which is planned for the family."""
    one: Mapping[str, Any] | None = next((one for one in plan.get("durations") or () if one["family"] == family), None)
    if one is None or one["quantile"] is None or _ms(one["planned_s"]) != length_ms:
        return None
    planned = f"Planned for {format_span(length_ms)}, which is to cover {one['quantile'] * 100:.0f} of 100 runs"
    if one["basis"] != "family":
        return f"{planned} of any family: of {family} only {count(one['runs'], 'run')} ended."
    kept = "" if one["coverage"] is None else f"; {one['coverage'] * 100:.0f} of 100 forecasts so far were kept"
    return f"{planned} of {family}, judging by the {count(one['runs'], 'run')} that ended{kept}."


def _ms(length_s: float | None) -> int | None:
    return None if length_s is None else round(length_s * 1000)
