"""Job and capacity files: one meaning in five formats."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC
from decimal import Decimal
from pathlib import Path
from typing import TypedDict

import duckdb
import pytest
import yaml

from gpuyield.declare.jobs import JobTerms, parse_jobs
from gpuyield.declare.problem import read_problem
from gpuyield.declare.rows import read_rows
from gpuyield.errors import DeclarationError
from gpuyield.model.job import NodeGroup, Problem, QueueQuota, ResourceQuota, Shape
from gpuyield.units import parse_instant

NOW_MS = parse_instant("2026-11-30T21:00:29Z")
ORIGIN_MS = parse_instant("2026-11-30T21:00:00Z")
HOUR_MS = 3_600_000
ROWS: list[dict[str, object]] = [
    {"id": "a", "gpus": 2, "duration_s": 7200, "deadline": "02:00 Europe/Berlin", "team": "t", "family": "f"},
    {"id": "=cmd|' /C calc'!A0", "gpus": 1, "durations": {"h100": 7200.5, "a100": 9000}, "due": 36000, "weight": 2.5},
    {"id": "c", "demand": {"gpu/h100": 2, "cpu": 16}, "duration_s": 60, "after": ["a"], "preemptible": 180},
    {"id": "d", "moldable": [{"gpus": 1, "duration_s": 7200}, {"gpus": 2, "duration_s": 4000}], "release": "within 1h"},
    {"id": "e", "gpus": 4, "quantiles": {"p50": 1, "p70": 20, "p90": 30}, "started_at": -30, "queue": "q"},
    {"id": "f", "gpus": 1, "duration_s": 1.0001, "deadline": "milestone:rc", "pinned_start": "2026-12-01T00:00:00Z"},
]  # fmt: skip
COLUMNS = list(dict.fromkeys(key for row in ROWS for key in row))


class Options(TypedDict, total=False):
    """What is named beside the jobs."""

    gpus: int
    resource: str


def _cell(value: object) -> str:
    return json.dumps(value) if isinstance(value, list | dict) else "" if value is None else str(value)


def _write(folder: Path, ending: str) -> Path:
    path = folder / f"jobs.{ending}"
    match ending:
        case "json":
            path.write_text(json.dumps(ROWS, indent=2))
        case "jsonl":
            path.write_text("\n".join(json.dumps(row) for row in ROWS) + "\n")
        case "yaml":
            path.write_text(yaml.safe_dump(ROWS, sort_keys=False))
        case "csv":
            quoted = [['"' + _cell(row.get(key)).replace('"', '""') + '"' for key in COLUMNS] for row in ROWS]
            path.write_text("\n".join([",".join(COLUMNS), *(",".join(cells) for cells in quoted)]))
        case "parquet":
            names = ", ".join(f'"{key}" varchar' for key in COLUMNS)
            with duckdb.connect() as connection:
                connection.execute(f"create table jobs ({names})")
                marks = ", ".join("?" for _ in COLUMNS)
                cells = [[_cell(row[key]) if key in row else None for key in COLUMNS] for row in ROWS]
                connection.executemany(f"insert into jobs values ({marks})", cells)
                connection.execute(f"copy jobs to '{path}' (format parquet)")
    return path


def _problem(path: Path) -> Problem:
    return read_problem(path, gpus=8, now_ms=NOW_MS, milestones={"rc": ORIGIN_MS + 48 * HOUR_MS})


@pytest.mark.parametrize("ending", ["json", "jsonl", "csv", "parquet"])
def test_the_format_of_a_job_file_does_not_matter(ending: str, tmp_path: Path) -> None:
    expected = _problem(_write(tmp_path, "yaml"))

    found = _problem(_write(tmp_path, ending))

    assert found.jobs == expected.jobs
    assert found.sources[0].rows == len(ROWS)


def test_jobs_mean_what_the_contract_says(tmp_path: Path) -> None:
    a, b, c, d, e, f = _problem(_write(tmp_path, "json")).jobs

    assert a.shapes == (Shape(demand={"gpu": 2}, duration_ms=2 * HOUR_MS),)
    assert (a.team, a.family) == ("t", "f")
    assert a.deadline_ms == 4 * HOUR_MS  # 22:00 to 02:00 in Berlin
    assert b.shapes == (
        Shape(flavor="h100", demand={"gpu/h100": 1}, duration_ms=7_200_500),
        Shape(flavor="a100", demand={"gpu/a100": 1}, duration_ms=9_000_000),
    )
    assert (b.due_ms, b.deadline_ms, b.weight) == (10 * HOUR_MS, None, Decimal("2.5"))
    assert c.shapes == (Shape(demand={"gpu/h100": 2, "cpu": 16}, duration_ms=60_000),)
    assert (c.after, c.restart_ms) == (("a",), 180_000)
    assert [shape.demand["gpu"] for shape in d.shapes] == [1, 2]
    assert d.release_ms == HOUR_MS
    assert e.shapes[0].duration_ms == 20_000  # plans are made with p70
    assert (e.started_ms, e.queue) == (-30_000, "q")
    assert f.shapes[0].duration_ms == 1_001  # rounded up: never let off by rounding
    assert (f.deadline_ms, f.pinned_ms) == (48 * HOUR_MS, 3 * HOUR_MS)


def test_the_origin_is_now_rounded_to_the_minute_unless_given(tmp_path: Path) -> None:
    path = _write(tmp_path, "json")

    rounded = _problem(path)
    given = read_problem(path, gpus=8, now_ms=NOW_MS, origin_ms=5_000, milestones={"rc": 0})

    assert rounded.origin_ms == ORIGIN_MS
    assert given.origin_ms == 5_000
    assert dict(rounded.capacity.steps) == {"gpu": ((0, 8),)}


@pytest.mark.parametrize(
    "text",
    [
        '{"jobs": [\n {"id": "a",\n "gpus": 1, "duration_s": 5}]\n}',
        '{"id": "a",\n "gpus": 1, "duration_s": 5}',
        '{"id": "a", "gpus": 1, "duration_s": 5}',
        '[{"id": "a", "gpus": 1, "duration_s": 5}]',
        "- {id: a, gpus: 1, duration_s: 5}",
    ],
)
def test_one_job_may_be_written_in_many_ways(text: str, tmp_path: Path) -> None:
    path = tmp_path / ("jobs.yaml" if text[0] == "-" else "jobs.json")
    path.write_text(text)

    found = read_problem(path, gpus=4, now_ms=NOW_MS)

    assert [(job.id, job.shapes[0].duration_ms) for job in found.jobs] == [("a", 5_000)]


def test_sources_carry_the_digest_of_the_raw_bytes(tmp_path: Path) -> None:
    jobs = _write(tmp_path, "csv")
    capacity = tmp_path / "capacity.json"
    capacity.write_text('{"resources": {"gpu": [[0, 8]]}}')

    found = read_problem(jobs, capacity=capacity, now_ms=NOW_MS, milestones={"rc": 0})

    assert [one.sha256 for one in found.sources] == [
        hashlib.sha256(path.read_bytes()).hexdigest() for path in (jobs, capacity)
    ]


def test_a_capacity_file_is_steps_nodes_and_quotas(tmp_path: Path) -> None:
    capacity = tmp_path / "capacity.yaml"
    capacity.write_text(
        "origin: 2026-11-30T21:00:00Z\n"
        "resources: {gpu/h100: [[-60, 4], [2026-12-01T00:00:00Z, 8]], gpu/a100: [[0, 2]], cpu: 64}\n"
        "nodes: [{flavor: h100, gpus: 8, count: 2}]\n"
        "quotas: {batch: {gpu/h100: {nominal: 4, borrow: 2}, cohort: all}}\n"
    )
    jobs = tmp_path / "jobs.jsonl"
    jobs.write_text('{"id": "a", "gpus": 2, "duration_s": 60}\n')

    found = read_problem(jobs, capacity=capacity, now_ms=0)

    assert found.origin_ms == ORIGIN_MS
    assert dict(found.capacity.steps) == {
        "gpu/h100": ((-60_000, 4), (3 * HOUR_MS, 8)),
        "gpu/a100": ((0, 2),),
        "cpu": ((0, 64),),
    }
    assert [shape.demand for shape in found.jobs[0].shapes] == [{"gpu/h100": 2}, {"gpu/a100": 2}]
    assert found.nodes == (NodeGroup(flavor="h100", gpus=8, count=2),)
    assert found.quotas == (
        QueueQuota(queue="batch", cohort="all", resources={"gpu/h100": ResourceQuota(nominal=4, borrow=2)}),
    )


def test_a_flavor_that_capacity_lacks_is_left_to_the_planner(tmp_path: Path) -> None:
    jobs = tmp_path / "jobs.json"
    jobs.write_text('[{"id": "a", "gpus": 1, "durations": {"h200": 60}}]')

    found = read_problem(jobs, gpus=4, now_ms=NOW_MS)

    assert found.jobs[0].shapes[0].demand == {"gpu/h200": 1}


def test_numbers_of_a_parquet_file_are_read_by_their_types(tmp_path: Path) -> None:
    path = tmp_path / "typed.parquet"
    with duckdb.connect() as connection:
        connection.execute(
            "copy (select 'a' as id, 2::utinyint as gpus, {'h100': 7200.0::double, 'a100': null} as durations,"
            " timestamptz '2026-12-01 02:00:00+01' as deadline, ['b'] as after, 1.5::decimal(4,2) as weight"
            " union all select 'b', 1, {'h100': 60, 'a100': 90}, null, [], null)"
            f" to '{path}' (format parquet)"
        )

    a, b = read_problem(path, gpus=4, now_ms=NOW_MS).jobs

    assert [shape.flavor for shape in a.shapes] == ["h100"]
    assert (a.deadline_ms, a.after, a.weight) == (4 * HOUR_MS, ("b",), Decimal("1.50"))
    assert [shape.duration_ms for shape in b.shapes] == [60_000, 90_000]


@pytest.mark.parametrize(
    ("name", "text", "where"),
    [
        ("jobs.csv", "id,gpus,duration_s,deadline\n\na,1,60,2026-12-01 06:00\n", "jobs.csv:3:8"),
        ("jobs.csv", '"id","gpus",duration_s,deadline\n"a,b",1,60,"2026-12-01 06:00"\n', "jobs.csv:2:12"),
        ("jobs.csv", "id;gpus;duration_s;deadline\na;1;60;2026-12-01 06:00\n", "jobs.csv:2:8"),
        ("jobs.jsonl", '{"id":"a","gpus":1,"duration_s":60,\r\n', "jobs.jsonl:1:36"),
        ("jobs.jsonl", '\n{"id":"a","gpus":1,"duration_s":60,"deadline":"2026-12-01 06:00"}\n', "jobs.jsonl:2:47"),
        ("jobs.json", '[\n {"id":"a","gpus":1,"duration_s":60,\n"deadline":"2026-12-01 06:00"}]', "jobs.json:3:12"),
        ("jobs.json", '[\n {"id":"a","id":"b","gpus":1,"duration_s":60}]', "jobs.json:2:12"),
        ("jobs.yaml", "- id: a\n  gpus: 1\n  duration_s: 60\n  deadline: 2026-12-01 06:00\n", "jobs.yaml:4:13"),
        ("jobs.yaml", "jobs:\n- {id: a, gpus: 1, duration_s: 60, deadline: 2026-12-01 06:00}\n", "jobs.yaml:2:46"),
    ],
)  # fmt: skip
def test_a_mistake_in_a_job_file_has_its_place(
    name: str, text: str, where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(name).write_bytes(text.encode())

    with pytest.raises(DeclarationError) as caught:
        read_problem(Path(name), gpus=4, now_ms=NOW_MS)

    assert [one.where for one in caught.value.mistakes] == [where]


def test_a_mistake_in_a_parquet_file_names_row_and_column(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with duckdb.connect() as connection:
        connection.execute(
            "copy (select 'a' as id, 1 as gpus, 60 as duration_s, timestamp '2026-12-01 06:00' as deadline)"
            " to 'jobs.parquet' (format parquet)"
        )

    with pytest.raises(DeclarationError) as caught:
        read_problem(Path("jobs.parquet"), gpus=4, now_ms=NOW_MS)

    assert str(caught.value).startswith(
        'jobs.parquet: row 1, column deadline: deadline "2026-12-01 06:00:00" has no time zone.'
    )


def test_ten_thousand_wrong_rows_list_the_first_thousand(tmp_path: Path) -> None:
    path = tmp_path / "jobs.jsonl"
    path.write_text("\n".join(f'{{"id": "j{n}", "gpus": 0, "duration_s": 1, "extra": 1}}' for n in range(10_000)))

    with pytest.raises(DeclarationError) as caught:
        read_problem(path, gpus=4, now_ms=NOW_MS)

    whats = [one.what for one in caught.value.mistakes]
    assert len(whats) == 1001
    assert whats[-1] == "9,001 more mistakes."
    assert sum(one.startswith("unknown key") for one in whats) == 1


def test_a_cycle_of_three_is_named_once(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text("id,gpus,duration_s,after\na,1,1,c\nb,1,1,a\nc,1,1,b\nd,1,1,a\ne,1,1,\n")

    with pytest.raises(DeclarationError) as caught:
        read_problem(path, gpus=4, now_ms=NOW_MS)

    assert [one.what for one in caught.value.mistakes] == ["jobs wait for each other: a -> c -> b -> a."]


@pytest.mark.parametrize(
    ("options", "where"),
    [
        (Options(), "--capacity, --gpus"),
        (Options(gpus=-1), "--gpus"),
        (Options(gpus=1, resource="gpu/h100"), "--resource"),
    ],
)
def test_wrong_options_are_named(options: Options, where: str, tmp_path: Path) -> None:
    path = _write(tmp_path, "json")

    with pytest.raises(DeclarationError) as caught:
        read_problem(path, now_ms=NOW_MS, milestones={"rc": 0}, **options)

    assert caught.value.mistakes[0].where == where


def test_an_origin_that_contradicts_the_file_is_refused(tmp_path: Path) -> None:
    capacity = tmp_path / "capacity.json"
    capacity.write_text('{"origin": "2026-11-30T21:00:00Z", "resources": {"gpu": 8}}')

    with pytest.raises(DeclarationError, match="is not the origin of"):
        read_problem(_write(tmp_path, "json"), capacity=capacity, now_ms=0, origin_ms=60_000, milestones={"rc": 0})


def test_added_jobs_may_wait_for_jobs_that_are_known_and_may_not_repeat_them() -> None:
    text = b'[{"id": "new", "gpus": 1, "duration_s": 5, "after": ["old"]}, {"id": "old", "gpus": 1, "duration_s": 5}]'
    terms = JobTerms(origin_ms=0, zone=UTC, milestones={}, gpu_resources=["gpu"], known_ids={"old"})

    with pytest.raises(DeclarationError) as caught:
        parse_jobs(read_rows(Path("add.json"), text), terms)

    assert [str(one) for one in caught.value.mistakes] == [
        'add.json:1:70: id "old" is there already. Give each job an id of its own.'
    ]


def test_near_names_are_looked_for_only_for_the_first_of_many_unknown_predecessors(tmp_path: Path) -> None:
    jobs = tmp_path / "jobs.jsonl"
    jobs.write_text(
        "\n".join(f'{{"id": "j{at}", "gpus": 1, "duration_s": 60, "after": ["k{at}"]}}' for at in range(2_000))
    )

    with pytest.raises(DeclarationError) as caught:
        read_problem(jobs, gpus=4, now_ms=NOW_MS)

    mistakes = caught.value.mistakes
    assert mistakes[0].fix.startswith("Known: j1, j2")
    assert mistakes[500].fix == "Name a job of this file."
    assert mistakes[-1].what == "1,000 more mistakes."


LIST = "the file is empty. Write a list of rows, or [] for none."
NONE = "for no jobs at all write [] into a .json file."
PARTS = "Parts of GPUs are planned as a resource of their own: demand: {slice: 3}."
FORMS = "Write 2026-12-01T06:00:00Z, within 8h, 06:00 Europe/Berlin, or milestone:NAME."


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("jobs.yaml", "", f"jobs.yaml:1:1: {LIST}"),
        ("jobs.yaml", "# none yet\n", f"jobs.yaml:1:1: {LIST}"),
        ("jobs.json", "", f"jobs.json:1:1: {LIST}"),
        ("jobs.json", " \n", f"jobs.json:1:1: {LIST}"),
        ("jobs.jsonl", "", f"jobs.jsonl:1:1: the file is empty. Write one {{...}} a line; {NONE}"),
        ("jobs.jsonl", "\n\n", f"jobs.jsonl:1:1: the file is empty. Write one {{...}} a line; {NONE}"),
        ("jobs.csv", "", "jobs.csv:1:1: the file is empty. Start with a line of column names."),
        ("jobs.csv", "id,gpus\n\n", f"jobs.csv:1:1: no rows follow the column names. Write one row a job; {NONE}"),
    ],
)
def test_a_job_file_without_rows_is_told_what_to_write(name: str, text: str, told: str) -> None:
    with pytest.raises(DeclarationError) as wrong:
        read_rows(Path(name), text.encode())

    assert str(wrong.value) == told


def test_a_parquet_file_without_rows_is_told_what_to_write(tmp_path: Path) -> None:
    file = tmp_path / "jobs.parquet"
    with duckdb.connect() as connection:
        connection.execute(f"copy (select 'a' as id, 1 as gpus where false) to '{file}' (format parquet)")

    with pytest.raises(DeclarationError) as wrong:
        read_rows(file, file.read_bytes())

    assert str(wrong.value) == f"{file}: the file has no rows. Write one row a job; {NONE}"


@pytest.mark.parametrize(("name", "text"), [("jobs.json", "[]"), ("jobs.yaml", "[]"), ("jobs.json", '{"jobs": []}')])
def test_an_empty_list_says_that_there_are_no_jobs(name: str, text: str) -> None:
    assert list(read_rows(Path(name), text.encode()).rows) == []


@pytest.mark.parametrize(
    ("row", "told"),
    [
        (
            '"gpus": 1.5, "duration_s": 60',
            f"gpus 1.5 is not a whole number. Write 1 or 2. {PARTS}",
        ),
        ('"demand": {"cpu": 0.5}, "duration_s": 60', "cpu 0.5 is below 1. Write 1 or more."),
        ('"demand": {"cpu": 2.5}, "duration_s": 60', "cpu 2.5 is not a whole number. Write 2 or 3."),
        (
            '"gpus": 1e300, "duration_s": 60',
            "gpus 1e300 is out of range. Write a number from 1 to 1000000000, its exponent from -99 to 99.",
        ),
        (
            '"gpus": 1, "duration_s": 60, "weight": 1e-300',
            "weight 1e-300 is out of range. Write a number from 0 to 1e99, its exponent from -99 to 99.",
        ),
        (
            '"gpus": 1, "duration_s": 60, "deadline": 1e300',
            f'deadline "1e300" is not a deadline. {FORMS} Or seconds from the origin: 7200.',
        ),
    ],
)
def test_a_number_that_cannot_be_taken_is_told_what_can(tmp_path: Path, row: str, told: str) -> None:
    jobs = tmp_path / "jobs.json"
    jobs.write_text(f'[{{"id": "a", {row}}}]', encoding="utf-8")

    with pytest.raises(DeclarationError) as wrong:
        read_problem(jobs, gpus=4, now_ms=NOW_MS)

    assert [f"{one.what} {one.fix}" for one in wrong.value.mistakes] == [told]
