"""Runs: series that seldom change, written as spans of one value.

A run breaks where the value changes or where two samples are further apart than the gap limit. The same object
seen twice (replicas of an exporter, two scrape jobs) is one series.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gpuyield.collect.prometheus import in_order
from gpuyield.ledger import Columns
from gpuyield.ledger.tables import RUNS
from gpuyield.units import MINUTE_MS, Window


class RunKey(NamedTuple):
    """What a run is about; one series per key."""

    kind: str
    node: str = ""
    namespace: str = ""
    pod: str = ""
    uid: str = ""
    container: str = ""
    resource: str = ""
    detail: str = ""
    text: str = ""


@dataclass(frozen=True, slots=True)
class Observed:
    """Samples of one key as one series of a source showed them, and the metric's name."""

    key: RunKey
    name: str
    ts_ms: npt.NDArray[np.int64]
    values: npt.NDArray[np.float64]


class Run(NamedTuple):
    """One value from its first to its last sample, both included."""

    from_ms: int
    to_ms: int
    value: float
    interval_ms: int
    name: str


Runs = dict[RunKey, list[Run]]


def encode(observed: Iterable[Observed], *, gap_limit_ms: int) -> Runs:
    """Runs of each key, in order. All samples of a key must be of one UTC day."""
    together: dict[RunKey, list[Observed]] = {}
    for one in observed:
        if len(one.ts_ms):
            together.setdefault(one.key, []).append(one)
    samples = {key: _merged(parts) for key, parts in together.items()}
    spacings = {key: spacing_ms(ts_ms) for key, (ts_ms, _) in samples.items() if len(ts_ms) > 1}
    by_kind: dict[str, list[int]] = {}
    for key, interval_ms in spacings.items():
        by_kind.setdefault(key.kind, []).append(interval_ms)
    usual_ms = {kind: sorted(many)[(len(many) - 1) // 2] for kind, many in by_kind.items()}
    runs: Runs = {}
    for key, (ts_ms, values) in samples.items():
        if len(ts_ms):
            interval_ms = spacings.get(key, usual_ms.get(key.kind, MINUTE_MS))
            name = min(one.name for one in together[key])
            runs[key] = _spans(ts_ms, values, gap_limit_ms, interval_ms, name)
    return runs


def spacing_ms(ts_ms: npt.NDArray[np.int64]) -> int:
    """Median spacing of at least two samples in order; of two middle ones the lesser."""
    gaps = np.diff(ts_ms)
    middle = (len(gaps) - 1) // 2
    return int(np.partition(gaps, middle)[middle])


def merge(old: Runs, new: Runs, *, gap_limit_ms: int) -> Runs:
    """What both tell of a day: nothing that was once seen is lost, and where they differ the newer word counts."""
    merged: Runs = dict(new)
    for key, known in old.items():
        fresh = new.get(key)
        merged[key] = known if fresh is None else _merged_runs(known, fresh, gap_limit_ms)
    return merged


def not_inside(runs: Runs, window: Window) -> Runs:
    """The runs that are not wholly inside the window."""
    kept = {
        key: [run for run in many if run.from_ms < window.from_ms or run.to_ms >= window.to_ms]
        for key, many in runs.items()
    }
    return {key: many for key, many in kept.items() if many}


def to_columns(runs: Runs) -> Columns:
    """Columns of the ledger's table."""
    rows = [(key, run) for key, many in runs.items() for run in many]
    columns: dict[str, Sequence[Any]] = {name: [getattr(key, name) for key, _ in rows] for name in RunKey._fields}
    for name in Run._fields:
        columns[name] = [getattr(run, name) for _, run in rows]
    return columns


def from_columns(columns: Mapping[str, npt.NDArray[Any]]) -> Runs:
    """The runs of the ledger's columns."""
    runs: Runs = {}
    listed = [columns[name].tolist() for name in RUNS.columns]
    for row in zip(*listed, strict=True):
        fields = dict(zip(RUNS.columns, row, strict=True))
        key = RunKey(*(fields[name] for name in RunKey._fields))
        runs.setdefault(key, []).append(Run(*(fields[name] for name in Run._fields)))
    for many in runs.values():
        many.sort()
    return runs


def _merged(parts: list[Observed]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    if len(parts) == 1:
        ts_ms, values = parts[0].ts_ms, parts[0].values
    else:
        ts_ms, values = in_order(
            np.concatenate([one.ts_ms for one in parts]), np.concatenate([one.values for one in parts])
        )
    finite = np.isfinite(values)
    return (ts_ms, values) if finite.all() else (ts_ms[finite], values[finite])


def _spans(
    ts_ms: npt.NDArray[np.int64], values: npt.NDArray[np.float64], gap_limit_ms: int, interval_ms: int, name: str
) -> list[Run]:
    breaks = np.flatnonzero((np.diff(ts_ms) > gap_limit_ms) | (np.diff(values) != 0)) + 1
    starts = np.concatenate(([0], breaks))
    ends = np.concatenate((breaks, [len(ts_ms)])) - 1
    return [
        Run(int(ts_ms[start]), int(ts_ms[end]), float(values[start]), interval_ms, name)
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True)
    ]


def _merged_runs(old: list[Run], new: list[Run], gap_limit_ms: int) -> list[Run]:
    wider = max((new, old), key=lambda many: sum(run.to_ms - run.from_ms for run in many))
    interval_ms = wider[0].interval_ms
    pieces = list(new)
    for run in old:
        pieces.extend(_outside(run, [one for one in new if one.value != run.value]))
    joined: list[Run] = []
    for run in sorted(pieces):
        last = joined[-1] if joined else None
        if last is not None and last.value == run.value and run.from_ms - last.to_ms <= gap_limit_ms:
            joined[-1] = last._replace(to_ms=max(last.to_ms, run.to_ms), name=min(last.name, run.name))
        else:
            joined.append(run)
    return [run._replace(interval_ms=interval_ms) for run in joined]


def _outside(run: Run, others: list[Run]) -> list[Run]:
    """The parts of a run that no other covers; the next sample is one interval away."""
    parts = [run]
    for other in others:
        kept: list[Run] = []
        for part in parts:
            if part.to_ms < other.from_ms or part.from_ms > other.to_ms:
                kept.append(part)
                continue
            left = part._replace(to_ms=min(part.to_ms, other.from_ms - part.interval_ms))
            right = part._replace(from_ms=max(part.from_ms, other.to_ms + part.interval_ms))
            kept.extend(one for one in (left, right) if one.from_ms <= one.to_ms)
        parts = kept
    return parts
