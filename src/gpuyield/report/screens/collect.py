"""The answer of `gpuyield collect`: what was read, and what is missing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol
from zoneinfo import ZoneInfo

from gpuyield.model.document import gaps_document, schema_name, window_document
from gpuyield.model.evidence import Gap
from gpuyield.report.answer import Answer, Next
from gpuyield.report.screens.account import gap_notes, zone_of_gaps
from gpuyield.report.sentences import count
from gpuyield.report.tables import Column, Table
from gpuyield.units import Window


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeFiles:
    """Outcome files that the declaration names, and how many outcomes in them were new."""

    files: int
    outcomes: int


class Collected(Protocol):
    """What a collection did."""

    @property
    def window(self) -> Window:
        """What was asked for."""

    @property
    def product(self) -> str:
        """What the source is."""

    @property
    def version(self) -> str:
        """Its version."""

    @property
    def queries(self) -> int:
        """How often it was asked."""

    @property
    def samples(self) -> int:
        """How many samples it gave."""

    @property
    def days_read(self) -> tuple[str, ...]:
        """UTC days that were read."""

    @property
    def days_known(self) -> tuple[str, ...]:
        """UTC days that were complete before, and were not read again."""

    @property
    def names(self) -> Mapping[str, str]:
        """Names of metrics that were used, by what they tell."""

    @property
    def gaps(self) -> tuple[Gap, ...]:
        """What is missing in the window."""


def collect_answer(
    found: Collected,
    *,
    gaps: tuple[Gap, ...],
    opencost: bool,
    outcomes: OutcomeFiles,
    root: str,
    zone: ZoneInfo,
) -> Answer:
    """What each source gave; `gaps` are those of other sources than the one of metrics."""
    gaps = (*found.gaps, *gaps)
    product = f"{found.product} {found.version}".strip()
    days = f"{count(len(found.days_read), 'day')} read"
    if found.days_known:
        days += f", {len(found.days_known)} known before"
    rows = [("prometheus", f"{count(found.queries, 'query', 'queries')}, {count(found.samples, 'sample')}, {days}")]
    if opencost:
        rows.append(("opencost", "prices of finished days"))
    if outcomes.files:
        rows.append(("outcomes", f"{count(outcomes.files, 'file')}, {count(outcomes.outcomes, 'new outcome')}"))
    return Answer(
        document={
            "schema": schema_name("collect"),
            "window": window_document(found.window),
            "source": product,
            "queries": found.queries,
            "samples": found.samples,
            "days_read": list(found.days_read),
            "days_known": list(found.days_known),
            "names": dict(found.names),
            "outcome_files": outcomes.files,
            "new_outcomes": outcomes.outcomes,
            "gaps": gaps_document(gaps),
        },
        headline=(f"Collected from {product} into {root}.",),
        tables=(Table(title="", columns=(Column("source", "source"), Column("read", "read")), rows=tuple(rows)),),
        notes=gap_notes(gaps, zone=zone),
        next=(Next(command="gpuyield account --by team", why="where every GPU-hour went"),),
        zone=zone_of_gaps(gaps, zone),
    )
