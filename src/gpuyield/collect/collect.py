"""Read a window of a metrics store into the ledger, day by day.

The unit of work is the UTC day, always read whole: a collection that was cut off, repeated, or run twice at once
leaves the same ledger. A complete day is not read again. Before the first day `gap_limit` more is read, so that
what held at its beginning is known.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from gpuyield.collect import names, serving
from gpuyield.collect.activity import Found, Measured, hosts_that_are_no_nodes, map_cards, read_activity
from gpuyield.collect.days import Covered, DayRead, as_names, as_notes, coverage, write_day
from gpuyield.collect.gaps import NO_ACTIVITY, NO_POD_LABELS, NO_REQUESTS, gaps_of
from gpuyield.collect.prometheus import Prometheus
from gpuyield.collect.state import Question, State, read_pod_nodes, read_state
from gpuyield.ledger import Ledger
from gpuyield.ledger.tables import COVERAGE, Activity, RunKind
from gpuyield.model.declaration import Rules
from gpuyield.model.evidence import Gap
from gpuyield.units import DAY_MS, Window, day_name, day_window

SOURCE = "prometheus"
"""What the ledger calls the metrics store, wherever it is reached: a port-forward's address is no identity."""

SETTLE_MS = 90_000
"""The newest time that is left for the next collection: scrapes under way, and servers that hide it."""

_SKEW_MS = 2_000

