"""Starts: what was planned for a job, from its Workload's marks into the ledger, beside when it began."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gpuyield.collect.kueue.starts import read_starts, started_work, write_starts
from gpuyield.ledger import Ledger
from gpuyield.model.kueue import Check, CheckEntry, CheckState, ClusterSnapshot, PodSet, Work, WorkState
from gpuyield.model.marks import FIRST_PLANNED_START, PLAN, PLANNED_START, START_WHY
from gpuyield.model.starts import Started
from gpuyield.report.sections.starts import starts_finding, starts_table
from gpuyield.units import MINUTE_MS, SECOND_MS, parse_instant

NOON = parse_instant("2026-12-01T12:00:00Z")
MARKS = {PLANNED_START: "2026-12-01T12:00:00Z", FIRST_PLANNED_START: "2026-12-01T11:30:00Z", START_WHY: "It was time."}


def work(name: str, *, began_ms: int | None, marks: dict[str, str], checks: tuple[CheckEntry, ...] = ()) -> Work:
    return Work(
        namespace="evals",
        name=name,
        workload=f"job-{name}",
        kind="Job",
        uid=name,
        created_ms=NOON - 60 * MINUTE_MS,
        queue="main",
        cluster_queue="main",
        pod_sets=(PodSet(name="main", count=1, gpus=2),),
        state=WorkState.WAITING if began_ms is None else WorkState.ADMITTED,
        admitted_ms=began_ms,
        marks=marks,
        checks=checks,
    )


def seen(*works: Work) -> ClusterSnapshot:
    return ClusterSnapshot(
        at_ms=NOON,
        api_version="v1beta2",
        flavors=(),
        queues=(),
        cohorts=(),
        local_queues=(),
        work=works,
        checks=(Check(name="gpuyield", controller=PLAN, active=True),),
    )


def test_a_start_tells_what_was_planned_first_and_last_and_when_it_really_was() -> None:
    (found,) = started_work(seen(work("a", began_ms=NOON + 3 * SECOND_MS, marks=MARKS)))

    assert (found.planned_ms, found.first_ms, found.started_ms) == (NOON, NOON - 30 * MINUTE_MS, NOON + 3 * SECOND_MS)
    assert (found.late_ms, found.moved_ms, found.is_as_planned) == (3 * SECOND_MS, 30 * MINUTE_MS + 3 * SECOND_MS, True)
    assert found.because == "It was time."


@pytest.mark.parametrize(
    ("marks", "checks", "count"),
    [
        ({}, (), 0),
        ({}, (CheckEntry(name="gpuyield", state=CheckState.READY),), 1),
        ({START_WHY: "It was time.", PLANNED_START: "soon"}, (), 1),
    ],
    ids=["not planned", "let go by somebody else", "a mark that somebody wrote over"],
)
def test_what_was_planned_is_unknown_where_no_mark_tells(
    marks: dict[str, str], checks: tuple[CheckEntry, ...], count: int
) -> None:
    found = started_work(seen(work("a", began_ms=NOON, marks=marks, checks=checks)))

    assert len(found) == count
    assert all((one.planned_ms, one.late_ms, one.is_as_planned) == (None, None, False) for one in found)


def test_work_that_has_not_begun_has_no_start() -> None:
    assert started_work(seen(work("a", began_ms=None, marks=MARKS))) == ()


def test_starts_are_kept_once_each_in_the_ledger(tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "ledger")
    late = Started(
        uid="b",
        namespace="evals",
        name="b",
        queue="main",
        gpus=4,
        planned_ms=None,
        first_ms=None,
        started_ms=NOON + 1,
        because="",
    )
    early = started_work(seen(work("a", began_ms=NOON, marks=MARKS)))

    write_starts(ledger, early)
    write_starts(ledger, (late, replace(early[0], because="It was time, again.")))

    assert read_starts(ledger) == (replace(early[0], because="It was time, again."), late)


def test_the_page_says_how_many_began_as_planned_and_shows_the_others_first() -> None:
    on_time = started_work(seen(work("a", began_ms=NOON, marks=MARKS)))[0]
    late = replace(on_time, uid="b", name="b", started_ms=NOON + 10 * MINUTE_MS, because="Its GPUs were not free.")
    unknown = replace(on_time, uid="c", name="c", planned_ms=None, first_ms=None, because="")

    table = starts_table((on_time, unknown, late))

    assert starts_finding((on_time, late, unknown)) == "50 % of 2 jobs began as planned"
    assert [row[0] for row in table.rows] == ["evals/b", "evals/a", "evals/c"]
    assert table.rows[0][5] == "10 m later"
    assert table.rows[2][3:6] == (None, NOON, None)
