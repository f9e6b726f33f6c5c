"""Answers are good or bad by the check that was asked for, and a check never runs away."""

from __future__ import annotations

import time
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gpuyield.errors import DeclarationError
from gpuyield.measure.graders import (
    Check,
    check_from_callable,
    check_named,
    grade,
    grade_texts,
    last_number,
    mistakes_in,
)
from gpuyield.measure.requests import RequestLine
from gpuyield.model.measure import Grade, ResponseStatus

GOOD, BAD, UNGRADED = Grade.GOOD, Grade.BAD, Grade.UNGRADED


def asked(expected: Any) -> RequestLine:
    """A request with an expected answer."""
    return RequestLine(id="q1", kind="prompt", content="?", expected=expected)


@pytest.mark.parametrize(
    ("check", "expected", "answer", "grade_"),
    [
        ("exact", "Paris", " Paris\n", GOOD),
        ("exact", "Paris", "Paris.", BAD),
        ("exact", ["Paris", "paris"], "paris", GOOD),
        ("exact", 4, "4", GOOD),
        ("exact", None, "Paris", UNGRADED),
        ("contains", "Paris", "It is Paris, of course.", GOOD),
        ("contains", ["Rome", "Paris"], "It is Bonn.", BAD),
        ("regex", r"^(yes|no)$", "yes", GOOD),
        ("regex", r"^(yes|no)$", "maybe", BAD),
        ("number", 42, "The answer is 42.", GOOD),
        ("number", 42, "6 times 7 is 41", BAD),
        ("number", 42, "I do not know", BAD),
        ("number", 1234.5, "about 1,234.5 in all", GOOD),
        ("number", {"value": 3.14, "tolerance": 0.01}, "3.149", GOOD),
        ("number", {"value": 3.14, "tolerance": 0.01}, "3.16", BAD),
        ("number", {"value": 200, "relative": 0.05}, "-7 but then 190", GOOD),
        ("number", {"value": 200, "relative": 0.05}, "189.99", BAD),
        ("number", -1e-3, "-0.001", GOOD),
        ("json_schema", {"type": "object", "required": ["a"]}, '{"a": 1}', GOOD),
        ("json_schema", {"type": "object", "required": ["a"]}, '```json\n{"a": 1}\n```', GOOD),
        ("json_schema", {"type": "object", "required": ["a"]}, '{"b": 1}', BAD),
        ("json_schema", {"type": "object", "required": ["a"]}, "no JSON", BAD),
        ("json_schema", {"type": "string", "pattern": "^a+$"}, '"aaa"', GOOD),
        ("contains", {"contains": "x", "number": 4}, "x", GOOD),
        ("number", {"contains": "x", "number": 4}, "x is 4", GOOD),
    ],
)
def test_an_answer_is_graded_by_what_is_expected(check: str, expected: Any, answer: str, grade_: Grade) -> None:
    assert grade(check_named(check), check, asked(expected), answer) is grade_


@pytest.mark.parametrize(
    ("check", "expected"),
    [
        ("regex", r"(a+)+\1"),
        ("regex", r"(?=a)b"),
        ("regex", "("),
        ("regex", 7),
        ("number", "seven"),
        ("number", {"value": 1, "tolerance": -1}),
        ("number", {"tolerance": 1}),
        ("number", True),
        ("exact", {"a": 1}),
        ("contains", []),
        ("json_schema", "object"),
        ("json_schema", {"type": "nonsense"}),
        ("json_schema", {"$ref": "https://example.invalid/schema.json"}),
        ("json_schema", {"type": "string", "pattern": "(?=a)"}),
    ],
)
def test_an_expected_answer_that_cannot_be_used_is_named_before_anything_is_sent(check: str, expected: Any) -> None:
    (mistake,) = mistakes_in(check, [asked(expected)], file="requests.jsonl")

    assert mistake.where == "requests.jsonl"
    assert "q1" in mistake.what
    assert mistake.fix


