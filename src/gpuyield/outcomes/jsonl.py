"""Outcomes and verdicts from JSON lines: one object a line, a verdict if it has `check`, else an outcome.

A file is taken whole or not at all: with one mistake in it nothing of it is stored, and every mistake is named.
Content never enters: only the fields listed here are read.
"""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn  # JSON values

from gpuyield.errors import DeclarationError, Mistake
from gpuyield.model.outcome import (
    CheckResult,
    EvaluatorKind,
    ExecStatus,
    Outcome,
    OutcomeKind,
    Verdict,
)
from gpuyield.outcomes import fields
from gpuyield.outcomes.fields import Reader, Unfit

LINE_LENGTH = 1_000_000
NESTING = 32
SHOWN_MISTAKES = 1_000

_OUTCOME_FIELDS: Mapping[str, tuple[str, Reader]] = {
    "outcome_id": ("outcome_id", fields.identity),
    "attempt": ("attempt", fields.ordinal),
    "kind": ("kind", fields.word_of(OutcomeKind)),
    "started_at": ("started_us", fields.instant_us),
    "ended_at": ("ended_us", fields.instant_us),
    "exec_status": ("exec_status", fields.word_of(ExecStatus)),
    "cluster": ("cluster", fields.identity),
    "namespace": ("namespace", fields.identity),
    "workload_kind": ("workload_kind", fields.name),
    "workload": ("workload", fields.identity),
    "pod_uid": ("pod_uid", fields.identity),
    "node": ("node", fields.name),
    "gpu_uuid": ("gpu_uuid", fields.name),
    "service": ("service", fields.name),
    "model": ("model", fields.name),
    "error_type": ("error_type", fields.label),
    "input_tokens": ("input_tokens", fields.count),
    "cached_input_tokens": ("cached_input_tokens", fields.count),
    "output_tokens": ("output_tokens", fields.count),
    "ttft_us": ("ttft_us", fields.count),
    "tpot_us": ("tpot_us", fields.count),
    "queue_us": ("queue_us", fields.count),
    "units": ("units", fields.count),
    "stratum": ("stratum", fields.label),
    "sample_weight": ("sample_weight", fields.positive),
}
_OUTCOME_NEEDS = ("outcome_id", "kind", "started_at", "ended_at", "exec_status")

_VERDICT_FIELDS: Mapping[str, tuple[str, Reader]] = {
    "verdict_id": ("verdict_id", fields.identity),
    "outcome_id": ("outcome_id", fields.identity),
    "attempt": ("attempt", fields.ordinal),
    "check": ("check", fields.identity),
    "evaluator_kind": ("evaluator_kind", fields.word_of(EvaluatorKind)),
    "evaluator": ("evaluator", fields.name),
    "evaluator_version": ("evaluator_version", fields.name),
    "score": ("score", fields.real),
    "label": ("label", fields.label),
    "result": ("result", fields.word_of(CheckResult)),
    "decided_at": ("decided_us", fields.instant_us),
    "revision": ("revision", fields.count),
    "supersedes": ("supersedes", fields.identity),
    "retracted": ("retracted", fields.claim),
}
_VERDICT_NEEDS = ("outcome_id", "check", "evaluator_kind", "result", "decided_at")


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """What a file says, each key once, in the order of first appearance."""

    outcomes: tuple[Outcome, ...]
    verdicts: tuple[Verdict, ...]


class _Refused(Exception):
    """A line that says nothing we can take."""

    def __init__(self, mistakes: tuple[Mistake, ...]) -> None:
        super().__init__()
        self.mistakes = mistakes


def parse_jsonl(lines: Iterable[str | bytes], *, source: str = "jsonl", file: str = "", cluster: str = "") -> Imported:
    """The outcomes and verdicts of JSON lines; empty lines are skipped, a repeated line counts once.

    `source` names where they come from (part of their key: an outcome and its verdicts share it), `file` is for
    messages, `cluster` is taken where a line names none.

    Raises:
        DeclarationError: All mistakes, as file:line.
    """
    outcomes: dict[tuple[str, int], Outcome] = {}
    verdicts: dict[tuple[str, int], Verdict] = {}
    mistakes: list[Mistake] = []
    for number, line in enumerate(lines, start=1):
        where = f"{file}:{number}" if file else f"line {number}"
        try:
            row = _object(line, where)
            if row is None:
                continue
            if row.get("check") is not None:
                verdict = _verdict(row, where, source)
                _keep(verdicts, (verdict.verdict_id, verdict.revision), verdict, where)
            else:
                outcome = _outcome(row, where, source, cluster)
                _keep(outcomes, (outcome.outcome_id, outcome.attempt), outcome, where)
        except _Refused as refused:
            mistakes.extend(refused.mistakes)
    if mistakes:
        raise DeclarationError.of(_shown(mistakes))
    return Imported(outcomes=tuple(outcomes.values()), verdicts=tuple(verdicts.values()))


def default_verdict_id(
    *,
    source: str,
    outcome_id: str,
    attempt: int | None,
    check: str,
    evaluator: str,
    evaluator_version: str,
    revision: int,
) -> str:
    """The id of a verdict whose source gives none: the same verdict always gets the same."""
    parts = [source, outcome_id, attempt, check, evaluator, evaluator_version, revision]
    return hashlib.sha256(json.dumps(parts, separators=(",", ":")).encode()).hexdigest()


