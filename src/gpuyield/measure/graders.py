"""Whether an answer is good: exact, contains, regex, number, json_schema, judge, or a callable of the user's.

A check gives a score of 0 to 1, or None where it cannot say; `grade_texts` makes good, bad or ungraded of it. What is
not graded is never good. Patterns are matched by RE2, in time linear in the text, and JSON Schemas by an engine whose
patterns are linear too and that never fetches anything.
"""

from __future__ import annotations

import importlib
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import Any, Protocol  # JSON values

import msgspec
import numpy as np

from gpuyield.errors import DeclarationError, Mistake
from gpuyield.measure.requests import RequestLine
from gpuyield.model.measure import CODES, Grade, ResponseStatus

BUILT_IN = ("exact", "contains", "regex", "number", "json_schema", "judge")
_MISSING = "Install what it needs: pip install 'gpuyield[measure]'."
_NUMBER = re.compile(r"[-+]?(?:(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?|\.\d+)(?:[eE][-+]?\d{1,3})?")
_LONGEST_NUMBER = 400
_MOST_DEEP = 64
_SCHEMA_BYTES = 1 << 20


class Judge(Protocol):
    """Somebody who reads answers, most often a model. Its transport is the caller's."""

    def score(self, *, request: RequestLine, answer: str) -> float | None:
        """How good the answer is, 0..1; None when it cannot be said."""
        ...


Scorer = Callable[[RequestLine, str], float | None]
"""Scores one answer; `RequestLine.expected` is what it compares with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A scorer, and the score from which an answer is good, or up to which where `at_most` is given.

    `ahead` gets all answers that are about to be scored: where each costs time and money, somebody asks for all of them
    together, and only what is measured is graded.
    """

    scorer: Scorer
    ahead: Callable[[Sequence[tuple[RequestLine, str]]], None] | None = None
    at_least: Decimal = Decimal(1)
    at_most: Decimal | None = None


def check_named(name: str, *, at_least: Decimal | None = None, judge: Judge | None = None) -> Check:
    """A built-in check.

    Raises:
        DeclarationError: There is no such check, or it needs what is not there.
    """
    limit = Decimal(1) if at_least is None else at_least
    if name == "judge":
        if judge is None:
            raise DeclarationError(
                "judge needs somebody to ask.",
                where="--objective",
                fix="Name a model with --judge-url and --judge-model, or a function: --check judge=module:function.",
            )
        return Check(scorer=lambda request, answer: judge.score(request=request, answer=answer), at_least=limit)
    scorers: Mapping[str, Scorer] = {
        "exact": _exact,
        "contains": _contains,
        "regex": _regex,
        "number": _number,
        "json_schema": _json_schema,
    }
    if name not in scorers:
        raise DeclarationError(
            f'"{name[:40]}" is no built-in check.',
            where="--objective",
            fix=f"Write one of {', '.join(BUILT_IN)}, or name a function with --check.",
        )
    return Check(scorer=scorers[name], at_least=limit)


def check_from_callable(place: str, *, at_least: Decimal | None = None) -> Check:
    """The check of a function named as `module:function`, which gets the answer, what is expected and the request.

    It gives a score, or true or false; what it raises leaves the answer ungraded. Only the command line names one.

    Raises:
        DeclarationError: It cannot be imported.
    """
    module, _, function = place.partition(":")
    try:
        called: Any = importlib.import_module(module)
        for part in function.split("."):
            called = getattr(called, part)
    except (ImportError, AttributeError, ValueError) as err:
        raise DeclarationError(
            f"{place[:80]} cannot be imported: {err}.", where="--check", fix="Write NAME=module:function."
        ) from err
    if not callable(called):
        raise DeclarationError(f"{place[:80]} is no function.", where="--check", fix="Write NAME=module:function.")

    def scorer(request: RequestLine, answer: str) -> float | None:
        said = called(answer, request.expected, {request.kind: request.content, "id": request.id})
        return None if said is None else float(said)

    return Check(scorer=scorer, at_least=Decimal(1) if at_least is None else at_least)


