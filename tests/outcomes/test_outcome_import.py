from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from gpuyield.errors import DeclarationError
from gpuyield.ledger import Ledger
from gpuyield.ledger.tables import OUTCOMES, VERDICTS
from gpuyield.outcomes.jsonl import parse_jsonl
from gpuyield.outcomes.store import Import, read_outcomes, write_outcomes
from gpuyield.units import Window, day_window

OUTCOME: dict[str, object] = {
    "outcome_id": "a",
    "kind": "job",
    "started_at": "2026-11-29T22:00:00Z",
    "ended_at": "2026-11-29T23:30:00Z",
    "namespace": "evals",
    "workload": "nightly",
    "exec_status": "succeeded",
    "units": 10,
}
VERDICT: dict[str, object] = {
    "verdict_id": "v1",
    "outcome_id": "a",
    "check": "schema_valid",
    "evaluator_kind": "code",
    "result": "pass",
    "decided_at": "2026-11-30T08:00:00Z",
}
WINDOW = Window(day_window("2026-11-29").from_ms, day_window("2026-11-30").to_ms)


def text_of(*rows: dict[str, object]) -> list[str]:
    return [json.dumps(row) for row in rows]


def put(ledger: Ledger, *rows: dict[str, object], at_us: int = 1) -> Import:
    lines = text_of(*rows)
    sha = hashlib.sha256("\n".join(lines).encode()).hexdigest()
    return write_outcomes(ledger, parse_jsonl(lines), ingested_us=at_us, sha256=sha)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger.create(tmp_path / "ledger")


def test_a_line_with_a_check_is_a_verdict_and_any_other_an_outcome() -> None:
    imported = parse_jsonl(text_of(OUTCOME, VERDICT))

    assert [one.outcome_id for one in imported.outcomes] == ["a"]
    assert [one.verdict_id for one in imported.verdicts] == ["v1"]


def test_a_time_may_be_rfc_3339_or_epoch_microseconds() -> None:
    written = parse_jsonl(text_of(OUTCOME | {"started_at": "2026-11-29T23:00:00.123456+01:00"}))
    counted = parse_jsonl(text_of(OUTCOME | {"started_at": 1_795_989_600_123_456}))

    assert written.outcomes[0].started_us == 1_795_989_600_123_456
    assert written == counted


@pytest.mark.parametrize(
    ("value", "fix"),
    [
        (1_795_989_600, "looks like seconds: write 1795989600000000"),
        (1_795_989_600_000, "looks like milliseconds: write 1795989600000000"),
        (1_795_989_600_000_000_000, "looks like nanoseconds: write 1795989600000000"),
        ("2026-11-29 22:00", "Write 2026-11-29T22:00:00Z"),
    ],
)
def test_a_time_in_another_unit_is_refused_with_the_right_spelling(value: object, fix: str) -> None:
    with pytest.raises(DeclarationError) as caught:
        parse_jsonl(text_of(OUTCOME | {"ended_at": value}))

    assert fix in str(caught.value)


def test_all_mistakes_of_a_file_come_at_once_with_file_and_line() -> None:
    lines = [
        *text_of(OUTCOME | {"exec_status": "ok"}, OUTCOME | {"units": True}),
        "{",
        "[]",
        *text_of({"outcome_id": "x", "check": "c", "result": "maybe"}),
    ]

    with pytest.raises(DeclarationError) as caught:
        parse_jsonl(lines, file="o.jsonl")

    assert [(one.where, one.what) for one in caught.value.mistakes] == [
        ("o.jsonl:1", '"exec_status" "ok" is not known.'),
        ("o.jsonl:2", '"units" is a boolean.'),
        ("o.jsonl:3:2", "not JSON: Expecting property name enclosed in double quotes."),
        ("o.jsonl:4", "not an object."),
        ("o.jsonl:5", '"result" "maybe" is not known.'),
        ("o.jsonl:5", '"evaluator_kind" is missing.'),
        ("o.jsonl:5", '"decided_at" is missing.'),
    ]


def test_a_misspelt_field_is_named_where_a_needed_one_is_missing() -> None:
    row = {key: value for key, value in OUTCOME.items() if key != "exec_status"} | {"exec_stauts": "succeeded"}

    with pytest.raises(DeclarationError, match='Did you write "exec_stauts" for it'):
        parse_jsonl(text_of(row))


@pytest.mark.parametrize(
    "line",
    [
        "[" * 100_000,
        '{"a":' * 50 + "1" + "}" * 50,
        '{"outcome_id": NaN}',
        '{"outcome_id": 1e999, "score": Infinity}',
        '{"units": ' + "9" * 5_000 + "}",
        '{"outcome_id": "a", "outcome_id": "b"}',
        '{"outcome_id": "' + "x" * 1_000_001 + '"}',
        b"\xff\xfe",
        "\x00",
    ],
)
def test_hostile_lines_are_refused_with_a_place(line: str | bytes) -> None:
    with pytest.raises(DeclarationError) as caught:
        parse_jsonl([line], file="hostile.jsonl")

    assert caught.value.mistakes[0].where.startswith("hostile.jsonl:1")


