"""Facts as a page: the answer and its figures first, then why the queue waits, then everything that bears it out."""

from __future__ import annotations

from collections.abc import Callable

from gpuyield.model.waterfall import BUSY, GpuClass
from gpuyield.report.answer import Next
from gpuyield.report.facts import Facts
from gpuyield.report.page import Figure, Page, Section, Tone
from gpuyield.report.screens.cost import FORMS, key_words, unit_cost_parts, unit_cost_reason
from gpuyield.report.screens.decide import STATUS_WORDS
from gpuyield.report.sections.cost import cost_section
from gpuyield.report.sections.gaps import gaps_section
from gpuyield.report.sections.holders import holders_section
from gpuyield.report.sections.levers import levers_section
from gpuyield.report.sections.mind import mind_section
from gpuyield.report.sections.plan import at_once_bars, peaks, plan_section
from gpuyield.report.sections.queue import queue_section
from gpuyield.report.sections.services import services_section
from gpuyield.report.sections.starts import starts_section
from gpuyield.report.sections.teams import teams_section
from gpuyield.report.sections.waterfall import waterfall_section
from gpuyield.report.sentences import account_headline, count, gpu_hours, has_outcomes, percent, window_words

_ORDER: tuple[Callable[[Facts], Section | None], ...] = (
    cost_section,
    queue_section,
    levers_section,
    plan_section,
    starts_section,
    services_section,
    mind_section,
    waterfall_section,
    teams_section,
    holders_section,
    gaps_section,
)

_TONES = {"not_needed": Tone.GOOD, "needed": Tone.ACT, "unknown": Tone.OPEN}


def assemble(facts: Facts) -> Page:
    """The page of these facts."""
    status = str((facts.decision or {}).get("status") or "unknown")
    return Page(
        cluster=facts.cluster,
        window=window_words(facts.account.window, facts.zone) if facts.account else "",
        tone=_TONES[status],
        status_word=STATUS_WORDS[status],
        headline=_headline(facts),
        lead=_lead(facts),
        figures=tuple(_figures(facts)),
        sections=tuple(section for make in _ORDER if (section := make(facts)) is not None),
        next=_next(facts),
        footer=_footer(facts),
    )


def _headline(facts: Facts) -> str:
    if facts.decision and facts.decision.get("headline"):
        return str(facts.decision["headline"])
    if facts.account is not None:
        return account_headline(facts.account, judged=has_outcomes(facts.account.waterfall))
    return "Nothing was collected yet."


def _lead(facts: Facts) -> tuple[str, ...]:
    if facts.decision is None:
        return ()
    return tuple(str(line) for line in facts.decision.get("lead") or ())


def _figures(facts: Facts) -> list[Figure]:
    figures = [*_unit_costs(facts)]
    if facts.account is not None and facts.account.waterfall.capacity_gpu_ms:
        fall = facts.account.waterfall
        idle = fall.gpu_ms(GpuClass.IDLE_HELD)
        now = sum(one.gpus_now for one in facts.account.holders)
        figures.append(
            Figure(label="Held idle", value=gpu_hours(idle), note=f"{count(now, 'GPU')} at the end of the window")
        )
        busy = fall.gpu_ms(*BUSY)
        judged = has_outcomes(fall)
        note = "of capacity" if judged else "of capacity, not judged yet"
        figures.append(Figure(label="Busy", value=percent(busy, fall.capacity_gpu_ms), note=note))
    if facts.plan_inputs is not None and facts.plan is not None:
        needed = _sum(facts.plan, "needed")
        available = _sum(facts.plan, "available")
        once = peaks(at_once_bars(facts.plan_inputs))
        if needed is not None:
            figures.append(
                Figure(
                    label="GPUs the declared batch needs",
                    value=f"{needed:,}" + (f" of {available:,}" if available is not None else ""),
                    note=f"{'that services leave; ' if facts.after_services else ''}started all at once: {once:,}",
                )
            )
    coverage = (facts.decision or {}).get("coverage")
    if coverage is not None:
        figures.append(
            Figure(
                label="Declared",
                value=percent(round(float(coverage) * 1_000_000), 1_000_000),
                note="of GPU-hours have a deadline or an objective",
            )
        )
    return figures


def _sum(plan: object, field: str) -> int | None:
    gpus = plan["gpus"] if isinstance(plan, dict) else {}
    amounts = [one.get(field) for one in gpus.values()]
    return None if not amounts or any(amount is None for amount in amounts) else sum(amounts)


def _unit_costs(facts: Facts) -> list[Figure]:
    """The two cheapest ways to say what an outcome costs, by key; without any, the first reason why not."""
    cost = facts.cost
    if cost is None:
        why = "no prices are declared" if facts.account is not None else "nothing was collected"
        return [Figure(label="Cost per verified outcome", value="not known", note=why)]
    currency = str(cost.get("currency") or "")
    known, reasons = [], []
    for row in cost["rows"]:
        forms = row.get("cost_per_verified_outcome") or {}
        parts = unit_cost_parts(forms.get("allocated"), currency)
        if parts is not None:
            label = f"Cost per verified outcome: {key_words(row['key'])}"
            known.append(Figure(label=label, value=parts[0], note=parts[1]))
        reasons += [reason for form in FORMS if (reason := unit_cost_reason(forms.get(form)))]
    if known:
        return known[:2]
    return [
        Figure(
            label="Cost per verified outcome",
            value="not known",
            note=reasons[0] if reasons else "no prices are declared",
        )
    ]


def _next(facts: Facts) -> tuple[Next, ...]:
    place = facts.decision_path
    steps = [] if place is None else [Next(command=f"gpuyield verify {place}", why="check the proof again")]
    if facts.decision and any(lever["lever"] == "reclaim" for lever in facts.decision.get("levers") or ()):
        named = "" if place is None else f" --document {place}"
        steps.append(Next(command=f"gpuyield explain reclaim{named}", why="why these GPUs"))
    steps.append(Next(command="gpuyield decide --gate", why="the same answer as an exit code, for CI"))
    return tuple(steps)


def _footer(facts: Facts) -> tuple[str, ...]:
    lines = []
    if facts.sources:
        lines.append("Sources: " + "; ".join(f"{one.name}: {one.what}" for one in facts.sources) + ".")
    digest = (facts.decision or {}).get("inputs_digest")
    if digest:
        lines.append(f"Inputs {digest}.")
    zone = facts.zone.key
    lines.append(f"Times are in {zone}. gpuyield {facts.version}. This page holds all it shows and fetches nothing.")
    return tuple(lines)
