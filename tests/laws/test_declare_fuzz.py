"""Any bytes are a value or well-said mistakes: never another exception, never a mistake without its place."""

from __future__ import annotations

import json
import re
from datetime import UTC
from pathlib import Path
from zoneinfo import ZoneInfo

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from declare.nasty import NASTY
from declare.whole import WHOLE
from gpuyield.declare.capacity import parse_capacity
from gpuyield.declare.deadlines import deadline_ms, parse_deadline
from gpuyield.declare.jobs import JOB_KEYS, JobTerms, parse_jobs
from gpuyield.declare.objectives import parse_objective
from gpuyield.declare.rows import read_rows
from gpuyield.declare.yaml_file import parse_declaration
from gpuyield.errors import DeclarationError
from gpuyield.model.job import PlanJob

PLACE = re.compile(r"--objective|f(\.[a-z]+)?(:\d+:\d+|: row \d+(, column .*)?)?", re.DOTALL)
TERMS = JobTerms(
    origin_ms=1_796_000_000_000, zone=ZoneInfo("Europe/Berlin"), milestones={"rc": 0}, gpu_resources=["gpu"]
)
JOBS = json.dumps(
    [
        {"id": "a", "gpus": 2, "duration_s": 7200, "deadline": "06:00 UTC"},
        {"id": "b", "gpus": 1, "after": ["a"], "durations": {"h100": 5}},
    ]
)
CSV = 'id,gpus,duration_s,durations,after\na,1,5,,\nb,2,,"{""h100"": 5}","a"\n'
CAPACITY = json.dumps(
    {
        "origin": "2026-12-01",
        "resources": {"gpu/h100": [[0, 4], [60, 8]]},
        "nodes": [{"flavor": "h100", "gpus": 8}],
        "quotas": {"q": {"gpu/h100": {"nominal": 4}}},
    }
)


def _mangled(whole: str) -> st.SearchStrategy[bytes]:
    """The text with a few pieces cut out or replaced by something nasty."""
    edit = st.tuples(st.integers(0, len(whole)), st.integers(0, 30), st.sampled_from(NASTY) | st.text(max_size=8))

    def apply(edits: list[tuple[int, int, str]]) -> bytes:
        text = whole
        for at, length, new in edits:
            text = text[:at] + new + text[at + length :]
        return text.encode("utf-8", "surrogatepass")

    return st.lists(edit, min_size=1, max_size=4).map(apply)


def _assert_well_said(err: DeclarationError) -> None:
    for one in err.mistakes:
        assert one.what
        assert PLACE.fullmatch(one.where) or not one.where, one
        assert "\n" not in str(one)
        assert str(one).encode()


@given(
    st.binary(max_size=300) | st.text(max_size=200).map(lambda text: text.encode("utf-8", "ignore")) | _mangled(WHOLE)
)
@settings(max_examples=300, deadline=None)
def test_any_bytes_are_a_declaration_or_well_said_mistakes(data: bytes) -> None:
    try:
        parse_declaration(data, file="f.yaml")
    except DeclarationError as err:
        _assert_well_said(err)


@pytest.mark.parametrize(
    ("name", "whole"), [("f.json", JOBS), ("f.jsonl", JOBS[1:-1]), ("f.yaml", JOBS), ("f.csv", CSV), ("f", JOBS)]
)
@given(data=st.data())
@settings(max_examples=150, deadline=None)
def test_any_bytes_are_jobs_or_well_said_mistakes(name: str, whole: str, data: st.DataObject) -> None:
    content = data.draw(st.binary(max_size=100) | _mangled(whole))

    try:
        jobs = parse_jobs(read_rows(Path(name), content), TERMS)
    except DeclarationError as err:
        _assert_well_said(err)
    else:
        for job in jobs:
            _assert_sound(job)


def _assert_sound(job: PlanJob) -> None:
    assert job.shapes
    assert all(shape.duration_ms > 0 and all(amount >= 1 for amount in shape.demand.values()) for shape in job.shapes)
    assert job.weight >= 0
    assert job.deadline_ms is None or job.deadline_ms >= job.release_ms or job.release_ms == 0


@given(st.binary(max_size=100) | _mangled(CAPACITY))
@settings(max_examples=200, deadline=None)
def test_any_bytes_are_capacity_or_well_said_mistakes(data: bytes) -> None:
    try:
        found = parse_capacity(data, file=Path("f.json"), default_origin_ms=0, zone=UTC)
    except DeclarationError as err:
        _assert_well_said(err)
    else:
        for steps in found.capacity.steps.values():
            assert [at for at, _ in steps] == sorted({at for at, _ in steps})
            assert all(amount >= 0 for _, amount in steps)


@given(st.text(max_size=40) | st.sampled_from(NASTY))
@settings(deadline=None)
def test_any_text_is_an_objective_or_a_well_said_mistake(text: str) -> None:
    try:
        objective = parse_objective(text)
    except DeclarationError as err:
        _assert_well_said(err)
    else:
        assert 0 < objective.share <= 1


@given(st.text(max_size=40) | st.sampled_from(NASTY))
@settings(deadline=None)
def test_any_text_is_a_deadline_or_a_well_said_mistake(text: str) -> None:
    try:
        deadline = parse_deadline(text, label="deadline", zone=UTC, origin_ms=0)
        deadline_ms(deadline, created_ms=0, milestones={})
    except DeclarationError as err:
        _assert_well_said(err)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6) | st.sampled_from(NASTY),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(JOB_KEYS), inner, max_size=3),
    max_leaves=5,
)


@given(st.lists(st.dictionaries(st.sampled_from(JOB_KEYS), values, max_size=6), max_size=4))
@settings(max_examples=200, deadline=None)
def test_any_values_in_the_fields_of_jobs_are_jobs_or_well_said_mistakes(rows: list[dict[str, object]]) -> None:
    content = json.dumps([{"id": str(at), "gpus": 1, "duration_s": 5, **row} for at, row in enumerate(rows)])

    try:
        jobs = parse_jobs(read_rows(Path("f.json"), content.encode("utf-8", "surrogatepass")), TERMS)
    except DeclarationError as err:
        _assert_well_said(err)
    else:
        for job in jobs:
            _assert_sound(job)


@given(
    edits=st.lists(st.tuples(st.integers(0, 2000), st.binary(min_size=1, max_size=4)), max_size=5),
    cut=st.integers(0, 2000),
)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_damaged_parquet_file_is_jobs_or_well_said_mistakes(
    edits: list[tuple[int, bytes]], cut: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = Path("f.parquet")
    if not Path("whole").exists():
        with duckdb.connect() as connection:
            rows = "select 'j' || n as id, 1 as gpus, n * 60 + 5 as duration_s from range(20) as numbers(n)"
            connection.execute(f"copy ({rows}) to 'whole' (format parquet)")
    content = Path("whole").read_bytes()
    for at, new in edits:
        content = content[: at % len(content)] + new + content[at % len(content) + len(new) :]
    content = content[: max(cut, len(content) // 2)] if cut % 2 else content
    path.write_bytes(content)

    try:
        parse_jobs(read_rows(path, content), TERMS)
    except DeclarationError as err:
        _assert_well_said(err)
