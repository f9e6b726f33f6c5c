"""Writing a UTC day into the ledger so that nothing once read is lost and nothing is counted twice.

What a source tells of a day is united with what the ledger has of it: at one moment the newer word counts, and
samples that the source has meanwhile forgotten stay. Reading the same again changes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from gpuyield.collect import runs
from gpuyield.collect.activity import Card, Measured
from gpuyield.collect.runs import Observed
from gpuyield.collect.serving import Counted, Served, united
from gpuyield.collect.state import Scrapes
from gpuyield.errors import SourceError
from gpuyield.ledger import Columns, Ledger
from gpuyield.ledger.tables import COVERAGE, RUNS, SAMPLES, SCRAPES, SERIES, SERVING
from gpuyield.units import Window

_Columns = dict[str, npt.NDArray[Any]]


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Covered:
    """A part of a day that has been read, as a row of the coverage table says it."""

    window: Window
    complete: bool
    gap_limit_ms: int
    names: str
    notes: str
    version: str

    def listed_notes(self) -> list[tuple[str, str]]:
        """Gaps as (reason, where)."""
        return [(note["reason"], note["where"]) for note in json.loads(self.notes)]


@dataclass(frozen=True, slots=True, kw_only=True)
class DayRead:
    """Everything read of one day."""

    day: str
    measured: Sequence[Measured]
    observed: Sequence[Observed]
    scrapes: Scrapes
    served: Mapping[Counted, Served]
    covered: Covered


def write_day(ledger: Ledger, source: str, read: DayRead) -> None:
    """Unite a day's tables with what was read, one commit each, coverage last."""
    covered = read.covered
    fresh_series, fresh_samples = _tables(read.measured)
    ledger.update_day(SERIES, read.day, lambda old: _united_series(old, fresh_series))
    known = ledger.read(SERIES, days=[read.day])
    places = _places(known)
    ledger.update_day(SAMPLES, read.day, lambda old: _united_samples(old, fresh_samples, places))
    if len(known["series"]) > len(fresh_series["series"]):
        used = np.unique(ledger.read(SAMPLES, days=[read.day], columns=["series"])["series"])
        if not np.isin(known["series"], used).all():
            ledger.update_day(SERIES, read.day, lambda old: _only(old, used))
    fresh_runs = runs.encode(read.observed, gap_limit_ms=covered.gap_limit_ms)
    changed_rule = any(one.gap_limit_ms != covered.gap_limit_ms for one in coverage(ledger, source, [read.day]))

    def united_runs(old: _Columns) -> Columns:
        known = runs.from_columns(old)
        if changed_rule:
            known = runs.not_inside(known, covered.window)
        return runs.to_columns(runs.merge(known, fresh_runs, gap_limit_ms=covered.gap_limit_ms))

    ledger.update_day(RUNS, read.day, united_runs)
    ledger.update_day(SCRAPES, read.day, lambda old: _united_scrapes(old, read.scrapes))
    ledger.update_day(SERVING, read.day, lambda old: united(old, read.served))
    ledger.update_day(COVERAGE, read.day, lambda old: _united_coverage(old, source, covered))


def coverage(ledger: Ledger, source: str, days: Iterable[str]) -> list[Covered]:
    """What has been read of these days from a source, in order."""
    rows = ledger.read(COVERAGE, days=list(days))
    return sorted(_covered(rows, at) for at in range(len(rows["source"])) if rows["source"][at] == source)


def _tables(measured: Sequence[Measured]) -> tuple[_Columns, _Columns]:
    numbers = np.array([one.card.number() for one in measured], dtype=np.int64)
    if len(np.unique(numbers)) != len(numbers):
        raise SourceError("two series of a source have the same hash.", fix="Report it; it should never happen.")
    series: _Columns = {"series": numbers}
    for at, name in enumerate(Card._fields):
        series[name] = np.array([one.card[at] for one in measured], dtype=object)
    lengths = [len(one.ts_ms) for one in measured]
    samples: _Columns = {
        "series": np.repeat(numbers, lengths),
        "ts_ms": np.concatenate([one.ts_ms for one in measured]) if measured else np.zeros(0, dtype=np.int64),
        "value": np.concatenate([one.values for one in measured]) if measured else np.zeros(0),
    }
    return series, samples


def _united_series(old: _Columns, fresh: _Columns) -> Columns:
    kept = ~np.isin(old["series"], fresh["series"])
    return {name: np.concatenate([old[name][kept], fresh[name]]) for name in SERIES.columns}


