"""One page: everything that the evidence of a window says, gathered once."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any  # Documents are JSON.

from gpuyield import __version__
from gpuyield.collect.days import coverage
from gpuyield.cost.document import cost_document
from gpuyield.decide.queue import queue_document
from gpuyield.errors import DeclarationError
from gpuyield.ledger.tables import COVERAGE, OUTCOMES, PRICES
from gpuyield.model.declaration import Declaration
from gpuyield.report.answer import Answer
from gpuyield.report.assemble import assemble
from gpuyield.report.facts import Facts, SourceRead
from gpuyield.report.html import page_html
from gpuyield.report.markdown import page_markdown
from gpuyield.report.screens.report import report_answer as answer_of
from gpuyield.report.sentences import count
from gpuyield.report.twin import page_document
from gpuyield.steps.account import accounted
from gpuyield.steps.cost import costed
from gpuyield.steps.decide import Decided, decided, decided_on_files
from gpuyield.steps.declared_work import Asked
from gpuyield.steps.documents import keep, write
from gpuyield.steps.evidence import Evidence, gather_chosen
from gpuyield.steps.live import starts_in
from gpuyield.steps.observed import jobs_on_time
from gpuyield.steps.queue import queued
from gpuyield.steps.services import Watched, measured_documents
from gpuyield.steps.setting import (
    Setting,
    chosen_window,
    read_declaration,
    read_setting,
    wall_clock_ms,
    was_collected,
)
from gpuyield.units import parse_zone

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """The facts of a page, and the decision that they rest on."""

    facts: Facts
    decision: Decided


def report_answer(
    *,
    file: Path,
    ledger_root: Path,
    window: str | None,
    begin: str | None,
    end: str | None,
    jobs: Path | None,
    capacity: Path | None,
    gpus: int | None,
    origin: str | None,
    out: Path | None,
    tell: Tell,
) -> Answer:
    """The answer of `gpuyield report`."""
    if out is not None and out.suffix not in (".html", ".md", ".json"):
        raise DeclarationError(f'"{out.suffix}" is no format of a page.', where="--out", fix="Use .html, .md or .json.")
    asked = Asked(jobs=jobs, capacity=capacity, gpus=gpus, origin=origin)
    # Under the page's own name, so that no decision that a person keeps is replaced.
    beside = out.with_name(f"{out.stem}.decide.json") if out is not None else None
    if jobs is not None and (capacity is not None or gpus is not None) and not was_collected(ledger_root):
        built = build_on_files(read_declaration(file), asked, jobs, decision_path=beside)
    else:
        setting = read_setting(file, ledger_root)
        chosen = chosen_window(setting, window=window, begin=begin, end=end)
        tell("accounting, planning, deciding")
        built = build(gather_chosen(setting, chosen), asked, decision_path=beside)
    notes = write_documents(built, ledger_root=ledger_root, plan=None, decide=beside)
    if out is not None:
        tell("drawing the page")
        write_page(built, out)
    return answer_of(assemble(built.facts), path=str(out) if out else None, notes=notes)


def build(evidence: Evidence, asked: Asked, *, decision_path: Path | None = None) -> Built:
    """All facts of a window."""
    setting = evidence.setting
    watched = Watched(evidence)
    decision = decided(evidence, asked, watched)
    cost = costed(evidence, by=("team",))
    services = watched.at(wall_clock_ms())
    certificate = decision.document.get("certificate")
    return Built(
        facts=Facts(
            cluster=setting.declaration.name,
            zone=setting.zone,
            version=__version__,
            account=accounted(evidence),
            by_team=accounted(evidence, by=("team",)),
            queue=queue_document(queued(evidence, on_time=jobs_on_time(evidence))),
            cost=cost_document(cost),
            plan=None if certificate is None else certificate["plan"],
            plan_inputs=decision.inputs.get("plan"),
            decision=decision.document,
            services=services,
            starts=starts_in(setting, evidence.window),
            measured=measured_documents(setting.ledger, services),
            # One gap may have reached several of them.
            gaps=tuple(dict.fromkeys((*decision.decision.gaps, *cost.gaps, *services.gaps))),
            sources=_sources(setting, evidence),
            after_services=decision.decision.inputs.after_services,
            decision_path=None if decision_path is None else str(decision_path),
        ),
        decision=decision,
    )


def build_on_files(declared: Declaration, asked: Asked, jobs: Path, *, decision_path: Path | None) -> Built:
    """The facts of a job file and a capacity alone, where nothing was collected."""
    decision = decided_on_files(declared, asked, jobs)
    certificate = decision.document.get("certificate")
    return Built(
        facts=Facts(
            cluster=declared.name,
            zone=parse_zone(declared.reporting_zone),
            version=__version__,
            plan=None if certificate is None else certificate["plan"],
            plan_inputs=decision.inputs.get("plan"),
            decision=decision.document,
            gaps=decision.decision.gaps,
            decision_path=None if decision_path is None else str(decision_path),
        ),
        decision=decision,
    )


def write_documents(built: Built, *, ledger_root: Path, plan: Path | None, decide: Path | None) -> tuple[str, ...]:
    """Keep the decision and the plan in it with their inputs, in the ledger and where asked for; what to say of it."""
    notes = keep("decide", built.decision.document, built.decision.inputs, ledger_root=ledger_root, out=decide)
    facts = built.facts
    if facts.plan is not None and facts.plan_inputs is not None:
        keep("plan", facts.plan, facts.plan_inputs, ledger_root=ledger_root, out=plan)
    return notes


def write_page(built: Built, out: Path) -> None:
    """Write the page in the format of the file's ending."""
    page = assemble(built.facts)
    match out.suffix:
        case ".md":
            write(out, page_markdown(page).encode())
        case ".json":
            write(out, _json(page_document(page)))
        case _:
            write(out, page_html(page).encode())


def _json(document: dict[str, Any]) -> bytes:
    return json.dumps(document, ensure_ascii=False, indent=2).encode() + b"\n"


def _sources(setting: Setting, evidence: Evidence) -> tuple[SourceRead, ...]:
    ledger = setting.ledger
    within = set(evidence.window.days())
    days = [day for day in ledger.days(COVERAGE) if day in within]
    read = coverage(ledger, "prometheus", days)
    product = next((one.version for one in read if one.version), "prometheus")
    found = [SourceRead(name=product, what=f"{count(len(days), 'day')} read")]
    prices = [day for day in ledger.days(PRICES) if day in within]
    if prices:
        found.append(SourceRead(name="OpenCost", what=f"prices of {count(len(prices), 'day')}"))
    if evidence.judged is not None:
        attempts = count(len(evidence.judged.attempts), "attempt")
        found.append(SourceRead(name="outcomes", what=f"{attempts} on {count(len(ledger.days(OUTCOMES)), 'day')}"))
    return tuple(found)