def _outcome(row: Mapping[str, Any], where: str, source: str, cluster: str) -> Outcome:
    values, mistakes = _values(row, _OUTCOME_FIELDS, _OUTCOME_NEEDS, where)
    if not values.get("service") and not ("namespace" in values and "workload" in values):
        read = {"namespace", "workload", "service"} & set(row)
        if not any(row[key] is not None and _OUTCOME_FIELDS[key][0] not in values for key in read):
            mistakes.append(
                Mistake(
                    what="an outcome names no namespace and workload, and no service.",
                    where=where,
                    fix='Add "namespace" and "workload" (the Deployment or Job), so that its GPU time can be found.',
                )
            )
    started, ended = values.get("started_us"), values.get("ended_us")
    if started is not None and ended is not None and ended < started:
        mistakes.append(
            Mistake(what='"ended_at" is before "started_at".', where=where, fix="Swap them, or correct the clock.")
        )
    if mistakes:
        raise _Refused(tuple(mistakes))
    return Outcome(**({"cluster": cluster} | values), source=source)


def _verdict(row: Mapping[str, Any], where: str, source: str) -> Verdict:
    values, mistakes = _values(row, _VERDICT_FIELDS, _VERDICT_NEEDS, where)
    if values.get("supersedes") and values["supersedes"] == values.get("verdict_id"):
        mistakes.append(Mistake(what="a verdict supersedes itself.", where=where, fix='Raise its "revision" instead.'))
    if mistakes:
        raise _Refused(tuple(mistakes))
    if "verdict_id" not in values:
        values["verdict_id"] = default_verdict_id(
            source=source,
            outcome_id=values["outcome_id"],
            attempt=values.get("attempt"),
            check=values["check"],
            evaluator=values.get("evaluator", ""),
            evaluator_version=values.get("evaluator_version", ""),
            revision=values.get("revision", 0),
        )
    return Verdict(**values, source=source)


def _values(
    row: Mapping[str, Any], known: Mapping[str, tuple[str, Reader]], needs: tuple[str, ...], where: str
) -> tuple[dict[str, Any], list[Mistake]]:
    values: dict[str, Any] = {}
    mistakes: list[Mistake] = []
    for key, (attribute, read) in known.items():
        value = row.get(key)
        if value is None:
            continue
        try:
            values[attribute] = read(value)
        except Unfit as unfit:
            mistakes.append(Mistake(what=f'"{key}" {unfit.what}.', where=where, fix=unfit.fix))
    mistakes.extend(
        Mistake(what=f'"{key}" is missing.', where=where, fix=_instead(key, row, known))
        for key in needs
        if row.get(key) is None
    )
    return values, mistakes


def _instead(key: str, row: Mapping[str, Any], known: Mapping[str, tuple[str, Reader]]) -> str:
    strangers = [one for one in row if one not in known]
    near = difflib.get_close_matches(key, strangers, n=1, cutoff=0.75)
    return f'Did you write "{fields.name(near[0])}" for it?' if near else "Every such line needs it."


def _object(line: str | bytes, where: str) -> Mapping[str, Any] | None:
    if len(line) > LINE_LENGTH:
        _refuse(where, f"a line of more than {LINE_LENGTH:,} characters.", "Leave prompts and outputs out.")
    if isinstance(line, bytes):
        try:
            line = line.decode("utf-8")
        except UnicodeDecodeError:
            _refuse(where, "not UTF-8.", "Write the file in UTF-8.")
    text = line.strip().lstrip("\ufeff")
    if not text:
        return None
    if text.count("[") + text.count("{") > NESTING and _depth(text) > NESTING:
        _refuse(where, f"nested deeper than {NESTING}.", "Write one flat object a line.")
    try:
        row = json.loads(text, object_pairs_hook=_once, parse_constant=_no_constant)
    except _Twice as err:
        _refuse(where, f'"{err.key}" is there twice.', "Write each field once.")
    except json.JSONDecodeError as err:
        _refuse(f"{where}:{err.colno}", f"not JSON: {err.msg}.", "Write one object a line, in one line.")
    except (ValueError, RecursionError):
        _refuse(where, "not JSON: a number that is none, or too long.", "Write finite numbers, or leave them out.")
    if not isinstance(row, dict):
        _refuse(where, "not an object.", 'Write {"outcome_id": ..., ...} in each line.')
    return row


class _Twice(Exception):
    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen and (key in _OUTCOME_FIELDS or key in _VERDICT_FIELDS):
                raise _Twice(key)
            seen.add(key)
    return found


def _no_constant(text: str) -> NoReturn:
    raise ValueError(text)


def _depth(text: str) -> int:
    deepest = depth = 0
    quoted = escaped = False
    for letter in text:
        if escaped:
            escaped = False
        elif letter == "\\":
            escaped = quoted
        elif letter == '"':
            quoted = not quoted
        elif not quoted and letter in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif not quoted and letter in "]}":
            depth -= 1
    return deepest


def _keep(kept: dict[Any, Any], key: Any, value: Outcome | Verdict, where: str) -> None:
    if kept.setdefault(key, value) == value:
        return
    if isinstance(value, Verdict):
        _refuse(
            where,
            f"verdict {value.verdict_id} (revision {value.revision}) is there twice, with different values.",
            'Give the later one a higher "revision", or another "verdict_id" that names the first in "supersedes".',
        )
    _refuse(
        where,
        f"outcome {value.outcome_id} (attempt {value.attempt}) is there twice, with different values.",
        'A second attempt needs another number in "attempt"; an outcome itself never changes.',
    )


def _refuse(where: str, what: str, fix: str) -> NoReturn:
    raise _Refused((Mistake(what=what, where=where, fix=fix),))


def _shown(mistakes: list[Mistake]) -> list[Mistake]:
    if len(mistakes) <= SHOWN_MISTAKES:
        return mistakes
    more = len(mistakes) - SHOWN_MISTAKES
    return [
        *mistakes[:SHOWN_MISTAKES],
        Mistake(what=f"and {more:,} more mistakes.", where=mistakes[SHOWN_MISTAKES].where, fix="Correct these first."),
    ]
