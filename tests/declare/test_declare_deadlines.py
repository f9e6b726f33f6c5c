"""The grammar of deadlines, and the nights that have a clock time not at all or twice."""

from __future__ import annotations

from datetime import UTC, datetime, time
from zoneinfo import ZoneInfo

import pytest

from gpuyield.declare.deadlines import deadline_ms, parse_deadline
from gpuyield.errors import DeclarationError
from gpuyield.model.declaration import At, Deadline, Milestone, NextClock, Within

BERLIN = ZoneInfo("Europe/Berlin")
FORMS = "Write 2026-12-01T06:00:00Z, within 8h, 06:00 Europe/Berlin, or milestone:NAME."
ORIGIN_MS = 1_796_000_000_000


def _utc_ms(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * 1000


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("2026-12-01T06:00:00Z", At(at_ms=_utc_ms("2026-12-01T06:00"))),
        ("2026-12-01 06:00+01:00", At(at_ms=_utc_ms("2026-12-01T05:00"))),
        ("2026-12-01", At(at_ms=_utc_ms("2026-11-30T23:00"))),
        ("within 8h", Within(length_ms=28_800_000)),
        (" within  1d12h ", Within(length_ms=129_600_000)),
        ("06:00 Europe/Berlin", NextClock(clock=time(6), zone="Europe/Berlin")),
        ("6:00 UTC", NextClock(clock=time(6), zone="UTC")),
        ("23:59:59 Asia/Tokyo", NextClock(clock=time(23, 59, 59), zone="Asia/Tokyo")),
        ("milestone:rc-2.3", Milestone(name="rc-2.3")),
        ("milestone: rc-2.3", Milestone(name="rc-2.3")),
    ],
)
def test_each_form_is_understood(text: str, meant: Deadline) -> None:
    assert parse_deadline(text, label="deadline", zone=BERLIN) == meant


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [("3600", 3_600_000), ("-30", -30_000), ("0.0005", 0), ("1e3", 1_000_000), ("7.25", 7_250)],
)
def test_in_job_files_a_number_is_seconds_from_the_origin(text: str, milliseconds: int) -> None:
    meant = parse_deadline(text, label="deadline", zone=UTC, origin_ms=ORIGIN_MS)

    assert meant == At(at_ms=ORIGIN_MS + milliseconds)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "2026-12-01 06:00",
            'deadline "2026-12-01 06:00" has no time zone. Write 2026-12-01T06:00:00Z, or 06:00 Europe/Berlin.',
        ),
        ("06:00", 'deadline "06:00" has no time zone. Write 06:00 Europe/Berlin.'),
        ("24:00 Europe/Berlin", "deadline 24:00 is the next day's 00:00. Write 00:00 Europe/Berlin."),
        ("25:00 UTC", 'deadline "25:00 UTC" is not a clock time. Write 06:00 Europe/Berlin.'),
        ("06:00 Berlin", '"Berlin" is not a time zone. Use an IANA name such as Europe/Berlin or UTC.'),
        ("06:00 CEST/x", '"CEST/x" is not a time zone. Use an IANA name such as Europe/Berlin or UTC.'),
        ("within 8", 'deadline "8" has no unit. Write 8ms, 8s, 8m or 8h.'),
        ("within 8 hours", '"8 hours" is not a duration. Write 8h.'),
        ("within", '"" is not a duration. Write a number with a unit: 800ms, 90s, 2h, 3h30m, 14d.'),
        ("within 0s", "deadline is 0. Write a duration above 0, such as 5m."),
        ("within 1 2h", 'deadline "1 2h" is not a duration. Write no blank within a number.'),
        ("milestone:", "deadline names no milestone. Write milestone:NAME."),
        ("2026-02-30", 'deadline "2026-02-30" is not a date. Write 2026-12-01.'),
        ("0001-01-01T00:00:00Z", 'deadline "0001-01-01T00:00:00Z" is outside the years 1970 to 2999. Check the year.'),
        (
            "tomorrow",
            f'deadline "tomorrow" is not a deadline. {FORMS}',
        ),
        (
            "3600",
            f'deadline "3600" is not a deadline. {FORMS}',
        ),
    ],
)
def test_what_is_no_deadline_is_said_with_the_right_spelling(text: str, message: str) -> None:
    with pytest.raises(DeclarationError) as caught:
        parse_deadline(text, label="deadline", zone=BERLIN)

    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("clock", "zone", "created", "at"),
    [
        # An ordinary night, and the moment itself: the next one is strictly later.
        ("06:00", "Europe/Berlin", "2026-11-30T21:00", "2026-12-01T05:00"),
        ("06:00", "Europe/Berlin", "2026-12-01T05:00", "2026-12-02T05:00"),
        ("06:00", "Europe/Berlin", "2026-12-01T04:59", "2026-12-01T05:00"),
        # 2026-03-29: 02:00 becomes 03:00, so 02:30 is the gap's end.
        ("02:30", "Europe/Berlin", "2026-03-28T23:00", "2026-03-29T01:00"),
        ("02:00", "Europe/Berlin", "2026-03-28T23:00", "2026-03-29T01:00"),
        ("03:00", "Europe/Berlin", "2026-03-28T23:00", "2026-03-29T01:00"),
        ("02:30", "Europe/Berlin", "2026-03-29T01:00", "2026-03-30T00:30"),
        # 2026-10-25: 03:00 becomes 02:00, so 02:30 is there twice; the first one counts.
        ("02:30", "Europe/Berlin", "2026-10-24T22:00", "2026-10-25T00:30"),
        ("02:30", "Europe/Berlin", "2026-10-25T00:30", "2026-10-26T01:30"),
        ("02:30", "Europe/Berlin", "2026-10-25T01:00", "2026-10-26T01:30"),
        # Half an hour: 2026-10-04 02:00 becomes 02:30, 2026-04-05 02:00 becomes 01:30.
        ("02:15", "Australia/Lord_Howe", "2026-10-03T12:00", "2026-10-03T15:30"),
        ("01:45", "Australia/Lord_Howe", "2026-04-04T12:00", "2026-04-04T14:45"),
        ("01:45", "Australia/Lord_Howe", "2026-04-04T14:45", "2026-04-05T15:15"),
        # A gap at midnight: 2018-11-04 00:00 becomes 01:00.
        ("00:00", "America/Sao_Paulo", "2018-11-03T20:00", "2018-11-04T03:00"),
        ("00:30", "America/Sao_Paulo", "2018-11-03T20:00", "2018-11-04T03:00"),
        # Midnight twice: 2018-02-18 00:00 becomes 2018-02-17 23:00.
        ("23:30", "America/Sao_Paulo", "2018-02-17T20:00", "2018-02-18T01:30"),
    ],
)
def test_a_clock_time_is_the_next_such_time_after_creation(clock: str, zone: str, created: str, at: str) -> None:
    deadline = parse_deadline(f"{clock} {zone}", label="deadline", zone=UTC)

    found_ms = deadline_ms(deadline, created_ms=_utc_ms(created), milestones={})

    assert datetime.fromtimestamp(found_ms / 1000, UTC) == datetime.fromtimestamp(_utc_ms(at) / 1000, UTC)


def test_within_counts_from_creation_and_not_on_the_clock() -> None:
    before_the_gap_ms = _utc_ms("2026-03-28T22:00")

    found_ms = deadline_ms(Within(length_ms=28_800_000), created_ms=before_the_gap_ms, milestones={})

    assert found_ms == _utc_ms("2026-03-29T06:00")


def test_moving_a_milestone_moves_its_deadlines() -> None:
    deadline = Milestone(name="rc")

    found = [deadline_ms(deadline, created_ms=0, milestones={"rc": at_ms}) for at_ms in (5, 7)]

    assert found == [5, 7]


def test_an_unknown_milestone_is_said_with_the_near_one() -> None:
    with pytest.raises(DeclarationError) as caught:
        deadline_ms(Milestone(name="rc2.3"), created_ms=0, milestones={"rc-2.3": 0})

    assert str(caught.value) == 'milestone "rc2.3" is not declared. Did you mean "rc-2.3"?'