CollectRules = Rules
"""Reading depends on `gap_limit_ms` alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DayProgress:
    """Told after each day."""

    day: str
    done: int
    of: int
    samples: int
    queries: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectReport:
    """What a collection did, and what is missing in its window."""

    window: Window
    product: str
    version: str
    queries: int
    samples: int
    days_read: tuple[str, ...]
    days_known: tuple[str, ...]
    """Complete before; not read again."""
    names: dict[str, str]
    """Kind -> metric names used in the window."""
    gaps: tuple[Gap, ...]


def collect(
    *,
    source: Prometheus,
    ledger: Ledger,
    window: Window,
    rules: Rules,
    now_ms: int,
    chunk_ms: int | None = None,
    refresh: bool = False,
    progress: Callable[[DayProgress], None] | None = None,
) -> CollectReport:
    """Bring the ledger up to date for the window's UTC days.

    Raises:
        SourceError: The store is out of reach, refuses, or answers nonsense. Days before are in the ledger.
    """
    build = source.build()
    version = f"{build.product} {build.version}".strip()
    end_ms = now_ms - SETTLE_MS
    spans = _spans(ledger, window, rules.gap_limit_ms, end_ms, refresh=refresh)
    read_days: list[str] = []
    for done, span in enumerate(spans, start=1):
        reader = _DayReader(source, rules.gap_limit_ms, chunk_ms, version)
        day = reader.read(span, known_before=_known_before(ledger, span.from_ms))
        if day is not None:
            write_day(ledger, SOURCE, day)
            read_days.append(day.day)
        if progress is not None:
            progress(
                DayProgress(
                    day=day_name(span.from_ms),
                    done=done,
                    of=len(spans),
                    samples=source.samples,
                    queries=source.queries,
                )
            )
    covered = coverage(ledger, SOURCE, window.days())
    return CollectReport(
        window=window,
        product=build.product,
        version=build.version,
        queries=source.queries,
        samples=source.samples,
        days_read=tuple(read_days),
        days_known=tuple(one for one in window.days() if one not in {day_name(span.from_ms) for span in spans}),
        names=_names_used(covered),
        gaps=tuple(gaps_of(window, covered, end_ms=end_ms)),
    )


def _spans(ledger: Ledger, window: Window, gap_limit_ms: int, end_ms: int, *, refresh: bool) -> list[Window]:
    """What to read, a UTC day (or less) each."""
    days = [day_window(name) for name in window.days() if day_window(name).from_ms < end_ms]
    if not days:
        return []
    before = Window(days[0].from_ms - gap_limit_ms, days[0].from_ms)
    first_ms = max(before.from_ms, before.to_ms - DAY_MS)
    known = coverage(ledger, SOURCE, [day_name(first_ms), *(day_name(day.from_ms) for day in days)])
    same_rule = [one for one in known if one.gap_limit_ms == gap_limit_ms]
    spans = []
    if refresh or not any(one.window.to_ms == before.to_ms for one in same_rule):
        spans.append(Window(first_ms, before.to_ms))
    for day in days:
        complete = any(one.complete and day.from_ms <= one.window.from_ms < day.to_ms for one in same_rule)
        if refresh or not complete:
            spans.append(Window(day.from_ms, min(day.to_ms, end_ms)))
    return spans


def _known_before(ledger: Ledger, at_ms: int) -> bool:
    """Whether anything before this moment has been read; where not, time before the first sample is unknown."""
    days = [one for one in ledger.days(COVERAGE) if day_window(one).from_ms <= at_ms]
    return any(one.window.from_ms < at_ms for one in coverage(ledger, SOURCE, days))


class _DayReader:
    """Reads one span of one day."""

    def __init__(self, source: Prometheus, gap_limit_ms: int, chunk_ms: int | None, version: str) -> None:
        self._source = source
        self._gap_limit_ms = gap_limit_ms
        self._chunk_ms = chunk_ms
        self._version = version

    def read(self, span: Window, *, known_before: bool) -> DayRead | None:
        """Everything of the span; None where nothing is there and nothing was before: not known, not empty."""
        present = self._source.names((*names.ALL_NAMES, *serving.NAMES), span)
        question = Question(source=self._source, present=frozenset(present), window=span, chunk_ms=self._chunk_ms)
        state = read_state(question)
        found = read_activity(question)
        measured = self._map(question, state, found)
        served = serving.read_serving(
            self._source, present, span, gap_limit_ms=self._gap_limit_ms, chunk_ms=self._chunk_ms
        )
        if not measured and not state.observed and not served and not known_before:
            return None
        times = [one.ts_ms for one in measured] + [one.ts_ms for one in state.observed]
        if served:
            times.append(np.array([max(span.from_ms, min(key.from_ms for key in served))], dtype=np.int64))
        from_ms = span.from_ms if known_before else min(int(one[0]) for one in times if len(one))
        to_ms = self._end(span, max((int(one[-1]) for one in times if len(one)), default=span.from_ms))
        used = {kind: set(found_names) for kind, found_names in state.used.items()}
        for one in measured:
            used.setdefault(one.card.metric, set()).add(one.card.name)
        warnings = self._source.take_notes()
        day = day_window(day_name(span.from_ms))
        return DayRead(
            day=day_name(span.from_ms),
            measured=measured,
            observed=state.observed,
            scrapes=state.scrapes,
            served=served,
            covered=Covered(
                window=Window(from_ms, max(from_ms, to_ms)),
                complete=span.from_ms == day.from_ms and to_ms == day.to_ms and not warnings,
                gap_limit_ms=self._gap_limit_ms,
                names=as_names(used),
                notes=as_notes([*warnings, *_notes(state, measured)]),
                version=self._version,
            ),
        )

    def _map(self, question: Question, state: State, found: list[Found]) -> list[Measured]:
        strangers = hosts_that_are_no_nodes(found, state.nodes)
        if strangers:
            read_pod_nodes(question, state, strangers)
        node_of_pod = {one.key.pod: one.key.node for one in state.observed if one.key.kind == RunKind.POD_NODE}
        return map_cards(found, nodes=state.nodes, node_of_pod=node_of_pod, source=SOURCE)

    def _end(self, span: Window, newest_ms: int) -> int:
        """The end of what was read: earlier than asked where the store's clock is behind ours.

        A store that holds samples of its own future was filled by hand; its clock says nothing.
        """
        server_ms = self._source.server_ms()
        if server_ms is None or span.to_ms - (server_ms - SETTLE_MS) < _SKEW_MS or newest_ms >= server_ms:
            return span.to_ms
        return max(newest_ms + 1, server_ms - SETTLE_MS)


def _notes(state: State, measured: list[Measured]) -> list[tuple[str, str]]:
    notes: list[tuple[str, str]] = []
    if not measured:
        notes.append((NO_ACTIVITY, "dcgm-exporter"))
    elif not any(one.card.pod for one in measured) and RunKind.POD_REQUEST in state.used:
        notes.append((NO_POD_LABELS, "dcgm-exporter"))
    if RunKind.POD_REQUEST not in state.used:
        notes.append((NO_REQUESTS, "kube-state-metrics"))
    nodeless = sorted({one.card.card for one in measured if not one.card.node})
    if nodeless:
        notes.append(("the node of cards is not known: no kube_pod_info resolves their host name", _few(nodeless)))
    doubtful = sorted({one.card.card for one in measured if np.isnan(one.values).any()})
    if doubtful:
        notes.append(("samples that cannot be true were dropped", _few(doubtful)))
    return notes


def _few(cards: list[str]) -> str:
    shown = " ".join(cards[:8])
    return shown if len(cards) <= 8 else f"{shown} and {len(cards) - 8} more"


def _names_used(covered: Iterable[Covered]) -> dict[str, str]:
    used: dict[str, set[str]] = {}
    for one in covered:
        for kind, text in json.loads(one.names).items():
            used.setdefault(kind, set()).update(text.split())
    order = [*Activity, *RunKind]
    return {kind: " ".join(sorted(used[kind])) for kind in order if kind in used}