def test_a_pattern_that_would_run_away_is_matched_in_no_time() -> None:
    began = time.process_time()

    grades = [
        grade(check_named("regex"), "regex", asked(r"^(a+)+$"), "a" * 50_000 + "b"),
        grade(check_named("regex"), "regex", asked(r"(x|x|x)*y(.*)*z"), "x" * 50_000),
        grade(
            check_named("json_schema"),
            "json_schema",
            asked({"type": "string", "pattern": "^(a+)+$"}),
            '"' + "a" * 50_000 + 'b"',
        ),
    ]

    assert grades == [BAD, BAD, BAD]
    assert time.process_time() - began < 5


def test_an_answer_nested_without_end_is_bad_and_not_a_crash() -> None:
    nested = "[" * 100_000 + "]" * 100_000

    assert grade(check_named("json_schema"), "json_schema", asked({"type": "array"}), nested) is BAD


class _Reader:
    """Scores by length."""

    def score(self, *, request: RequestLine, answer: str) -> float | None:
        """Longer is better; silence cannot be scored."""
        return len(answer) / 10 if answer else None


def test_a_judge_scores_and_the_limit_decides() -> None:
    check = check_named("judge", at_least=Decimal("0.7"), judge=_Reader())

    assert [grade(check, "judge", asked(None), answer) for answer in ("1234567", "123456", "")] == [GOOD, BAD, UNGRADED]


def test_a_judge_that_nobody_named_is_an_error() -> None:
    with pytest.raises(DeclarationError, match="--check judge=module:function"):
        check_named("judge")


def test_an_unknown_check_is_an_error_that_names_the_known() -> None:
    with pytest.raises(DeclarationError, match="exact, contains, regex, number, json_schema, judge"):
        check_named("vibes")


def test_a_function_of_the_users_grades() -> None:
    check = check_from_callable("operator:eq")

    assert grade(check, "mine", asked("a"), "a") is UNGRADED, "it takes two arguments where three are given: it broke"


def test_a_function_that_cannot_be_imported_is_an_error() -> None:
    for place in ("no_such_module:f", "math:no_such", "math", "math:pi", ""):
        with pytest.raises(DeclarationError, match="module:function"):
            check_from_callable(place)


def _broken(request: RequestLine, answer: str) -> float | None:
    if answer == "raise":
        raise RuntimeError("broken")
    return float("nan") if answer == "nan" else 1.0


def test_only_whole_answers_are_graded_and_what_breaks_is_never_good() -> None:
    lines = [asked(None)] * 4
    status = np.array([ResponseStatus.OK, ResponseStatus.OK, ResponseStatus.CUT_OFF, ResponseStatus.OK], dtype=np.int8)

    grades = grade_texts(Check(scorer=_broken), "x", lines, status, {0: "raise", 1: "nan", 2: "fine", 3: "fine"})

    assert list(grades) == [UNGRADED, UNGRADED, UNGRADED, GOOD]


@given(st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**9), max_value=10**9, places=4))
def test_the_last_number_is_found_as_it_was_written(number: Decimal) -> None:
    assert last_number(f"first 17, then 3.5 and so {number:f} in the end.") == number
    assert last_number(f"{number:,f}") == number


@pytest.mark.parametrize(
    ("text", "number"), [("PHASE0", 0), ("E0", 0), ("4 of them, e-5.", -5), ("none E", None), (".5e1", 5)]
)
def test_an_exponent_without_a_number_before_it_is_none(text: str, number: int | None) -> None:
    assert last_number(text) == number


@given(st.text(max_size=200))
@example("E0")
def test_no_text_makes_a_grader_raise(text: str) -> None:
    for check, expected in (("exact", "a"), ("contains", "a"), ("regex", "a"), ("number", 1), ("json_schema", {})):
        assert grade(check_named(check), check, asked(expected), text) in (GOOD, BAD)
