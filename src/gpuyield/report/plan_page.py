"""One plan as a page of its own: the answer, its figures, GPUs over time and job by job."""

from __future__ import annotations

from dataclasses import replace

from gpuyield.report.answer import Next
from gpuyield.report.facts import Document, Facts
from gpuyield.report.page import Figure, Page, Tone
from gpuyield.report.sections.plan import plan_section
from gpuyield.report.sentences import count, percent

_TONES = {
    "optimal": (Tone.GOOD, "All deadlines met"),
    "feasible": (Tone.GOOD, "All deadlines met"),
    "infeasible": (Tone.ACT, "Not all deadlines can be met"),
    "unknown": (Tone.OPEN, "Not all deadlines met"),
}


def plan_page(facts: Facts, *, path: str) -> Page:
    """The page of the plan in these facts, which lies in the file `path`."""
    plan = facts.plan or {}
    tone, word = _TONES[str(plan["status"])]
    section = plan_section(facts)
    return Page(
        cluster=facts.cluster,
        window="",
        tone=tone,
        status_word=word,
        headline=f"{count(len(plan['jobs']), 'job')} planned" if section is None else section.title,
        lead=(),
        figures=tuple(_figures(plan)),
        sections=() if section is None else (replace(section, title="When each job runs"),),
        next=(Next(command=f"gpuyield verify {path}", why="check plan and proof again, from the inputs alone"),),
        footer=(
            f"Inputs {plan['inputs_digest']}.",
            f"Times are in {facts.zone.key}. gpuyield {facts.version}. This page fetches nothing.",
        ),
    )


def _figures(plan: Document) -> list[Figure]:
    found = []
    shares = plan.get("on_time") or {}
    if shares.get("jobs") is not None:
        value = percent(round(shares["jobs"] * 1_000_000), 1_000_000)
        weighted = percent(round(shares["weighted"] * 1_000_000), 1_000_000)
        found.append(Figure(label="Jobs on time", value=value, note=f"{weighted} by weight"))
    for resource, one in (plan.get("gpus") or {}).items():
        if one.get("needed") is None:
            continue
        label = f"{resource.removeprefix('gpu/').removeprefix('gpu')} GPUs needed".strip()
        floor = (
            "" if one.get("lower_bound") is None else f"of {one['available']:,}; proven floor {one['lower_bound']:,}"
        )
        found.append(Figure(label=label, value=f"{one['needed']:,}", note=floor))
    return found
