"""A job file says the same in every format, and rows of plain numbers are read as all others are."""

from __future__ import annotations

import csv
import json
import tempfile
from dataclasses import replace
from datetime import UTC
from pathlib import Path
from typing import Any

import duckdb
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuyield.declare.jobs import JobTerms, parse_jobs
from gpuyield.declare.problem import read_problem
from gpuyield.declare.rows import read_rows
from gpuyield.errors import DeclarationError
from gpuyield.plan import plan_inputs
from plan.small import ORIGIN_MS

CAPACITY = {
    "origin": "2026-11-30T21:00:00Z",
    "resources": {"gpu/h100": [[0, 8]], "gpu/a100": [[0, 4], ["2026-12-01T00:00:00Z", 8]], "cpu": [[0, 64]]},
    "quotas": {"batch": {"gpu/h100": {"nominal": 4}, "cohort": "all"}, "nightly": {"gpu/h100": {"nominal": 2}}},
}
seconds = st.one_of(st.integers(1, 90_000), st.integers(1, 90_000_000).map(lambda ms: ms / 1000))
moments = st.one_of(
    st.integers(100_000, 200_000),
    st.sampled_from(
        ["2026-12-03T06:00:00Z", "2026-12-03T06:00:00.5+01:00", "2026-12-04", "within 80h", "06:00 Europe/Berlin"]
    ),
)
lengths = st.one_of(
    st.fixed_dictionaries({"gpus": st.integers(1, 8), "duration_s": seconds}),
    st.fixed_dictionaries(
        {
            "gpus": st.integers(1, 8),
            "durations": st.dictionaries(st.sampled_from(["h100", "a100"]), seconds, min_size=1),
        }
    ),
    st.fixed_dictionaries(
        {
            "gpus": st.integers(1, 8),
            "quantiles": st.lists(seconds, min_size=3, max_size=3).map(
                lambda three: dict(zip(("p50", "p70", "p90"), sorted(three), strict=True))
            ),
        }
    ),
    st.fixed_dictionaries(
        {
            "demand": st.fixed_dictionaries({"gpu/h100": st.integers(1, 8)}, optional={"cpu": st.integers(1, 16)}),
            "duration_s": seconds,
        }
    ),
    st.fixed_dictionaries(
        {
            "moldable": st.lists(
                st.fixed_dictionaries({"gpus": st.integers(1, 8), "duration_s": seconds}), min_size=1, max_size=3
            )
        }
    ),
)
rest = st.fixed_dictionaries(
    {},
    optional={
        "deadline": moments,
        "due": moments,
        "release": st.integers(0, 50_000),
        "weight": st.sampled_from([0, 1, 2.5, 0.125]),
        "preemptible": st.sampled_from([0, 180, 90.5]),
        "queue": st.sampled_from(["batch", "nightly"]),
        "team": st.sampled_from(["evals", "Größe, mit Komma", "x; y"]),
        "family": st.just("ft-7b"),
        "pinned_start": st.integers(0, 1_000),
    },
)
job_lists = st.lists(st.tuples(lengths, rest).map(lambda pair: {**pair[0], **pair[1]}), min_size=1, max_size=5)


def with_ids(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each with an id; the second waits for the first."""
    named = [{"id": f"job {at}", **row} for at, row in enumerate(rows)]
    return [{**row, "after": ["job 0"]} if at == 1 else row for at, row in enumerate(named)]


def written(folder: Path, rows: list[dict[str, Any]]) -> list[Path]:
    """The rows in each format."""
    files = [folder / f"jobs.{ending}" for ending in ("json", "jsonl", "yaml", "csv", "parquet")]
    as_json, as_lines, as_yaml, as_csv, as_parquet = files
    as_json.write_text(json.dumps(rows), encoding="utf-8")
    as_lines.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    as_yaml.write_text(yaml.safe_dump(rows, allow_unicode=True, sort_keys=False), encoding="utf-8")
    names = sorted({name for row in rows for name in row})
    cells = [
        [json.dumps(row[name]) if isinstance(row.get(name), dict | list) else row.get(name) for name in names]
        for row in rows
    ]
    with as_csv.open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream).writerows([names, *(["" if cell is None else cell for cell in row] for row in cells)])
    _write_parquet(as_parquet, names, cells)
    return files


def _write_parquet(path: Path, names: list[str], cells: list[list[Any]]) -> None:
    kinds = {"gpus": "bigint", "duration_s": "double", "weight": "double", "preemptible": "double"}
    columns = ", ".join(f'"{name}" {kinds.get(name, "varchar")}' for name in names)
    with duckdb.connect() as connection:
        connection.execute(f"create table jobs ({columns})")
        connection.executemany(f"insert into jobs values ({', '.join('?' * len(names))})", cells)
        connection.execute(f"copy jobs to '{path}' (format parquet)")


@settings(max_examples=25, deadline=None)
@given(job_lists)
def test_the_canonical_inputs_are_the_same_whatever_the_format(rows: list[dict[str, Any]]) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        capacity = folder / "capacity.json"
        capacity.write_text(json.dumps(CAPACITY), encoding="utf-8")

        found = [
            {**plan_inputs(read_problem(file, capacity=capacity, now_ms=0)), "sources": None}
            for file in written(folder, with_ids(rows))
        ]

    assert all(one == found[0] for one in found)
    assert len(found[0]["jobs"]) == len(rows)


plain_values = st.one_of(
    st.integers(-1, 10**10).map(str),
    st.sampled_from(["0", "1", "007", "1.5", "1e3", " 4", "4 ", "", "nan", "a\nb", " ", "٣", "x" * 101, "6 GPUs"]),
)
more_names = ("release", "deadline", "due", "weight", "team", "family", "preemptible", "odd")
plain_rows = st.fixed_dictionaries(
    {"id": st.one_of(st.just("a"), plain_values), "gpus": plain_values, "duration_s": plain_values},
    optional=dict.fromkeys(
        ("release", "deadline", "due", "weight", "team", "family", "preemptible", "odd"), plain_values
    ),
)


@settings(max_examples=150, deadline=None)
@given(plain_rows)
def test_a_plain_row_is_read_as_it_is_read_by_the_reader_of_all_forms(row: dict[str, str]) -> None:
    with tempfile.TemporaryDirectory() as name:
        file = Path(name) / "jobs.jsonl"
        file.write_text(json.dumps(row), encoding="utf-8")
        found = read_rows(file, file.read_bytes())
    quick = JobTerms(origin_ms=ORIGIN_MS, zone=UTC, milestones={}, gpu_resources=("gpu/a", "gpu/b"))

    answers = []
    for terms in (quick, replace(quick, queues=("q",))):
        try:
            answers.append(str(parse_jobs(found, terms)))
        except DeclarationError as err:
            answers.append(str([str(one) for one in err.mistakes]))

    assert answers[0] == answers[1]
