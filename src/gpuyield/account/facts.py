"""What was true when: runs of equal samples become facts that hold over half-open spans.

A sample holds until the next one of its series if that comes within the gap limit (inclusive), else for one
interval. A fact is a run with this hold applied; where it ends by the next sample its end is known only to lie
between that sample and the last one of the run.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar  # Any: arrays of mixed types

import numpy.typing as npt

from gpuyield.ledger.tables import RunKind
from gpuyield.units import Window, merge_windows


@dataclass(frozen=True, slots=True)
class Run:
    """One row of the ledger's runs."""

    kind: str
    node: str
    namespace: str
    pod: str
    uid: str
    container: str
    resource: str
    detail: str
    text: str
    value: float
    from_ms: int
    to_ms: int
    interval_ms: int

    @property
    def pod_key(self) -> str:
        """The pod: its uid, or its name where the exporter prints no uid."""
        return self.uid or f"{self.namespace}/{self.pod}"


@dataclass(frozen=True, slots=True)
class Fact:
    """A value that held over `[from_ms, to_ms)`; its last sample is `last_ms`, samples `interval_ms` apart."""

    from_ms: int
    to_ms: int
    last_ms: int
    interval_ms: int
    value: float
    text: str

    @property
    def window(self) -> Window:
        """When it held."""
        return Window(self.from_ms, self.to_ms)

    @property
    def sampled(self) -> Window:
        """From its first sample to its last, both inclusive."""
        return Window(self.from_ms, self.last_ms + 1)


_Key = TypeVar("_Key")

RunsByKind = Mapping[RunKind, Sequence[Run]]


def runs_by_kind(rows: Mapping[str, npt.NDArray[Any]]) -> dict[RunKind, list[Run]]:
    """Rows of the ledger's runs as values, by kind; kinds of a newer version are passed over."""
    names = Run.__match_args__
    known = {one.value: one for one in RunKind}
    grouped: dict[RunKind, list[Run]] = {one: [] for one in RunKind}
    for row in zip(*(rows[name].tolist() for name in names), strict=True):
        kind = known.get(row[0])
        if kind is not None:
            grouped[kind].append(Run(*row))
    return grouped


def facts(runs: Iterable[Run], gap_limit_ms: int) -> list[Fact]:
    """The facts of one series, in order; runs of the same value that the hold joins become one fact."""
    ordered = sorted(runs, key=lambda run: (run.from_ms, run.to_ms))
    found: list[Fact] = []
    for at, run in enumerate(ordered):
        following = ordered[at + 1].from_ms if at + 1 < len(ordered) else None
        joined = following is not None and following - run.to_ms <= gap_limit_ms
        to_ms = following if joined and following is not None else run.to_ms + run.interval_ms
        if following is not None:
            to_ms = min(to_ms, max(following, run.from_ms))
        last = found[-1] if found else None
        if last and last.to_ms == run.from_ms and (last.value, last.text) == (run.value, run.text):
            found[-1] = Fact(last.from_ms, to_ms, run.to_ms, run.interval_ms, run.value, run.text)
        else:
            found.append(Fact(run.from_ms, to_ms, run.to_ms, run.interval_ms, run.value, run.text))
    return found


class Timeline:
    """Facts of one series by time."""

    def __init__(self, found: Sequence[Fact]) -> None:
        self.facts = list(found)
        self._starts = [fact.from_ms for fact in self.facts]

    def at(self, at_ms: int) -> Fact | None:
        """The fact that holds at an instant."""
        index = bisect_right(self._starts, at_ms) - 1
        if index < 0 or self.facts[index].to_ms <= at_ms:
            return None
        return self.facts[index]

    def before(self, at_ms: int) -> Fact | None:
        """The last fact that began by an instant, whether or not it still holds."""
        index = bisect_right(self._starts, at_ms) - 1
        return self.facts[index] if index >= 0 else None

    def after(self, at_ms: int) -> Fact | None:
        """The first fact that begins at or after an instant."""
        index = bisect_right(self._starts, at_ms - 1)
        return self.facts[index] if index < len(self.facts) else None

    def slack_ms(self, at_ms: int) -> int:
        """How much earlier than at this instant the fact that begins then may have begun; 0 where none does."""
        index = bisect_right(self._starts, at_ms) - 1
        if index < 0 or self.facts[index].from_ms != at_ms:
            return 0
        before = self.facts[index - 1] if index else None
        if before and before.to_ms == at_ms:
            return at_ms - before.last_ms
        return self.facts[index].interval_ms

    def edges(self) -> list[int]:
        """Every instant at which something changes."""
        return [edge for fact in self.facts for edge in (fact.from_ms, fact.to_ms)]

    def windows(self) -> list[Window]:
        """When anything was known."""
        return merge_windows(fact.window for fact in self.facts)


def timelines(groups: Mapping[_Key, Iterable[Run]], gap_limit_ms: int) -> dict[_Key, Timeline]:
    """A timeline for each group of runs."""
    return {key: Timeline(facts(runs, gap_limit_ms)) for key, runs in groups.items()}
