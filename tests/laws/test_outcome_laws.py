"""The ledger and the statuses depend on what was imported, not on when, in which files or how often."""

from __future__ import annotations

import hashlib
import json
import tempfile
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpuyield.ledger import Ledger
from gpuyield.outcomes.derive import judge
from gpuyield.outcomes.jsonl import parse_jsonl
from gpuyield.outcomes.store import read_outcomes, write_outcomes
from gpuyield.units import DAY_MS, Window, parse_instant
from laws.sizes import size

START_MS = parse_instant("2026-11-28T00:00:00Z")
WINDOW = Window(START_MS, START_MS + 4 * DAY_MS)


def outcome(name: str, attempt: int) -> dict[str, object]:
    # The facts of a key are always the same, as they are in life: only their arrival varies.
    ended_ms = START_MS + (attempt * 17 + ord(name)) % 72 * 3_600_000 + 3_600_000
    return {
        "outcome_id": name,
        "attempt": attempt,
        "kind": "job",
        "started_at": (ended_ms - 3_600_000) * 1000,
        "ended_at": ended_ms * 1000,
        "exec_status": ("succeeded", "failed", "timed_out")[(attempt + ord(name)) % 3],
        "namespace": "evals",
        "workload": "nightly",
    }


def verdict(name: str, attempt: int | None, evaluator: str, revision: int) -> dict[str, object]:
    number = (attempt or 0) + ord(name) + len(evaluator) + revision
    return {
        "outcome_id": name,
        "attempt": attempt,
        "check": "valid",
        "evaluator_kind": ("code", "human")[number % 2],
        "evaluator": evaluator,
        "result": ("pass", "fail", "error", "skipped")[number % 4],
        "decided_at": (START_MS + number % 96 * 3_600_000) * 1000,
        "revision": revision,
        "retracted": number % 7 == 0,
    }


rows = st.lists(
    st.one_of(
        st.builds(outcome, st.sampled_from("ab"), st.integers(1, 3)),
        st.builds(
            verdict,
            st.sampled_from("ab"),
            st.one_of(st.none(), st.integers(1, 3)),
            st.sampled_from(("x", "yy")),
            st.integers(0, 1),
        ),
    ),
    min_size=1,
    max_size=10,
)


def put(ledger: Ledger, row: dict[str, object], at_us: int) -> None:
    line = json.dumps(row)
    sha256 = hashlib.sha256(line.encode()).hexdigest()
    write_outcomes(ledger, parse_jsonl([line]), ingested_us=at_us, sha256=sha256)


few = settings(max_examples=3, deadline=None, suppress_health_check=[HealthCheck.too_slow])
many = settings(few, max_examples=size(default=25, sample=12, full=50))


@given(rows, st.randoms(use_true_random=False))
@few
def test_order_and_repetition_of_imports_change_nothing(listed: list[dict[str, object]], chance: Random) -> None:
    same_whatever_the_order(listed[:6], chance)


@pytest.mark.slow_laws
@given(rows, st.randoms(use_true_random=False))
@many
def test_order_and_repetition_of_imports_change_nothing_at_length(
    listed: list[dict[str, object]], chance: Random
) -> None:
    same_whatever_the_order(listed, chance)


def same_whatever_the_order(listed: list[dict[str, object]], chance: Random) -> None:
    shuffled = [*listed, *listed[:3]]
    chance.shuffle(shuffled)
    with tempfile.TemporaryDirectory() as folder:
        one, other = Ledger.create(Path(folder) / "one"), Ledger.create(Path(folder) / "other")

        for at, row in enumerate(listed):
            put(one, row, at)
        for at, row in enumerate(shuffled):
            put(other, row, 1_000 + at)

        assert one.digest() == other.digest()
        assert judge(*read_outcomes(one, WINDOW)) == judge(*read_outcomes(other, WINDOW))


@given(rows, st.randoms(use_true_random=False))
def test_the_order_of_facts_changes_no_status(listed: list[dict[str, object]], chance: Random) -> None:
    imported = parse_jsonl([json.dumps(row) for row in listed])
    outcomes, verdicts = list(imported.outcomes), list(imported.verdicts)
    before = judge(outcomes, verdicts)

    chance.shuffle(outcomes)
    chance.shuffle(verdicts)

    assert judge(outcomes, verdicts) == before
    assert len(before.results) == len({one.outcome_id for one in outcomes})
