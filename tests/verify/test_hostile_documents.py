"""Nothing that a document or its inputs hold makes the checker crash; it refuses, with a reason."""

from __future__ import annotations

import copy
import hashlib
import json
import math
from random import Random
from typing import Any

import pytest

from gpuyield.verify import check
from gpuyield.verify.report import Refused
from gpuyield.verify.values import decode
from verify.mutants import Path, paths
from verify.problems import seal
from verify.seed import due_at_one, due_at_two

ODD: list[Any] = [
    None,
    True,
    False,
    -1,
    0.5,
    math.nan,
    math.inf,
    10**400,
    -(10**30),
    "",
    "a",
    "\ud800",
    "1e999999999",
    "9" * 5_000,
    "9999-12-31T23:59:59Z",
    "0001-01-01T00:00:00Z",
    [],
    [[]],
    {},
    {"": None},
    [1, 2, 3],
]


def at(root: Any, path: Path) -> tuple[Any, Any]:
    """The holder of a path, and its last key."""
    for key in path[:-1]:
        root = root[key]
    return root, path[-1]


@pytest.mark.parametrize("make", [due_at_two, due_at_one])
@pytest.mark.parametrize("which", ["document", "inputs"])
def test_an_odd_value_anywhere_ends_in_a_report_and_never_in_a_crash(make: Any, which: str) -> None:
    document, inputs = make()
    rng, crashes = Random(7), []
    for path in list(paths(document if which == "document" else inputs, ())):
        for odd in rng.sample(ODD, 6):
            changed, changed_inputs = copy.deepcopy(document), copy.deepcopy(inputs)
            holder, key = at(changed if which == "document" else changed_inputs, path)
            holder[key] = odd
            try:
                report = check(*seal(changed, changed_inputs))
            except UnicodeEncodeError:
                continue  # Lone surrogates are no UTF-8: such inputs cannot be written at all.
            if any("cannot be re-checked" in one.reason for one in report.refused):
                crashes.append((path, odd, report.refused))

    assert crashes == []


@pytest.mark.parametrize("document", [None, [], "plan", 7, {}, {"schema": None}, {"schema": "gpuyield/plan/v2"}])
def test_what_is_no_document_is_refused(document: Any) -> None:
    report = check(document, b"{}")

    assert not report.accepted
    assert report.refused


def test_an_unknown_kind_of_document_is_refused_by_name() -> None:
    report = check({"schema": "gpuyield/receipt/v1alpha1"}, b"{}")

    assert "receipt" in report.refused[0].reason
    assert "gpuyield/plan/v1alpha1" in report.refused[0].reason


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[",
        b"\xff",
        b'{"a":1,"a":2}',
        b'{"a":NaN}',
        b'{"a":Infinity}',
        b'{"a":1e999}',
        b"[" * 100_000,
        b'{"a":' + b"9" * 5_000 + b"}",
    ],
)
def test_what_is_no_sane_json_is_refused(data: bytes) -> None:
    with pytest.raises(Refused):
        decode(data)


@pytest.mark.parametrize("odd", [1.0, 1e3, -0.0])
def test_a_float_in_the_inputs_is_refused(odd: float) -> None:
    document, inputs = due_at_two()
    inputs["jobs"][0]["release_ms"] = odd

    report = check(*seal(document, inputs))

    assert "is no integer" in report.refused[0].reason


def test_a_boolean_is_no_integer() -> None:
    document, inputs = due_at_two()
    inputs["capacity"]["gpu"][0][0] = False

    report = check(*seal(document, inputs))

    assert "a boolean, not an integer" in report.refused[0].reason


def test_jobs_that_wait_for_each_other_are_refused() -> None:
    document, inputs = due_at_two()
    inputs["jobs"][0]["after"], inputs["jobs"][1]["after"] = ["b"], ["a"]

    report = check(*seal(document, inputs))

    assert "in a circle" in report.refused[0].reason


def test_another_spelling_of_the_same_inputs_is_named_and_not_refused() -> None:
    document, inputs = due_at_two()
    data = json.dumps(inputs, indent=1).encode()
    document, _ = seal(document, inputs)
    document["inputs_digest"] = f"sha256:{hashlib.sha256(data).hexdigest()}"

    report = check(document, data)

    assert report.accepted
    assert "inputs: canonical spelling" in [one.claim for one in report.not_rechecked]
