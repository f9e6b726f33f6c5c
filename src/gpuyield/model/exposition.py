"""The lines of a Prometheus text page: a name, labels and a value each. What is no such line is passed over."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

_SAMPLE = re.compile(r"^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)(?: -?\d+)?$")
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')
_ESCAPED = re.compile(r"\\(.)")


class Sample(NamedTuple):
    """One line; `text` is the value as it was printed."""

    name: str
    labels: Mapping[str, str]
    text: str

    @property
    def value(self) -> float:
        """The value; NaN for what is no number."""
        try:
            return float(self.text)
        except ValueError:
            return math.nan


def samples_of(page: str, *, prefixes: Iterable[str] = ("",)) -> list[Sample]:
    """The samples whose name starts with one of the prefixes, in their order."""
    wanted = tuple(prefixes)
    found = []
    for line in page.split("\n"):
        if not line.startswith(wanted) or line[:1] == "#":
            continue
        match = _SAMPLE.match(line.strip())
        if match is not None:
            labels = {key: _ESCAPED.sub(_plain, value) for key, value in _LABEL.findall(match[2] or "")}
            found.append(Sample(match[1], labels, match[3]))
    return found


def _plain(escaped: re.Match[str]) -> str:
    return "\n" if escaped[1] == "n" else escaped[1]
