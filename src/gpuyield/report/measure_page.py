"""One measurement as a page of its own: the rates, their curve with its bounds, and what witnesses saw beneath."""

from __future__ import annotations

from dataclasses import replace
from zoneinfo import ZoneInfo

from gpuyield.report.answer import Next
from gpuyield.report.facts import Document
from gpuyield.report.page import Figure, Page, Tone
from gpuyield.report.screens.measure import busy_sentence, headline_of, is_expired, objective_line
from gpuyield.report.sections.measured import measured_section
from gpuyield.report.sentences import cards_words, in_percent
from gpuyield.report.tables import format_local
from gpuyield.units import parse_instant


def measure_page(document: Document, *, now_ms: int, zone: ZoneInfo, version: str, path: str) -> Page:
    """The page of a measurement, which lies in the file `path`."""
    result = document["result"]
    certified = result["certified_rps"]
    expired = is_expired(document, now_ms=now_ms)
    tone, word = (Tone.GOOD, "A rate is certified") if certified is not None else (Tone.OPEN, "No rate is certified")
    if expired:
        tone, word = Tone.OPEN, "This measurement has expired"
    section = measured_section(document, now_ms=now_ms, zone=zone)
    first, *rest = headline_of(document)
    busy = busy_sentence(document)
    return Page(
        cluster=str(document["service"]),
        window=format_local(parse_instant(document["started_at"]), zone),
        tone=tone,
        status_word=word,
        headline=first,
        lead=(*rest, *(one for one in [busy] if one), objective_line(document)),
        figures=tuple(_figures(document)),
        sections=(replace(section, title="How many requests keep their objectives at each rate", lead=()),),
        next=(Next(command=f"gpuyield verify {path}", why="checks the bounds again, from the counts alone"),),
        footer=(
            *(f"Not known: {gap['reason']} ({gap['where']})." for gap in document["gaps"]),
            f"Inputs {document['inputs_digest']}.",
            f"Times are in {zone.key}. gpuyield {version}. This page holds all it shows and fetches nothing.",
        ),
    )


def _figures(document: Document) -> list[Figure]:
    result, config = document["result"], document["config"]
    found = []
    for label, key, note in (
        ("Certified", "certified_rps", f"requests a second, {in_percent(result['confidence'])} sure"),
        ("Refuted", "refuted_rps", "requests a second"),
    ):
        value = result[key]
        found.append(Figure(label=label, value="none" if value is None else f"{value:g}", note=note))
    found.append(Figure(label="Limited by", value=str(result["limited_by"] or "not known")))
    seen = document.get("busy_and_more")
    if seen is not None:
        note = f"at {seen['rate_rps']:g} requests a second"
        found.append(Figure(label="GPUs busy", value=in_percent(seen["gpu_busy"]), note=note))
        found.append(Figure(label="More requests possible", value=in_percent(seen["more_requests"]), note="certified"))
    if config.get("engine"):
        named = " ".join(str(one) for one in (config["engine"], config.get("version")) if one)
        found.append(Figure(label="Engine", value=named, note=str(config.get("model") or "")))
    if config.get("hardware"):
        found.append(Figure(label="GPUs", value=cards_words(config["hardware"])))
    return found