def test_an_outcome_that_belongs_to_nothing_is_refused() -> None:
    row = {key: value for key, value in OUTCOME.items() if key not in ("namespace", "workload")}

    with pytest.raises(DeclarationError, match="names no namespace and workload, and no service"):
        parse_jsonl(text_of(row))


def test_free_text_and_control_characters_are_never_stored(ledger: Ledger) -> None:
    canary = "CANARY-7fd1"

    put(
        ledger,
        OUTCOME
        | {
            "prompt": canary,
            "output": {"text": [canary]},
            "user": canary,
            "error_type": f"my prompt was {canary}",
            "stratum": f"free {canary}",
            "workload": "night\x1b[31mly\u202e",
        },
        VERDICT | {"comment": canary, "explanation": canary, "label": f"because {canary}"},
    )

    rows = {**ledger.read(OUTCOMES), **{f"v.{name}": found for name, found in ledger.read(VERDICTS).items()}}
    assert canary not in json.dumps({name: found.tolist() for name, found in rows.items()})
    assert ledger.read(OUTCOMES)["workload"].tolist() == ["night[31mly"]
    assert ledger.read(VERDICTS)["label"].tolist() == ["other"]


def test_the_same_file_twice_changes_nothing(ledger: Ledger) -> None:
    put(ledger, OUTCOME, VERDICT, at_us=1)
    before = ledger.digest()

    again = put(ledger, OUTCOME, VERDICT, at_us=2)

    assert ledger.digest() == before
    assert (again.new_outcomes, again.known_outcomes, again.new_verdicts, again.known_verdicts) == (0, 1, 0, 1)


def test_a_verdict_lies_in_the_day_its_outcome_ended_however_late_it_comes(ledger: Ledger) -> None:
    put(ledger, OUTCOME)

    put(ledger, VERDICT | {"decided_at": "2026-12-20T08:00:00Z"})

    assert ledger.days(VERDICTS) == ["2026-11-29"]


def test_a_verdict_that_came_first_waits_and_moves_to_its_outcome(ledger: Ledger, tmp_path: Path) -> None:
    other = Ledger.create(tmp_path / "other")
    put(other, OUTCOME)
    put(other, VERDICT)

    orphaned = put(ledger, VERDICT)
    put(ledger, OUTCOME)

    assert orphaned.orphans == 1
    assert [day for day in ledger.days(VERDICTS) if len(ledger.read(VERDICTS, days=[day])["check"])] == ["2026-11-29"]
    assert read_outcomes(ledger, WINDOW) == read_outcomes(other, WINDOW)


def test_facts_that_contradict_the_ledger_are_refused_and_nothing_is_written(ledger: Ledger) -> None:
    put(ledger, OUTCOME, VERDICT)
    before = ledger.digest()

    with pytest.raises(DeclarationError) as caught:
        put(
            ledger,
            OUTCOME | {"ended_at": "2026-11-30T01:00:00Z"},
            VERDICT | {"result": "fail"},
            OUTCOME | {"outcome_id": "b"},
        )

    assert [one.what for one in caught.value.mistakes] == [
        "outcome a (attempt 1) is in the ledger with other values.",
        "verdict v1 (revision 0) is in the ledger with other values.",
    ]
    assert ledger.digest() == before


def test_a_correction_with_a_higher_revision_is_kept_beside_the_first(ledger: Ledger) -> None:
    put(ledger, OUTCOME, VERDICT)

    put(ledger, VERDICT | {"result": "fail", "revision": 1})

    _, verdicts = read_outcomes(ledger, WINDOW)
    assert sorted((one.revision, one.result.value) for one in verdicts) == [(0, "pass"), (1, "fail")]


def test_what_comes_back_from_the_ledger_is_what_was_read(ledger: Ledger) -> None:
    full = OUTCOME | {
        "attempt": 2,
        "pod_uid": "u-1",
        "node": "n",
        "gpu_uuid": "GPU-1",
        "service": "s",
        "model": "m",
        "cluster": "c",
        "workload_kind": "Job",
        "error_type": "timeout",
        "input_tokens": 0,
        "output_tokens": 7,
        "ttft_us": 5,
        "sample_weight": 2.5,
    }
    lines = text_of(full, VERDICT | {"score": 0.5, "attempt": 2, "evaluator": "e", "supersedes": "v0"})
    imported = parse_jsonl(lines)

    write_outcomes(ledger, imported, ingested_us=1, sha256="s")

    assert read_outcomes(ledger, WINDOW) == (list(imported.outcomes), list(imported.verdicts))
