"""Observed work: what would be needed if the jobs that were seen had deadlines."""

from __future__ import annotations

from dataclasses import replace

from gpuyield.model.job import Capacity
from gpuyield.plan import observed_table
from gpuyield.units import HOUR_MS, format_instant, parse_instant
from plan.small import job

ORIGIN_MS = parse_instant("2026-11-30T22:30:00Z")
EIGHT = Capacity(steps={"gpu": ((0, 8),)})


def test_a_row_per_promise_with_gpus_and_floor_and_the_jobs_that_are_too_long() -> None:
    jobs = [job(f"short{at}", 2, 30) for at in range(8)] + [job("long", 1, 5 * 60)]

    rows = observed_table(jobs, EIGHT, origin_ms=ORIGIN_MS, zone="Europe/Berlin")

    assert [one.finish_within for one in rows] == ["1h", "8h", "by 08:00", "24h"]
    assert [one.impossible for one in rows] == [1, 0, 0, 0]
    assert [(one.gpus_needed, one.lower_bound) for one in rows] == [(8, 8), (3, 3), (3, 3), (2, 2)]


def test_by_morning_means_the_next_eight_o_clock_of_the_reporting_zone() -> None:
    rows = observed_table([job("a", 1, 60)], EIGHT, origin_ms=ORIGIN_MS, zone="Europe/Berlin")

    morning = rows[2].plan.job("a")
    assert morning.run is not None
    assert morning.slack_ms is not None
    assert format_instant(ORIGIN_MS + morning.run.end_ms + morning.slack_ms) == "2026-12-01T07:00:00Z"


def test_jobs_submitted_before_the_origin_are_planned_from_the_first_of_them() -> None:
    earlier = replace(job("a", 8, 60), release_ms=-3 * HOUR_MS)

    rows = observed_table([earlier, job("b", 8, 60)], EIGHT, origin_ms=ORIGIN_MS, zone="UTC")

    assert [one.impossible for one in rows] == [0, 0, 0, 0]
    assert {one.gpus_needed for one in rows} == {8}


def test_a_promise_that_the_gpus_do_not_keep_still_says_how_many_would() -> None:
    jobs = [job(f"j{at}", 4, 60) for at in range(6)]

    rows = observed_table(jobs, EIGHT, origin_ms=ORIGIN_MS, zone="UTC")

    assert (rows[0].gpus_needed, rows[0].lower_bound) == (24, 24)
