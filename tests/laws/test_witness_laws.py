"""Laws of witnesses: what grew between two pages of a histogram brackets what was really counted."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuyield.measure.witness import growth
from gpuyield.model.witness import Histogram

_EDGES = (0.01, 0.05, 0.1, 0.5, 1.0, math.inf)
_latencies = st.lists(st.floats(0, 3), max_size=40)


def counted(seconds: list[float]) -> Histogram:
    """As a server counts: all that are not above each edge."""
    return Histogram(
        edges_s=_EDGES, counts=tuple(sum(one <= edge for one in seconds) for edge in _EDGES), sum_s=sum(seconds)
    )


@given(_latencies, _latencies)
def test_the_growth_has_the_mean_and_brackets_the_median_of_what_came_between(
    before: list[float], between: list[float]
) -> None:
    seen = growth(counted(before), counted(before + between))

    if not between:
        assert seen is None
        return
    assert seen is not None
    assert seen.n == len(between)
    assert seen.mean_s == pytest.approx(sum(between) / len(between), abs=1e-9)
    lower_median = sorted(between)[(len(between) - 1) // 2]
    assert seen.p50_over_s <= lower_median <= (seen.p50_at_most_s or math.inf)


@given(_latencies, _latencies.filter(bool))
def test_a_counter_that_fell_is_not_known(before: list[float], more: list[float]) -> None:
    assert growth(counted(before + more), counted(before)) is None
