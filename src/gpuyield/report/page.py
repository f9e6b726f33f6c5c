"""The page as facts: an answer, key figures and sections, from which HTML, Markdown and JSON are written alike."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any  # JSON and Vega-Lite have no narrower type than this.

from gpuyield.report.answer import Next
from gpuyield.report.tables import Table


class Tone(StrEnum):
    """How an answer is to be taken; shown by a sign and a word, never by colour alone."""

    GOOD = "good"
    ACT = "act"
    OPEN = "open"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A figure beside the answer: what it is, its value as read, and a word on it."""

    label: str
    value: str
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A Vega-Lite drawing whose title is its finding; `alt` says the same to those who cannot see it.

    The specification has no width: the page gives it. Foreign names occur in it only as data values.
    """

    id: str
    title: str
    alt: str
    spec: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A part of the page. `title` is the finding; the first `open_tables` tables are shown, the others folded.

    `how` says how its numbers were made.
    """

    id: str
    kicker: str
    title: str
    lead: tuple[str, ...] = ()
    charts: tuple[Chart, ...] = ()
    tables: tuple[Table, ...] = ()
    open_tables: int = 0
    how: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """All of the page."""

    cluster: str
    window: str
    tone: Tone
    status_word: str
    headline: str
    lead: tuple[str, ...]
    figures: tuple[Figure, ...]
    sections: tuple[Section, ...]
    next: tuple[Next, ...]
    footer: tuple[str, ...]
