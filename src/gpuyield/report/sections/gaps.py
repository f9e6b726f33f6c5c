"""What is not known, and what that costs in certainty."""

from __future__ import annotations

from gpuyield.report.facts import Facts
from gpuyield.report.page import Section
from gpuyield.report.sentences import count, gpu_hours
from gpuyield.report.tables import Column, Kind, Table

_HOW = "What is not known is never counted as 0: it is a class of its own in the waterfall, or a dash in a table."


def gaps_section(facts: Facts) -> Section:
    """All gaps, the largest first."""
    gaps = sorted(facts.gaps, key=lambda gap: (-(gap.gpu_ms or 0), gap.where, gap.reason))
    if not gaps:
        return Section(id="gaps", kicker="What is not known", title="No gap in the evidence was found", how=_HOW)
    touched = sum(gap.gpu_ms or 0 for gap in gaps)
    title = f"{count(len(gaps), 'gap')} in the evidence" + (f", on {gpu_hours(touched)}" if touched else "")
    table = Table(
        title="Gaps",
        columns=(
            Column("where", "where"),
            Column("reason", "what is missing"),
            Column("from", "from", Kind.INSTANT),
            Column("to", "to", Kind.INSTANT),
            Column("gpu_ms", "GPU-hours", Kind.GPU_TIME),
        ),
        rows=tuple(
            (
                gap.where,
                gap.reason,
                None if gap.window is None else gap.window.from_ms,
                None if gap.window is None else gap.window.to_ms,
                gap.gpu_ms,
            )
            for gap in gaps
        ),
        zone=facts.zone,
    )
    return Section(
        id="gaps", kicker="What is not known", title=title, tables=(table,), open_tables=len(gaps) <= 8, how=_HOW
    )
