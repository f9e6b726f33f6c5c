"""The levers in order, before any purchase."""

from __future__ import annotations

from gpuyield.report.facts import Facts
from gpuyield.report.page import Section
from gpuyield.report.screens.conditional import conditional_words
from gpuyield.report.screens.decide import levers_table, observed_table
from gpuyield.report.sentences import count, sentence

_HOW = (
    "Levers are tried in order, each on what the ones before left. A purchase is called needed only with a "
    "certificate that gpuyield verify accepts from the inputs; where evidence is missing the answer is unknown."
)


def levers_section(facts: Facts) -> Section | None:
    """What to do first."""
    decision = facts.decision
    if decision is None:
        return None
    tables = []
    if decision.get("levers"):
        tables.append(levers_table(decision))
    conditional = observed_table(decision)
    if conditional is not None:
        tables.append(conditional)
    return Section(
        id="levers",
        kicker="What to do, in order",
        title=_finding(facts),
        lead=_reasons(facts),
        tables=tuple(tables),
        open_tables=len(tables),
        how=_HOW,
    )


def _finding(facts: Facts) -> str:
    decision = facts.decision or {}
    levers = [lever for lever in decision.get("levers") or () if lever["lever"] != "buy"]
    freed = sum(int(number) for lever in levers for number in (lever.get("gpus_freed") or {}).values())
    if levers and freed:
        return f"{count(len(levers), 'lever')} without buying: {count(freed, 'GPU')} come free"
    if levers:
        return f"{count(len(levers), 'lever')} without buying"
    if decision.get("levers"):
        return "No lever but a purchase meets the deadlines"
    if decision.get("conditional"):
        return "How many GPUs the observed work needs depends on when it has to be done"
    return "Nothing to change was found"


def _reasons(facts: Facts) -> tuple[str, ...]:
    decision = facts.decision or {}
    reasons = [sentence(str(line)) for line in decision.get("reasons") or ()]
    return (*reasons, *conditional_words(decision.get("conditional") or []))