def mistakes_in(name: str, lines: Sequence[RequestLine], *, file: str) -> list[Mistake]:
    """What is wrong with the expected answers for a built-in check; every request needs one."""
    problem = {
        "regex": _regex_problem,
        "number": _number_problem,
        "json_schema": _schema_problem,
        "exact": _text_problem,
        "contains": _text_problem,
    }.get(name)
    if problem is None:
        return []
    found = ((line, problem(expected_for(name, line.expected))) for line in lines)
    return [
        Mistake(what=f'request "{line.id}": {wrong[0]}', where=file, fix=wrong[1]) for line, wrong in found if wrong
    ]


def expected_for(name: str, expected: Any) -> Any:
    """What a check compares with: the value itself, or its own key where the keys are names of checks."""
    if isinstance(expected, dict) and expected and set(expected) <= set(BUILT_IN):
        return expected.get(name)
    return expected


def grade_texts(
    check: Check, name: str, lines: Sequence[RequestLine], status: CODES, texts: Mapping[int, str]
) -> CODES:
    """The grade of each response; only those that are OK are looked at, and a scorer that breaks leaves ungraded."""
    grades = np.full(len(lines), Grade.UNGRADED, dtype=np.int8)
    rows = [row for row in range(len(lines)) if status[row] == ResponseStatus.OK and row in texts]
    if check.ahead is not None:
        check.ahead([(lines[row], texts[row]) for row in rows])
    for row in rows:
        grades[row] = grade(check, name, lines[row], texts[row])
    return grades


def grade(check: Check, name: str, line: RequestLine, text: str) -> Grade:
    """The grade of one answer."""
    try:
        score = check.scorer(line, text)
    except Exception:
        return Grade.UNGRADED
    if score is None or not math.isfinite(score):
        return Grade.UNGRADED
    exact = Decimal(repr(float(score)))
    good = exact >= check.at_least if check.at_most is None else exact <= check.at_most
    return Grade.GOOD if good else Grade.BAD


def _exact(request: RequestLine, answer: str) -> float | None:
    wanted = _texts(expected_for("exact", request.expected))
    return None if wanted is None else float(answer.strip() in [one.strip() for one in wanted])


def _contains(request: RequestLine, answer: str) -> float | None:
    wanted = _texts(expected_for("contains", request.expected))
    return None if wanted is None else float(any(one in answer for one in wanted))


def _regex(request: RequestLine, answer: str) -> float | None:
    pattern = expected_for("regex", request.expected)
    return None if not isinstance(pattern, str) else float(_compiled(pattern).search(answer) is not None)


def _number(request: RequestLine, answer: str) -> float | None:
    """Whether the last number of the answer is the expected one, within its tolerance."""
    wanted = _tolerant(expected_for("number", request.expected))
    if wanted is None:
        return None
    said = last_number(answer)
    return 0.0 if said is None else float(abs(said - wanted[0]) <= wanted[1])


def _json_schema(request: RequestLine, answer: str) -> float | None:
    schema = expected_for("json_schema", request.expected)
    if not isinstance(schema, dict):
        return None
    validator = _validator(msgspec.json.encode(schema))
    try:
        value = msgspec.json.decode(_without_fence(answer).encode())
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return 0.0
    return float(validator.is_valid(value))


def last_number(text: str) -> Decimal | None:
    """The last number in a text; thousands may be grouped by commas."""
    tail = text[-100_000:]
    found = [one[0] for one in _NUMBER.finditer(tail)]
    if not found or len(found[-1]) > _LONGEST_NUMBER:
        return None
    return Decimal(found[-1].replace(",", ""))


def _texts(expected: Any) -> list[str] | None:
    listed = expected if isinstance(expected, list) else [expected]
    texts = [_as_text(one) for one in listed]
    return None if not texts or None in texts else [one for one in texts if one is not None]


