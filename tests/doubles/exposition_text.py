"""A reader of exposition text (the Prometheus format), for recorded pages of exporters."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from gpuyield.demo.exposition import Series

_ROW = re.compile(r"(?P<name>[a-zA-Z_:][\w:]*)\s*(?:\{(?P<labels>.*)\})?\s+(?P<value>\S+)(?:\s+-?\d+)?")
_LABEL = re.compile(r'\s*,?\s*(?P<name>[a-zA-Z_]\w*)\s*=\s*"(?P<value>(?:[^"\\]|\\.)*)"\s*,?\s*')
_ESCAPES = {"\\n": "\n", '\\"': '"', "\\\\": "\\"}


def read_rows(text: str) -> Iterator[tuple[dict[str, str], float]]:
    """Labels (with `__name__`) and value of each row that is one; comments and torn lines are left out."""
    for line in text.splitlines():
        row = _ROW.fullmatch(line.strip())
        if row is None or line.startswith("#"):
            continue
        labels = {"__name__": row["name"]}
        for label in _LABEL.finditer(row["labels"] or ""):
            labels[label["name"]] = re.sub(r'\\[n"\\]', lambda found: _ESCAPES[found[0]], label["value"])
        yield labels, float(row["value"])


def scraped(
    file: Path, times_ms: Sequence[int], *, target: Mapping[str, str] | None = None, names: Iterable[str] = ()
) -> list[Series]:
    """The series a Prometheus would hold after scraping this page at each of the times, labels honoured."""
    only = set(names)
    kept: dict[tuple[tuple[str, str], ...], float] = {}
    for labels, value in read_rows(file.read_text()):
        if not only or labels["__name__"] in only:
            full = {**(target or {"job": "recorded", "instance": "192.0.2.1:9400"}), **labels}
            kept[tuple(sorted((name, text) for name, text in full.items() if text))] = value
    return [series(dict(key), [(at_ms, value) for at_ms in times_ms]) for key, value in sorted(kept.items())]


def series(labels: Mapping[str, str], samples: Sequence[tuple[int, float]]) -> Series:
    """A series of these samples."""
    return Series(
        dict(labels),
        np.array([at_ms for at_ms, _ in samples], dtype=np.int64),
        np.array([value for _, value in samples], dtype=np.float64),
    )


def steady(name: str, value: float, times_ms: Sequence[int], **labels: str) -> Series:
    """A series that shows one value at all times."""
    return series({"__name__": name, **labels}, [(at_ms, value) for at_ms in times_ms])
