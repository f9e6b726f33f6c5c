"""Words that people read first."""

from __future__ import annotations

from dataclasses import replace
from zoneinfo import ZoneInfo

import pytest

from gpuyield.model.waterfall import GpuClass
from gpuyield.report.sentences import (
    account_headline,
    count,
    idle_sentence,
    in_percent,
    listed,
    percent,
    percents,
    window_words,
)
from gpuyield.units import HOUR_MS, Window, parse_instant
from report.samples import WINDOW, account, waterfall


def test_without_an_outcome_source_the_headline_says_busy_and_not_productive_0() -> None:
    found = replace(account(), waterfall=waterfall({GpuClass.UNVERIFIED: 41, GpuClass.UNDERUSED: 59}))

    said = account_headline(found, judged=False)

    assert said == ("Busy 41 %, not judged yet: import outcomes or name a check (gpuyield outcomes import --help).")


def test_with_outcomes_the_headline_tells_productive_lost_and_not_judged() -> None:
    assert account_headline(account(), judged=True).startswith(
        "Productive 29 % of capacity, lost 5 %, not judged 7 %; busy 41 %."
    )


def test_held_time_without_activity_is_unobserved_and_not_idle() -> None:
    found = replace(account(), waterfall=waterfall({GpuClass.UNOBSERVED: 5, GpuClass.NO_DEMAND: 5}))

    assert account_headline(found, judged=False) == "Allocated 50 % of capacity; how busy it was is unobserved."


def test_who_holds_idle_gpus_is_named() -> None:
    assert idle_sentence(account()) == (
        "7 whole GPUs held idle at the end of the window: vision/label-studio 4 GPUs and search/notebooks 3 GPUs."
    )
    assert idle_sentence(replace(account(), holders=())) is None


@pytest.mark.parametrize(
    ("part", "whole", "text"),
    [
        (0, 10, "0 %"),
        (1, 1000, "less than 1 %"),
        (999, 1000, "over 99 %"),
        (1000, 1000, "100 %"),
        (0, 0, "0 %"),
        (41, 100, "41 %"),
    ],
)
def test_a_percentage_never_hides_something_or_feigns_all(part: int, whole: int, text: str) -> None:
    assert percent(part, whole) == text


@pytest.mark.parametrize(
    ("ratio", "text"),
    [(0.38, "38 %"), (0.95, "95 %"), (0.997, "over 99 %"), (0.004, "less than 1 %"), (1.5, "150 %"), (0.0, "0 %")],
)
def test_a_ratio_is_read_as_a_percentage_is(ratio: float, text: str) -> None:
    assert in_percent(ratio) == text


@pytest.mark.parametrize(
    ("parts", "whole", "texts"),
    [
        ([94, 15, 117], 1000, ["9 %", "2 %", "12 %"]),
        ([290, 50, 70], 1000, ["29 %", "5 %", "7 %"]),
        ([3, 0, 397], 1000, ["less than 1 %", "0 %", "40 %"]),
        ([1000, 0], 1000, ["100 %", "0 %"]),
        ([0, 0], 0, ["0 %", "0 %"]),
    ],
)
def test_percentages_of_parts_add_up_to_that_of_their_sum(parts: list[int], whole: int, texts: list[str]) -> None:
    assert percents(parts, whole) == texts


def test_lists_are_cut_with_a_count() -> None:
    assert listed(["a"]) == "a"
    assert listed(["a", "b", "c"]) == "a, b and c"
    assert listed(list("abcdef")) == "a, b, c and 3 more"
    assert (count(1, "job"), count(3, "query", "queries")) == ("1 job", "3 queries")


def test_windows_of_whole_local_days_are_days() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    day = parse_instant("2026-11-29T23:00:00Z")

    assert window_words(WINDOW, berlin) == "16 to 29 Nov 2026"
    assert window_words(Window(day, day + 24 * HOUR_MS), berlin) == "30 Nov 2026"
    assert window_words(Window(day, day + HOUR_MS), berlin) == "30 Nov 00:00 to 30 Nov 2026 01:00"
