"""A job, a lever or a figure: its path to the evidence."""

from __future__ import annotations

from pathlib import Path
from typing import Any  # Documents are JSON.

from gpuyield.declare.values import did_you_mean
from gpuyield.errors import DeclarationError
from gpuyield.model.waterfall import Account
from gpuyield.report.answer import Answer
from gpuyield.report.screens.explain import explain_figure, explain_job, explain_lever, known_figures
from gpuyield.steps.account import accounted
from gpuyield.steps.documents import inputs_path, read_json
from gpuyield.steps.evidence import gather_chosen
from gpuyield.steps.setting import chosen_window, read_declaration, read_setting, was_collected
from gpuyield.units import parse_zone


def explain_answer(*, what: str, document: Path | None, file: Path, ledger_root: Path) -> Answer:
    """The answer of `gpuyield explain`."""
    zone = parse_zone(read_declaration(file).reporting_zone)
    named = [document] if document is not None else [file.parent / "plan.json", file.parent / "decide.json"]
    found = [(path, read_json(path)) for path in named if document is not None or path.is_file()]
    names: list[str] = []
    for path, one in found:
        levers = [str(lever["lever"]) for lever in one.get("levers") or ()]
        if what in levers:
            return explain_lever(one, what, path=str(path))
        plan = _plan_of(one)
        jobs = [str(job["id"]) for job in plan["jobs"]] if plan else []
        match = _by_name(what, jobs)
        if plan and match is not None:
            return explain_job(plan, _plan_inputs(path), match, zone=zone, path=str(path))
        names += [*levers, *jobs]
    names += known_figures()
    if what in known_figures():
        return explain_figure(what, _account(file, ledger_root), zone=zone)
    looked = ", ".join(str(path) for path, _ in found) or "no document"
    raise DeclarationError(
        f'"{what}" is no job, lever or figure (looked in {looked}).',
        where="gpuyield explain",
        fix=did_you_mean(what, names) if found else "Name a plan or decision with --document FILE.",
    )


def _account(file: Path, ledger_root: Path) -> Account | None:
    """The account of the default window; None where nothing was collected."""
    if not was_collected(ledger_root):
        return None
    setting = read_setting(file, ledger_root)
    return accounted(gather_chosen(setting, chosen_window(setting, window=None, begin=None, end=None)))


def _plan_of(document: dict[str, Any]) -> dict[str, Any] | None:
    """The plan that a document is, or that a decision rests on."""
    if document["schema"].startswith("gpuyield/plan/"):
        return document
    plan: dict[str, Any] | None = (document.get("certificate") or {}).get("plan")
    return plan


def _plan_inputs(path: Path) -> dict[str, Any] | None:
    """The canonical inputs of a document's plan, where they lie beside it."""
    place = inputs_path(path)
    if not place.is_file():
        return None
    inputs = read_json(place)
    return inputs if "jobs" in inputs else inputs.get("plan")


def _by_name(what: str, jobs: list[str]) -> str | None:
    if what in jobs:
        return what
    short = [name for name in jobs if name.rpartition("/")[2] == what]
    return short[0] if len(short) == 1 else None
