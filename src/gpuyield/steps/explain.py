"""A job, a lever or a figure: its path to the evidence."""

from __future__ import annotations

from pathlib import Path

from gpuyield.declare.values import did_you_mean
from gpuyield.errors import DeclarationError
from gpuyield.report.answer import Answer
from gpuyield.report.screens.explain import explain_figure, explain_job, explain_lever, known_figures
from gpuyield.steps.documents import inputs_path, read_json
from gpuyield.steps.setting import read_declaration
from gpuyield.units import parse_zone


def explain_answer(*, what: str, document: Path | None, file: Path, ledger_root: Path) -> Answer:
    """The answer of `gpuyield explain`."""
    zone = parse_zone(read_declaration(file).reporting_zone)
    named = [document] if document is not None else [file.parent / "plan.json", file.parent / "decide.json"]
    found = [(path, read_json(path)) for path in named if document is not None or path.is_file()]
    names: list[str] = []
    for path, one in found:
        if one["schema"].startswith("gpuyield/plan/"):
            jobs = {str(job["id"]): job for job in one["jobs"]}
            names += list(jobs)
            match = _by_name(what, list(jobs))
            if match is not None:
                place = inputs_path(path)
                inputs = read_json(place) if place.is_file() else None
                return explain_job(one, inputs, match, zone=zone, path=str(path))
        if one["schema"].startswith("gpuyield/decide/"):
            levers = [str(lever["lever"]) for lever in one.get("levers") or ()]
            names += levers
            if what in levers:
                return explain_lever(one, what, path=str(path))
    names += known_figures()
    if what in known_figures():
        return explain_figure(what)
    looked = ", ".join(str(path) for path, _ in found) or "no document"
    raise DeclarationError(
        f'"{what}" is no job, lever or figure (looked in {looked}).',
        where="gpuyield explain",
        fix=did_you_mean(what, names) if found else "Name a plan or decision with --document FILE.",
    )


def _by_name(what: str, jobs: list[str]) -> str | None:
    if what in jobs:
        return what
    short = [name for name in jobs if name.rpartition("/")[2] == what]
    return short[0] if len(short) == 1 else None
