"""Series that hardly ever change, read without reading every sample of them.

An exporter prints all series of an object in one scrape. So where a series has as many samples as the object's
template (which is read in full) and its least equals its greatest value, it is the template's times with that
one value: the very samples. Whatever does not fit is read in full.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from gpuyield.collect.prometheus import Prometheus, RawSeries, in_order
from gpuyield.units import Window

Objects = Callable[[Mapping[str, str]], str]
"""The object (a pod's uid, a job's name) that a label set speaks of; "" for none of ours."""

Matchers = Callable[[Sequence[str]], Sequence[str]]
"""Matchers that select the series of these objects."""

_TARGET = ("job", "instance")
_BATCH = 100


class Templates:
    """When each object was seen, by scrape target."""

    def __init__(self, series: Iterable[RawSeries], objects: Objects) -> None:
        gathered: dict[tuple[str, ...], list[npt.NDArray[np.int64]]] = {}
        for one in series:
            found = objects(one.labels)
            if found:
                gathered.setdefault((found, *_target(one.labels)), []).append(one.ts_ms)
        self._times = {key: _union(parts) for key, parts in gathered.items()}

    def times(self, found: str, labels: Mapping[str, str]) -> npt.NDArray[np.int64] | None:
        """Times at which the target of this label set printed the object."""
        return self._times.get((found, *_target(labels)))


def read_fixed(
    source: Prometheus,
    name: str,
    extra: Sequence[str],
    wanted: Sequence[str],
    *,
    objects: Objects,
    matchers: Matchers,
    templates: Templates,
    window: Window,
    chunk_ms: int | None,
) -> list[RawSeries]:
    """The samples of a metric about these objects.

    Raises:
        SourceError: Out of reach, refusing, or answering nonsense.
    """
    series: list[RawSeries] = []
    rest: list[str] = []
    for batch in batches(wanted):
        selector = f"{name}{{{','.join((*extra, *matchers(batch)))}}}[{window.length_ms}ms]"
        counts = source.vector(f"count_over_time({selector})", window.to_ms - 1)
        constant = counts and source.vector(f"min_over_time({selector}) == max_over_time({selector})", window.to_ms - 1)
        if counts is None or constant is None:
            rest.extend(batch)
            continue
        rebuilt, changing = _rebuild(counts, constant or [], objects, templates)
        series.extend(one for one in rebuilt if objects(one.labels) not in changing)
        rest.extend(found for found in batch if found in changing)
    for batch in batches(rest):
        series.extend(source.raw(name, (*extra, *matchers(batch)), window, chunk_ms=chunk_ms))
    return [one for one in series if objects(one.labels)]


def batches(wanted: Sequence[str]) -> Iterable[Sequence[str]]:
    """The objects in groups that fit into one query."""
    for at in range(0, len(wanted), _BATCH):
        yield wanted[at : at + _BATCH]


def _rebuild(
    counts: list[tuple[dict[str, str], float]],
    constant: list[tuple[dict[str, str], float]],
    objects: Objects,
    templates: Templates,
) -> tuple[list[RawSeries], set[str]]:
    values = {tuple(sorted(labels.items())): value for labels, value in constant}
    rebuilt: list[RawSeries] = []
    changing: set[str] = set()
    for labels, count in counts:
        found = objects(labels)
        if not found:
            continue
        times = templates.times(found, labels)
        value = values.get(tuple(sorted(labels.items())))
        if times is None or value is None or len(times) != round(count):
            changing.add(found)
        else:
            rebuilt.append(RawSeries(labels, times, np.full(len(times), value)))
    return rebuilt, changing


def _target(labels: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(labels.get(name, "") for name in _TARGET)


def _union(parts: list[npt.NDArray[np.int64]]) -> npt.NDArray[np.int64]:
    if len(parts) == 1:
        return parts[0]
    joined = np.concatenate(parts)
    return in_order(joined, np.zeros(len(joined)))[0]
