"""Times, durations, windows, money and parts."""

from __future__ import annotations

from datetime import UTC, date, time
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuyield.errors import DeclarationError
from gpuyield.units import (
    DAY_MS,
    HOUR_MS,
    Money,
    Window,
    format_duration,
    format_instant,
    hours,
    largest_remainder,
    local_instant,
    merge_windows,
    next_local_clock,
    parse_duration,
    parse_instant,
    parse_span,
    parse_window,
    round_parts,
)

BERLIN = ZoneInfo("Europe/Berlin")
instants = st.integers(0, 4_000_000_000_000)


@given(instants)
def test_an_instant_is_read_back_as_it_was_printed(at_ms: int) -> None:
    assert parse_instant(format_instant(at_ms)) == at_ms


@given(st.integers(0, 10**12))
def test_a_duration_is_read_back_as_it_was_printed(length_ms: int) -> None:
    assert parse_duration(format_duration(length_ms)) == length_ms


@pytest.mark.parametrize(
    ("text", "length_ms"),
    [
        ("800ms", 800),
        ("0.8s", 800),
        ("2h", 7_200_000),
        ("3h30m", 12_600_000),
        ("14d", 14 * DAY_MS),
        ("6w", 42 * DAY_MS),
    ],
)
def test_durations(text: str, length_ms: int) -> None:
    assert parse_duration(text) == length_ms


@pytest.mark.parametrize(
    ("text", "fix"),
    [
        ("800 msec", "Write 800ms or 0.8s."),
        ("2 hours", "Write 2h."),
        ("90", "Write a number with a unit"),
        ("5 min", "Write 5m."),
    ],
)
def test_a_wrong_unit_is_an_error_that_offers_the_right_one(text: str, fix: str) -> None:
    with pytest.raises(DeclarationError) as caught:
        parse_duration(text)

    assert caught.value.mistakes[0].fix.startswith(fix)


def test_a_time_without_a_zone_is_an_error_that_offers_one() -> None:
    with pytest.raises(DeclarationError) as caught:
        parse_instant("2026-12-01 06:00")

    (mistake,) = caught.value.mistakes
    assert str(mistake) == ('"2026-12-01 06:00" has no time zone. Write 2026-12-01T06:00:00Z, or 06:00 Europe/Berlin.')


def test_a_night_without_the_hour_takes_the_first_instant_after_the_gap() -> None:
    assert format_instant(local_instant(date(2026, 3, 29), time(2, 30), BERLIN)) == "2026-03-29T01:00:00Z"


def test_a_doubled_hour_is_its_first() -> None:
    assert format_instant(local_instant(date(2026, 10, 25), time(2, 30), BERLIN)) == "2026-10-25T00:30:00Z"


def test_a_gap_of_half_an_hour_ends_where_the_clock_goes_on() -> None:
    zone = ZoneInfo("Australia/Lord_Howe")

    assert format_instant(local_instant(date(2026, 10, 4), time(2, 10), zone)) == "2026-10-03T15:30:00Z"


@given(instants, st.times(), st.sampled_from(["Europe/Berlin", "America/Sao_Paulo", "Australia/Lord_Howe", "UTC"]))
def test_the_next_clock_time_is_ahead_and_within_two_days(at_ms: int, clock: time, zone: str) -> None:
    found = next_local_clock(at_ms, clock.replace(microsecond=0, tzinfo=None), ZoneInfo(zone))

    assert 0 < found - at_ms <= 2 * DAY_MS


def test_a_month_is_the_calendar_month_of_its_zone() -> None:
    found = parse_window("2026-10", now_ms=0, zone=BERLIN)

    assert str(found) == "2026-09-30T22:00:00Z to 2026-10-31T23:00:00Z"


def test_a_length_reaches_back_from_now() -> None:
    assert parse_window("14d", now_ms=20 * DAY_MS) == Window(6 * DAY_MS, 20 * DAY_MS)


@given(st.lists(st.fractions(0, 100), min_size=1, max_size=9), st.integers(0, 10**9))
def test_parts_by_largest_remainder_sum_to_the_total_and_are_off_by_less_than_one(
    shares: list[Fraction], total: int
) -> None:
    parts = largest_remainder(shares, total)

    assert sum(parts) == total
    if sum(shares):
        assert all(abs(part - share * total / sum(shares)) < 1 for part, share in zip(parts, shares, strict=True))


@given(st.lists(st.decimals(-1000, 1000, places=9), min_size=1, max_size=9))
def test_printed_parts_sum_to_the_printed_sum(amounts: list[Decimal]) -> None:
    assert sum(round_parts(amounts)) == sum(amounts, Decimal(0)).quantize(Decimal("0.01"))


def test_currencies_never_mix() -> None:
    with pytest.raises(DeclarationError, match="USD cannot be added to EUR"):
        Money(Decimal(1), "EUR") + Money(Decimal(1), "USD")


@given(st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99)).map(sorted), max_size=9))
def test_merged_windows_are_disjoint_and_cover_the_same_instants(pairs: list[list[int]]) -> None:
    windows = [Window(low, high) for low, high in pairs]

    merged = merge_windows(windows)

    def covered(some: list[Window]) -> set[int]:
        return {at for one in some for at in range(one.from_ms, one.to_ms)}

    assert covered(merged) == covered(windows)
    assert all(left.to_ms < right.from_ms for left, right in pairwise(merged))


@given(st.tuples(st.integers(0, 10 * HOUR_MS), st.integers(0, 10 * HOUR_MS)).map(sorted))
def test_hours_cover_a_window(pair: list[int]) -> None:
    window = Window(pair[0], pair[1])

    assert sum(one.length_ms for one in hours(window)) == window.length_ms


def test_a_pure_date_of_a_span_is_midnight_in_its_zone() -> None:
    span = parse_span("2026-11-28", "2026-11-29T12:00:00Z", zone=ZoneInfo("Europe/Berlin"))

    assert str(span) == "2026-11-27T23:00:00Z to 2026-11-29T12:00:00Z"


@pytest.mark.parametrize(
    ("begin", "end", "where"),
    [
        ("2026-02-30", "2026-11-29", "--from"),
        ("2026-11-28", "9999-12-31", "--to"),
        ("0001-01-01T00:00:00+14:00", "2026-01-01", "--from"),
        ("2026-11-28", "9999-12-31T23:59:59Z", "--to"),
        ("2026-11-29", "2026-11-28", "--to"),
        ("2026-11-29", "2026-11-29", "--to"),
        ("1990-01-01", "2026-11-29", "--from"),
    ],
)
def test_a_span_that_nobody_can_mean_is_a_mistake_of_its_option(begin: str, end: str, where: str) -> None:
    with pytest.raises(DeclarationError) as caught:
        parse_span(begin, end, zone=UTC)

    assert caught.value.mistakes[0].where == where


@pytest.mark.parametrize("text", ["9999-12", "0001-01", "0000-00", "0d", "9999999d", "99999999999999999999999w"])
def test_a_window_that_nobody_can_mean_is_a_mistake(text: str) -> None:
    with pytest.raises(DeclarationError) as caught:
        parse_window(text, now_ms=1_796_000_000_000)

    assert caught.value.mistakes[0].where == "--window"
