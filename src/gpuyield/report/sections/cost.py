"""What a verified outcome costs, or why nobody can say."""

from __future__ import annotations

from gpuyield.report.facts import Facts
from gpuyield.report.page import Section
from gpuyield.report.screens.cost import bill_words, unit_finding, unit_table

_HOW = (
    "Money is price x GPU-milliseconds, exact, divided when printed. Of all held time: everything that the rows held, "
    "idle and lost included. Of busy time: busy time only, lost included. Fully loaded: held time plus the share of "
    "unallocated and unavailable time that the declared sharing rule gives. Each over the number of verified outcomes."
)


def cost_section(facts: Facts) -> Section | None:
    """Cost per verified outcome by team."""
    cost = facts.cost
    if cost is None or not cost.get("rows"):
        return None
    table = unit_table(cost)
    return Section(
        id="cost",
        kicker="Cost per verified outcome",
        title=unit_finding(cost),
        lead=bill_words(cost),
        tables=(table,),
        open_tables=1,
        how=_HOW,
    )
