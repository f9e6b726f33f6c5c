"""A text that was put into the wrong field is refused without being repeated on the screen or in a log."""

from __future__ import annotations

import json

import pytest

from gpuyield.errors import DeclarationError
from gpuyield.outcomes.jsonl import parse_jsonl

CANARY = "CANARY said the customer, and more"
OUTCOME = {
    "outcome_id": "a",
    "kind": "job",
    "started_at": "2026-11-10T00:00:00Z",
    "ended_at": "2026-11-10T01:00:00Z",
    "exec_status": "succeeded",
    "namespace": "evals",
    "workload": "nightly",
}
VERDICT = {
    "outcome_id": "a",
    "check": "exact",
    "evaluator_kind": "code",
    "result": "pass",
    "decided_at": "2026-11-10T01:00:00Z",
}


@pytest.mark.parametrize(
    ("row", "field"),
    [(OUTCOME, field) for field in ("kind", "exec_status", "started_at", "ended_at", "units", "ttft_us", "attempt")]
    + [(VERDICT, field) for field in ("evaluator_kind", "result", "decided_at", "score", "revision", "retracted")],
)
def test_a_text_in_the_wrong_field_is_refused_unseen(row: dict[str, str], field: str) -> None:
    with pytest.raises(DeclarationError) as caught:
        parse_jsonl([json.dumps({**row, field: CANARY})])

    assert f'"{field}"' in str(caught.value)
    assert "CANARY" not in str(caught.value)


def test_a_misspelt_word_or_time_is_shown() -> None:
    with pytest.raises(DeclarationError) as caught:
        parse_jsonl([json.dumps({**OUTCOME, "kind": "jobb", "ended_at": "2026-11-10T01:00:61Z"})])

    assert '"kind" "jobb" is not known.' in str(caught.value)
    assert "second must be in 0..59" in str(caught.value)
