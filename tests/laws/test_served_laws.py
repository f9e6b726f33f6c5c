"""Laws of what servers counted: growth adds up over five minutes and over any cut of the window, edges bracket it."""

from __future__ import annotations

import math
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuyield.account.served import BIN_MS, REQUESTS, ServingRow, demand_of, kept_of
from gpuyield.collect.serving import growth
from gpuyield.model.declaration import Metric, Objective
from gpuyield.units import MINUTE_MS, Window

_GAP_MS = 5 * MINUTE_MS
_HOUR = Window(0, 60 * MINUTE_MS)
steps = st.lists(st.tuples(st.integers(1_000, _GAP_MS), st.integers(0, 500)), min_size=1, max_size=30)


def counter(rises: list[tuple[int, int]], start_ms: int = 0) -> tuple[list[int], list[float]]:
    """Times and values of a counter that only rises."""
    times, values = [start_ms], [7.0]
    for after_ms, more in rises:
        times.append(times[-1] + after_ms)
        values.append(values[-1] + more)
    return times, values


def grown(times: list[int], values: list[float], window: Window) -> list[tuple[int, int, float]]:
    """With arrays."""
    return growth(np.array(times, dtype=np.int64), np.array(values), window, gap_limit_ms=_GAP_MS)


@given(steps)
def test_all_growth_between_the_first_and_the_last_sample_is_there_once(rises: list[tuple[int, int]]) -> None:
    times, values = counter(rises)

    found = grown(times, values, Window(0, times[-1]))

    assert sum(value for _, _, value in found) == pytest.approx(values[-1] - values[0])
    assert sum(span for _, span, _ in found) == times[-1] - times[0]
    assert all(0 < span <= BIN_MS and start % BIN_MS == 0 for start, span, _ in found)


@given(steps, st.integers(0, 40))
def test_two_windows_count_what_the_whole_one_counts(rises: list[tuple[int, int]], cut: int) -> None:
    times, values = counter(rises)
    middle = min(cut * BIN_MS, times[-1])
    whole = grown(times, values, Window(0, times[-1] + 1))

    parts = [*grown(times, values, Window(0, middle)), *grown(times, values, Window(middle, times[-1] + 1))]

    assert [(start, span) for start, span, _ in parts] == [(start, span) for start, span, _ in whole]
    assert [value for *_, value in parts] == pytest.approx([value for *_, value in whole])


@given(steps, st.integers(0, 29))
def test_a_server_that_began_anew_never_counts_less_than_nothing(rises: list[tuple[int, int]], at: int) -> None:
    times, values = counter(rises)
    restarted = [
        value if place <= at else value - values[min(at, len(values) - 1)] for place, value in enumerate(values)
    ]

    assert all(value >= 0 for *_, value in grown(times, restarted, Window(0, times[-1])))


def test_nothing_is_known_between_samples_further_apart_than_the_gap_limit() -> None:
    found = grown([0, MINUTE_MS, 20 * MINUTE_MS, 21 * MINUTE_MS], [0, 60, 9_000, 9_060], _HOUR)

    assert found == [(0, MINUTE_MS, 60.0), (20 * MINUTE_MS, MINUTE_MS, 60.0)]


@given(st.lists(st.integers(0, 900), min_size=1, max_size=300))
def test_the_peak_is_the_smallest_rate_that_99_of_100_five_minutes_do_not_exceed(counts: list[int]) -> None:
    rows = [
        ServingRow(kind=REQUESTS, pod="p", edge_s=math.inf, from_ms=at * BIN_MS, span_ms=BIN_MS, value=count)
        for at, count in enumerate(counts)
    ]

    found = demand_of(rows, Window(0, len(counts) * BIN_MS))

    assert found is not None
    rates = [count / 300 for count in counts]
    within = sum(rate <= found.peak_rps + 1e-12 for rate in rates)
    below = sum(rate < found.peak_rps - 1e-12 for rate in rates)
    assert within >= 0.99 * len(rates) > below
    assert found.most_rps == pytest.approx(max(rates))


@given(st.lists(st.floats(0, 3), max_size=60), st.integers(1, 3_000))
def test_what_was_really_kept_lies_between_the_edges(seconds: list[float], limit_ms: int) -> None:
    edges = (0.05, 0.1, 0.5, 1.0, 2.5, math.inf)
    rows = [
        ServingRow(
            kind="ttft",
            pod="p",
            edge_s=edge,
            from_ms=0,
            span_ms=BIN_MS,
            value=sum(one <= edge for one in seconds),
        )
        for edge in edges
    ]
    objective = Objective(name="ttft", metric=Metric.TTFT, at_most_us=limit_ms * 1000, share=Decimal("0.95"))

    found = kept_of(objective, rows, _HOUR)

    assert found.whole is not None
    truth = sum(one <= limit_ms / 1000 for one in seconds)
    assert found.whole.n == len(seconds)
    assert found.whole.lo <= truth <= found.whole.hi
