"""What would change the answer: the figures at which it flips, and what to find out next."""

from __future__ import annotations

from gpuyield.report.facts import Facts
from gpuyield.report.page import Section
from gpuyield.report.sentences import count
from gpuyield.report.tables import Column, Table

_HOW = "Each figure is one at which the same decision, made again, comes out differently; what is proven is said to be."


def mind_section(facts: Facts) -> Section | None:
    """Flip points and the next thing to find out; None where the decision names neither."""
    decision = facts.decision or {}
    points = [str(one["sentence"]) for one in decision.get("flip_points") or ()]
    experiment = decision.get("next_experiment")
    if not points and not experiment:
        return None
    lead = (f"To know more: {experiment['sentence']}",) if experiment else ()
    table = Table(
        title="Where the answer flips", columns=(Column("sentence", "figure"),), rows=tuple((one,) for one in points)
    )
    return Section(
        id="mind",
        kicker="What would change the answer",
        title=f"{count(len(points), 'figure')} at which the answer changes" if points else "More can be known",
        lead=lead,
        tables=(table,) if points else (),
        open_tables=1,
        how=_HOW,
    )
