"""The answer of two measurements side by side: what is proven of them, and nothing more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any  # Documents are JSON.

from gpuyield.report.answer import Answer, Next
from gpuyield.report.screens.measure import objective_line
from gpuyield.report.sentences import cards_words, in_percent
from gpuyield.report.tables import Column, Kind, Table


def compared_answer(
    document: Mapping[str, Any], *, exit_code: int, notes: Sequence[str], next_: Sequence[Next]
) -> Answer:
    """The answer from the document."""
    return Answer(
        document=document,
        headline=(proven_sentence(document), *_interval(document), objective_line(document)),
        tables=(_table(document),),
        notes=(*_per_gpu(document), *_held(document), *notes),
        next=tuple(next_),
        exit_code=exit_code,
    )


def proven_sentence(document: Mapping[str, Any]) -> str:
    """Which one sustains more, and by how much at least; or that neither is shown to."""
    proven, sure = document["proven"], in_percent(document["ratio"]["confidence"])
    if proven is None:
        return f"Neither is shown to sustain more than the other, at {sure}."
    other = "first" if proven["more"] == "second" else "second"
    more = document[proven["more"]]["file"]
    # Rounded down, so that no more is said than is proven.
    at_least = int(proven["at_least"] * 1000) / 10
    return f"{more} sustains at least {at_least:g} % more than {document[other]['file']}, at {sure}."


def _interval(document: Mapping[str, Any]) -> list[str]:
    lines = []
    for key, of in (("ratio", ""), ("ratio_of_stated_rates", " from the rates as each states them")):
        ratio = document[key]
        if ratio["lo"] is None and ratio["hi"] is None:
            if key == "ratio":
                lines.append("No rate is certain enough in both of them to bound the ratio.")
            continue
        lo = "?" if ratio["lo"] is None else f"{ratio['lo']:.3f}"
        hi = "?" if ratio["hi"] is None else f"{ratio['hi']:.3f}"
        lines.append(f"Second over first: {lo} to {hi}{of}, at {in_percent(ratio['confidence'])}.")
    return lines


def _per_gpu(document: Mapping[str, Any]) -> list[str]:
    ratio = document["ratio_per_gpu"]
    if ratio is None or (ratio["lo"], ratio["hi"]) == (document["ratio"]["lo"], document["ratio"]["hi"]):
        return []
    lo = "?" if ratio["lo"] is None else f"{ratio['lo']:.3f}"
    hi = "?" if ratio["hi"] is None else f"{ratio['hi']:.3f}"
    return [f"For each GPU: {lo} to {hi}."]


def _held(document: Mapping[str, Any]) -> list[str]:
    """What differs between the configurations, as far as the servers tell."""
    first, second = document["first"]["config"], document["second"]["config"]
    settings = first.get("settings") or {}, second.get("settings") or {}
    pairs = [(key, first.get(key), second.get(key)) for key in ("engine", "version", "model")]
    pairs.append(("hardware", cards_words(first.get("hardware") or {}), cards_words(second.get("hardware") or {})))
    pairs += [(key, settings[0].get(key), settings[1].get(key)) for key in sorted({*settings[0], *settings[1]})]
    told = [f"{key} {one or 'not said'} and {other or 'not said'}" for key, one, other in pairs if one != other]
    if not told:
        return ["The servers tell the same of both: what differs is not seen."]
    return [f"What differs: {'; '.join(told[:8])}."]


def _table(document: Mapping[str, Any]) -> Table:
    columns = (
        Column("which", "which"),
        Column("service", "service"),
        Column("certified_rps", "certified/s", Kind.NUMBER),
        Column("refuted_rps", "refuted/s", Kind.NUMBER),
        Column("level", "level"),
        Column("file", "file"),
    )
    rows = tuple((which, *(document[which][column.key] for column in columns[1:])) for which in ("first", "second"))
    return Table(title="Measurements", columns=columns, rows=rows)
