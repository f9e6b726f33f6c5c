"""What a verified outcome costs, or why nobody can say."""

from __future__ import annotations

from gpuyield.report.facts import Facts
from gpuyield.report.page import Section
from gpuyield.report.screens.cost import key_words, unit_cost, unit_table
from gpuyield.report.sentences import listed

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
        title=_finding(facts),
        lead=_bill_words(facts),
        tables=(table,),
        open_tables=1,
        how=_HOW,
    )


def _finding(facts: Facts) -> str:
    cost = facts.cost or {}
    currency = str(cost.get("currency") or "")
    known = []
    for row in cost["rows"]:
        shown = unit_cost((row.get("cost_per_verified_outcome") or {}).get("allocated"), currency)
        if shown:
            known.append(f"{key_words(row['key'])} {shown}")
    if known:
        return f"A verified outcome costs: {listed(known, most=3)}"
    if not currency:
        return "Cost is not known: no prices are declared"
    return "No outcome was verified, so its cost is not known"


def _bill_words(facts: Facts) -> tuple[str, ...]:
    bill = (facts.cost or {}).get("bill") or {}
    if bill.get("source_total") is None:
        return ()
    state = "reconciles with" if bill.get("reconciled") else "does not reconcile with"
    difference = f"difference {bill['residual']}, tolerance {bill['tolerance']}"
    return (f"The attributed {bill['attributed']} {state} the source's {bill['source_total']} ({difference}).",)
