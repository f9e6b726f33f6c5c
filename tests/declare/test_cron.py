"""Schedules of CronJobs."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from gpuyield.declare.cron import comings, parse_cron
from gpuyield.errors import DeclarationError
from gpuyield.units import DAY_MS, MINUTE_MS, Window, format_instant, parse_instant


def told(schedule: str, begin: str, end: str, zone: str = "UTC") -> list[str]:
    window = Window(parse_instant(begin), parse_instant(end))
    return [format_instant(one) for one in comings(parse_cron(schedule), window, ZoneInfo(zone))]


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ("30 2 * * *", ["2026-12-01T02:30:00Z"]),
        ("@daily", ["2026-12-01T00:00:00Z"]),
        ("0 */6 * * *", [f"2026-12-01T{hour:02}:00:00Z" for hour in (0, 6, 12, 18)]),
        ("0 9-17/4 * * *", [f"2026-12-01T{hour:02}:00:00Z" for hour in (9, 13, 17)]),
        ("15,45 3 * dec tue", ["2026-12-01T03:15:00Z", "2026-12-01T03:45:00Z"]),
        ("0 0 13 * mon", []),
        ("0 0 13 * 2", ["2026-12-01T00:00:00Z"]),
        ("0 5 1 * sun", ["2026-12-01T05:00:00Z"]),
        ("0 5 * * sun", []),
        ("0 5 2,* * sun", []),
        ("0 5 */1 * sun", []),
        ("0 5 */2 * sun", ["2026-12-01T05:00:00Z"]),
        ("0 5 13 * */2", ["2026-12-01T05:00:00Z"]),
    ],
)
def test_a_schedule_comes_when_it_says(schedule: str, expected: list[str]) -> None:
    # 1 December 2026 is a Tuesday.
    assert told(schedule, "2026-12-01T00:00:00Z", "2026-12-02T00:00:00Z") == expected


def test_days_of_the_week_from_one_on_end_with_saturday() -> None:
    # 5 December 2026 is a Saturday.
    assert told("0 0 * * 5/2", "2026-12-01T00:00:00Z", "2026-12-08T00:00:00Z") == ["2026-12-04T00:00:00Z"]


def test_a_time_that_the_clock_leaves_out_does_not_come() -> None:
    assert told("30 2 * * *", "2026-03-28T12:00:00Z", "2026-03-30T12:00:00Z", "Europe/Berlin") == [
        "2026-03-30T00:30:00Z"
    ]


def test_a_time_that_the_clock_doubles_comes_twice() -> None:
    assert told("30 2 * * *", "2026-10-24T12:00:00Z", "2026-10-25T12:00:00Z", "Europe/Berlin") == [
        "2026-10-25T00:30:00Z",
        "2026-10-25T01:30:00Z",
    ]


@pytest.mark.parametrize("day", ["2026-03-29", "2026-10-25"])
def test_every_hour_comes_whatever_the_clock_does(day: str) -> None:
    assert told("0 * * * *", f"{day}T00:00:00Z", f"{day}T04:00:00Z", "Europe/Berlin") == [
        f"{day}T0{hour}:00:00Z" for hour in range(4)
    ]


@pytest.mark.parametrize(("zone", "day"), [("Europe/Berlin", "2026-10-25"), ("Australia/Lord_Howe", "2026-04-04")])
def test_it_comes_whenever_the_clock_of_its_zone_shows_it(zone: str, day: str) -> None:
    # Lord Howe Island sets its clock back by half an hour.
    begin = parse_instant(f"{day}T00:00:00Z")
    window = Window(begin, begin + DAY_MS)
    clock = {at: datetime.fromtimestamp(at // 1000, ZoneInfo(zone)) for at in range(begin, begin + DAY_MS, MINUTE_MS)}

    found = list(comings(parse_cron("*/20 1-3 * * *"), window, ZoneInfo(zone)))

    assert found == [at for at, local in clock.items() if local.minute % 20 == 0 and 1 <= local.hour <= 3]
    assert len(found) >= 9


@pytest.mark.parametrize(
    "schedule", ["", "* * * *", "60 * * * *", "5-1 * * * *", "*/0 * * * *", "*/00 * * * *", "x * * * *", "0 0 * * 7"]
)
def test_what_is_no_schedule_is_refused(schedule: str) -> None:
    with pytest.raises(DeclarationError):
        parse_cron(schedule)