def _only(series: _Columns, used: npt.NDArray[np.int64]) -> Columns:
    """Without series that an earlier reading took for others and that have no sample left."""
    kept = np.isin(series["series"], used)
    return {name: series[name][kept] for name in SERIES.columns}


def _united_samples(old: _Columns, fresh: _Columns, places: dict[int, int]) -> Columns:
    """Old samples stay where the fresh ones say nothing of their card at their moment."""
    if not len(old["series"]):
        return fresh
    told = np.unique(_moments(fresh, places))
    kept = ~np.isin(_moments(old, places), told)
    return {name: np.concatenate([old[name][kept], fresh[name]]) for name in SAMPLES.columns}


def _united_scrapes(old: _Columns, fresh: Scrapes) -> Columns:
    moments = {(target, at) for target, at in zip(old["target"].tolist(), old["ts_ms"].tolist(), strict=True)}
    moments |= {(target, at) for target, found in fresh.items() for at in found.tolist()}
    return {"target": [target for target, _ in moments], "ts_ms": [at for _, at in moments]}


def _places(series: _Columns) -> dict[int, int]:
    """Number of a series -> number of the card (or instance) and activity it measures."""
    rows = zip(series["metric"], series["card"], series["instance"], strict=True)
    keys = list(rows)
    order = {key: at for at, key in enumerate(sorted(set(keys)))}
    return {int(number): order[key] for number, key in zip(series["series"], keys, strict=True)}


def _moments(samples: _Columns, places: dict[int, int]) -> npt.NDArray[np.int64]:
    """One number per (place, time)."""
    numbers, inverse = np.unique(samples["series"], return_inverse=True)
    # A series without a row has a place of its own; that may happen while a rival writes.
    of_number = np.array([places.get(int(one), len(places) + at) for at, one in enumerate(numbers)], dtype=np.int64)
    return np.asarray(of_number[inverse] * 100_000_000 + samples["ts_ms"] % 86_400_000, dtype=np.int64)


def _united_coverage(old: _Columns, source: str, fresh: Covered) -> Columns:
    rows = [(str(old["source"][at]), _covered(old, at)) for at in range(len(old["source"]))]
    kept = [row for row in rows if row[0] != source]
    merged = fresh
    for _, one in sorted(row for row in rows if row[0] == source):
        apart = one.window.to_ms < merged.window.from_ms or one.window.from_ms > merged.window.to_ms
        if apart:
            kept.append((source, one))
        else:
            merged = _joined(one, merged)
    kept.append((source, merged))
    return {
        "source": [row[0] for row in kept],
        "from_ms": [row[1].window.from_ms for row in kept],
        "to_ms": [row[1].window.to_ms for row in kept],
        **{
            name: [getattr(row[1], name) for row in kept]
            for name in ("complete", "gap_limit_ms", "names", "notes", "version")
        },
    }


def _joined(old: Covered, fresh: Covered) -> Covered:
    window = Window(min(old.window.from_ms, fresh.window.from_ms), max(old.window.to_ms, fresh.window.to_ms))
    whole = fresh.window == window
    names = fresh.names if whole else _all_names([old.names, fresh.names])
    notes = fresh.notes if whole else as_notes([*old.listed_notes(), *fresh.listed_notes()])
    return Covered(
        window=window,
        complete=fresh.complete or (old.complete and window == old.window),
        gap_limit_ms=fresh.gap_limit_ms,
        names=names,
        notes=notes,
        version=fresh.version,
    )


def as_notes(notes: Iterable[tuple[str, str]]) -> str:
    """Gaps as the coverage table keeps them."""
    listed = [{"reason": reason, "where": where} for reason, where in sorted(set(notes))]
    return msgspec.json.encode(listed).decode()


def as_names(used: dict[str, set[str]]) -> str:
    """Metric names that were read, by kind, as the coverage table keeps them."""
    listed = {kind: " ".join(sorted(names)) for kind, names in sorted(used.items())}
    return msgspec.json.encode(listed).decode()


def _all_names(texts: Iterable[str]) -> str:
    used: dict[str, set[str]] = {}
    for text in texts:
        for kind, names in json.loads(text).items():
            used.setdefault(kind, set()).update(names.split())
    return as_names(used)


def _covered(rows: _Columns, at: int) -> Covered:
    return Covered(
        window=Window(int(rows["from_ms"][at]), int(rows["to_ms"][at])),
        complete=bool(rows["complete"][at]),
        gap_limit_ms=int(rows["gap_limit_ms"][at]),
        names=str(rows["names"][at]),
        notes=str(rows["notes"][at]),
        version=str(rows["version"][at]),
    )