def _as_text(value: Any) -> str | None:
    if isinstance(value, str):
        return value
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _tolerant(expected: Any) -> tuple[Decimal, Decimal] | None:
    """The expected number and how far off an answer may be."""
    fields = expected if isinstance(expected, dict) else {"value": expected}
    if not set(fields) <= {"value", "tolerance", "relative"}:
        return None
    value, tolerance, relative = (_decimal(fields.get(key, 0)) for key in ("value", "tolerance", "relative"))
    if value is None or tolerance is None or relative is None or "value" not in fields or min(tolerance, relative) < 0:
        return None
    return value, max(tolerance, abs(value) * relative)


def _decimal(value: Any) -> Decimal | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = Decimal(str(value))
    except InvalidOperation:
        return None
    return number if number.is_finite() else None


def _without_fence(answer: str) -> str:
    text = answer.strip()
    if text.startswith("```") and text.endswith("```") and "\n" in text:
        return text[text.index("\n") + 1 : -3]
    return text


def _text_problem(expected: Any) -> tuple[str, str] | None:
    if _texts(expected) is not None:
        return None
    return ("expected is no text.", 'Write "expected": "..." or a list of texts of which one must be met.')


def _number_problem(expected: Any) -> tuple[str, str] | None:
    if _tolerant(expected) is not None:
        return None
    return ("expected is no number.", 'Write "expected": 42, or {"value": 3.14, "tolerance": 0.01}.')


def _regex_problem(expected: Any) -> tuple[str, str] | None:
    if not isinstance(expected, str):
        return ("expected is no pattern.", 'Write "expected": "^(yes|no)$".')
    try:
        _compiled(expected)
    except DeclarationError as err:
        return (err.mistakes[0].what, err.mistakes[0].fix)
    return None


def _schema_problem(expected: Any) -> tuple[str, str] | None:
    if not isinstance(expected, dict):
        return ("expected is no JSON Schema.", 'Write "expected": {"type": "object", ...}.')
    try:
        _validator(msgspec.json.encode(expected))
    except DeclarationError as err:
        return (err.mistakes[0].what, err.mistakes[0].fix)
    return None


@lru_cache(maxsize=4096)
def _compiled(pattern: str) -> Any:
    """The compiled pattern. RE2 refuses back-references and look-around, which is what lets others run away."""
    try:
        re2: Any = importlib.import_module("re2")
    except ImportError as err:
        raise DeclarationError("the check regex needs google-re2.", where="regex", fix=_MISSING) from err
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options=options)
    except re2.error as err:
        reason = err.args[0] if err.args else ""
        said = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
        raise DeclarationError(
            f"the pattern cannot be used: {said[:100]}.",
            where="regex",
            fix="Write it without back-references and look-around; the syntax is RE2's.",
        ) from err


@lru_cache(maxsize=512)
def _validator(schema: bytes) -> Any:
    """The validator of a JSON Schema; patterns are matched in linear time, references elsewhere are refused."""
    try:
        import jsonschema_rs
    except ImportError as err:
        raise DeclarationError("the check json_schema needs jsonschema-rs.", where="json_schema", fix=_MISSING) from err
    if len(schema) > _SCHEMA_BYTES:
        raise DeclarationError("the schema is larger than 1 MiB.", where="json_schema", fix="Write a smaller one.")
    try:
        return jsonschema_rs.validator_for(
            msgspec.json.decode(schema), pattern_options=jsonschema_rs.RegexOptions(), retriever=_no_retrieval
        )
    except (ValueError, jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError) as err:
        raise DeclarationError(
            f"the schema cannot be used: {str(err).splitlines()[0][:100]}.",
            where="json_schema",
            fix="Write a schema that stands alone, with patterns without look-around.",
        ) from err


def _no_retrieval(address: str) -> Any:
    raise ValueError("a reference to another place")
