"""Outcomes and verdicts in the ledger: each in the day in which its outcome ended, each key once.

Importing the same file again, or the same lines in another order or another split, gives the same ledger. A verdict
whose outcome is not there waits in the day it was decided and moves when the outcome comes. What contradicts the
ledger is refused as a whole.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Generic, TypeVar, cast  # rows of a SQL engine have no narrower type

from gpuyield.errors import DeclarationError, Mistake
from gpuyield.ledger import Columns, Ledger
from gpuyield.ledger.tables import OUTCOMES, VERDICTS, Table
from gpuyield.model.outcome import (
    CheckResult,
    EvaluatorKind,
    ExecStatus,
    Outcome,
    OutcomeKind,
    Verdict,
)
from gpuyield.outcomes.derive import Key, deciding_attempt, outcome_key, sources_by_id
from gpuyield.outcomes.jsonl import Imported
from gpuyield.units import Window, day_name

Fact = TypeVar("Fact", Outcome, Verdict)
_MISSING = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Import:
    """What an import did: keys that were new, keys that were there already, verdicts that wait for their outcome."""

    new_outcomes: int
    known_outcomes: int
    new_verdicts: int
    known_verdicts: int
    orphans: int
    days: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stored(Generic[Fact]):
    """A fact with its lineage."""

    fact: Fact
    ingested_us: int
    sha256: str

    def merged(self, other: _Stored[Fact]) -> _Stored[Fact]:
        """The same whichever of the two came first."""
        return replace(
            self, ingested_us=min(self.ingested_us, other.ingested_us), sha256=min(self.sha256, other.sha256)
        )


_Lying = tuple[frozenset[str], _Stored[Any]]
"""The days in which a fact lies, and the fact."""


def write_outcomes(ledger: Ledger, imported: Imported, *, ingested_us: int, sha256: str) -> Import:
    """Put outcomes and verdicts in their days; `sha256` is that of the file they come from.

    Raises:
        DeclarationError: Facts that contradict the ledger, all of them; nothing is written then.
    """
    ids = sorted({*(one.outcome_id for one in imported.outcomes), *(one.outcome_id for one in imported.verdicts)})
    stored = dict(_located(ledger, OUTCOMES, "outcome_id", ids))
    held = dict(_located(ledger, VERDICTS, "outcome_id", ids))
    held |= _located(ledger, VERDICTS, "verdict_id", sorted({one.verdict_id for one in imported.verdicts}))
    fresh = {_key(one): _Stored(fact=one, ingested_us=ingested_us, sha256=sha256) for one in imported.outcomes}
    said = {_key(one): _Stored(fact=one, ingested_us=ingested_us, sha256=sha256) for one in imported.verdicts}
    _refuse_contradictions({**stored, **held}, {**fresh, **said})
    said = {key: held[key][1].merged(one) if key in held else one for key, one in said.items()}

    outcome_days = _by_day((one, _day_of_outcome(one.fact)) for one in fresh.values())
    for day, rows in sorted(outcome_days.items()):
        _put(ledger, OUTCOMES, day, rows, stored)

    ends = _day_by_outcome([*(one.fact for _, one in stored.values()), *imported.outcomes])
    known = sources_by_id(ends)
    homes = {key: _day_of_verdict(one.fact, ends, known) for key, (_, one) in held.items()}
    moving = {key: one for key, (days, one) in held.items() if days != {homes[key]}}
    placed = _by_day((one, _day_of_verdict(one.fact, ends, known)) for one in {**moving, **said}.values())
    for day, rows in sorted(placed.items()):
        _put(ledger, VERDICTS, day, rows, held)
    for day, keys in sorted(_left({key: held[key][0] - {homes[key]} for key in moving}).items()):
        _take_away(ledger, day, keys)
    return Import(
        new_outcomes=sum(key not in stored for key in fresh),
        known_outcomes=sum(key in stored for key in fresh),
        new_verdicts=sum(key not in held for key in said),
        known_verdicts=sum(key in held for key in said),
        orphans=sum(outcome_key(one.fact, known) is None for one in said.values()),
        days=tuple(sorted({*outcome_days, *placed})),
    )


def read_outcomes(ledger: Ledger, window: Window) -> tuple[list[Outcome], list[Verdict]]:
    """Every attempt that may have run in the window, with all attempts and verdicts of the same outcomes."""
    if not window.length_ms:
        return [], []
    first = window.days()[0]
    days = [day for day in ledger.days(OUTCOMES) if day >= first]
    outcomes = {
        _key(one.fact): one.fact
        for one in _stored(OUTCOMES, ledger.read(OUTCOMES, days=days))
        if one.fact.started_us < window.to_ms * 1000 and one.fact.ended_us >= window.from_ms * 1000
    }
    ids = sorted({one.outcome_id for one in outcomes.values()})
    for key, (_, one) in _located(ledger, OUTCOMES, "outcome_id", ids).items():
        outcomes.setdefault(key, cast("Outcome", one.fact))
    verdicts = _located(ledger, VERDICTS, "outcome_id", ids)
    return list(outcomes.values()), [cast("Verdict", one.fact) for _, one in verdicts.values()]


def _key(fact: Outcome | Verdict) -> tuple[str, str, int]:
    if isinstance(fact, Verdict):
        return "verdict", fact.verdict_id, fact.revision
    return fact.source, f"outcome {fact.outcome_id}", fact.attempt


def _day_of_outcome(outcome: Outcome) -> str:
    return day_name(outcome.ended_us // 1000)


def _day_by_outcome(outcomes: Iterable[Outcome]) -> dict[Key, dict[int | None, str]]:
    attempts: dict[Key, list[Outcome]] = defaultdict(list)
    for one in outcomes:
        attempts[one.source, one.outcome_id].append(one)
    return {
        key: {None: _day_of_outcome(deciding_attempt(found))} | {one.attempt: _day_of_outcome(one) for one in found}
        for key, found in attempts.items()
    }


def _day_of_verdict(
    verdict: Verdict, ends: Mapping[Key, Mapping[int | None, str]], known: Mapping[str, Collection[str]]
) -> str:
    key = outcome_key(verdict, known)
    days = ends[key] if key else {}
    return days.get(verdict.attempt) or days.get(None) or day_name(verdict.decided_us // 1000)


def _refuse_contradictions(
    there: Mapping[Any, tuple[object, _Stored[Any]]], coming: Mapping[Any, _Stored[Any]]
) -> None:
    mistakes = [
        Mistake(
            what=f"{_title(one.fact)} is in the ledger with other values.",
            where=one.fact.source,
            fix="Give a verdict a higher revision and a second attempt its own number; an outcome never changes.",
        )
        for key, one in coming.items()
        if key in there and there[key][1].fact != one.fact
    ]
    if mistakes:
        raise DeclarationError.of(mistakes)


def _title(fact: Outcome | Verdict) -> str:
    if isinstance(fact, Verdict):
        return f"verdict {fact.verdict_id} (revision {fact.revision})"
    return f"outcome {fact.outcome_id} (attempt {fact.attempt})"


def _by_day(placed: Iterable[tuple[_Stored[Any], str]]) -> dict[str, list[_Stored[Any]]]:
    days: dict[str, list[_Stored[Any]]] = defaultdict(list)
    for one, day in placed:
        days[day].append(one)
    return days


def _left(days_by_key: Mapping[Any, Iterable[str]]) -> dict[str, set[Any]]:
    left: dict[str, set[Any]] = defaultdict(set)
    for key, days in days_by_key.items():
        for day in days:
            left[day].add(key)
    return left


def _put(ledger: Ledger, table: Table, day: str, rows: Sequence[_Stored[Any]], there: Mapping[Any, _Lying]) -> None:
    def is_there(one: _Stored[Any]) -> bool:
        found = there.get(_key(one.fact))
        return found is not None and day in found[0] and found[1].sha256 <= one.sha256

    if all(is_there(one) for one in rows):
        return

    def change(present: Mapping[str, Any]) -> Columns:
        kept = {_key(one.fact): one for one in _stored(table, present)}
        _refuse_contradictions({key: (day, one) for key, one in kept.items()}, {_key(one.fact): one for one in rows})
        for one in rows:
            key = _key(one.fact)
            kept[key] = kept[key].merged(one) if key in kept else one
        return _columns(table, list(kept.values()))

    ledger.update_day(table, day, change)


def _take_away(ledger: Ledger, day: str, keys: set[Any]) -> None:
    def change(present: Mapping[str, Any]) -> Columns:
        return _columns(VERDICTS, [one for one in _stored(VERDICTS, present) if _key(one.fact) not in keys])

    ledger.update_day(VERDICTS, day, change)


def _located(ledger: Ledger, table: Table, column: str, ids: Sequence[str]) -> dict[tuple[str, str, int], _Lying]:
    """Facts with these ids, by key, each with the days it lies in: two where an import was cut off as it moved it."""
    files = ledger.files_of(table) if ids else []
    if not files:
        return {}
    rows = ledger.query(
        "select * from read_parquet($files, hive_partitioning = true, hive_types_autocast = false)"
        f' where "{column}" in (select unnest($ids)) order by "date"',
        files=files,
        ids=list(ids),
    )
    found: dict[tuple[str, str, int], _Lying] = {}
    for day, one in zip(rows["date"].tolist(), _stored(table, rows), strict=True):
        days, known = found.get(_key(one.fact), (frozenset(), one))
        found[_key(one.fact)] = days | {str(day)}, known.merged(one)
    return found


def _stored(table: Table, rows: Mapping[str, Any]) -> list[_Stored[Any]]:
    read = _outcome if table is OUTCOMES else _verdict
    lists = [rows[name].tolist() if hasattr(rows[name], "tolist") else list(rows[name]) for name in table.columns]
    return [
        _Stored(fact=read(row), ingested_us=row["ingested_us"], sha256=row["source_file_sha256"])
        for values in zip(*lists, strict=True)
        if (row := dict(zip(table.columns, values, strict=True)))
    ]


def _outcome(row: Mapping[str, Any]) -> Outcome:
    values = {one.name: row[one.name] for one in fields(Outcome)}
    for name in _OPTIONAL_NUMBERS:
        values[name] = None if values[name] == _MISSING else values[name]
    values["kind"] = OutcomeKind(values["kind"])
    values["exec_status"] = ExecStatus(values["exec_status"])
    return Outcome(**values)


def _verdict(row: Mapping[str, Any]) -> Verdict:
    values = {one.name: row[one.name] for one in fields(Verdict)}
    values["attempt"] = None if values["attempt"] == _MISSING else values["attempt"]
    values["score"] = None if math.isnan(values["score"]) else values["score"]
    values["evaluator_kind"] = EvaluatorKind(values["evaluator_kind"])
    values["result"] = CheckResult(values["result"])
    return Verdict(**values)


_OPTIONAL_NUMBERS = ("input_tokens", "cached_input_tokens", "output_tokens", "ttft_us", "tpot_us", "queue_us")


def _columns(table: Table, rows: Sequence[_Stored[Any]]) -> Columns:
    return {name: [_cell(one, name) for one in rows] for name in table.columns}


def _cell(stored: _Stored[Any], name: str) -> Any:
    if name == "ingested_us":
        return stored.ingested_us
    if name == "source_file_sha256":
        return stored.sha256
    value = getattr(stored.fact, name)
    if value is None:
        return math.nan if name == "score" else _MISSING
    return str(value) if isinstance(value, str) else value
