"""Laws of two measurements side by side, on searches in virtual time whose truth is known."""

from __future__ import annotations

import copy
import functools
import math
import os
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuyield.measure.compare import Ratio, ratio_at
from gpuyield.measure.document import Subject, measure_inputs
from gpuyield.measure.search import Settings, search
from gpuyield.measure.shapes import Shape, shapes, true_capacity
from gpuyield.measure.statistics import binomial_lower
from gpuyield.model.measure import Level

Inputs = Mapping[str, Any]
_PAIRS = (("slots", "quality"), ("slots", "bursts"), ("prefill", "tpot"))
_SAMPLED, _FULL = 12, 200
levels = st.sampled_from([0.5, 0.8, 0.9, 0.95, 0.99])


@functools.cache
def shape(name: str) -> Shape:
    return next(one for one in shapes() if one.name == name)


@functools.cache
def measured(name: str, seed: int) -> Inputs:
    """What a search at a shape leaves."""
    at = shape(name)
    settings = Settings(objectives=(at.objective,), level=Level.STANDARD, seed=seed, max_rps=at.guess_rps)
    found = search(at.bench(), at.schedule().arrivals, settings)
    return measure_inputs(Subject(service="s", arrival="poisson", started_at_ms=0), settings, found)


_NAMES, _SEEDS = ("slots", "quality", "bursts"), range(6)
searches = st.builds(measured, st.sampled_from(_NAMES), st.sampled_from(_SEEDS))


@pytest.fixture(autouse=True, scope="module")
def searched() -> None:
    """All searches that examples are built of, before any example is."""
    for name in _NAMES:
        for seed in _SEEDS:
            measured(name, seed)


@given(searches, searches, levels)
def test_the_second_over_the_first_is_the_first_over_the_second_turned_over(
    one: Inputs, other: Inputs, confidence: float
) -> None:
    there, back = ratio_at(one, other, confidence=confidence), ratio_at(other, one, confidence=confidence)

    assert _inverse(there.lo) == pytest.approx(back.hi)
    assert _inverse(there.hi) == pytest.approx(back.lo)


@given(searches, levels)
def test_a_measurement_never_differs_from_itself(one: Inputs, confidence: float) -> None:
    found = ratio_at(one, one, confidence=confidence)

    assert found.lo is None or found.lo <= 1
    assert found.hi is None or found.hi >= 1


@given(searches, searches, levels, levels)
def test_more_confidence_never_claims_more(one: Inputs, other: Inputs, first: float, second: float) -> None:
    low, high = sorted((first, second))
    wide, narrow = ratio_at(one, other, confidence=high), ratio_at(one, other, confidence=low)

    assert _or(wide.lo, 0.0) <= _or(narrow.lo, 0.0) + 1e-12
    assert _or(wide.hi, math.inf) >= _or(narrow.hi, math.inf) - 1e-12


@given(searches, searches, st.integers(2, 40))
def test_a_service_that_was_asked_at_twice_the_rates_sustains_twice_as_much(
    one: Inputs, other: Inputs, factor: int
) -> None:
    faster = copy.deepcopy(dict(other))
    for probe in faster["probes"]:
        probe["rate_rps"] = str(Decimal(probe["rate_rps"]) * factor)

    plain, scaled = ratio_at(one, other, confidence=0.95), ratio_at(one, faster, confidence=0.95)

    assert scaled.lo == (None if plain.lo is None else pytest.approx(plain.lo * factor))
    assert scaled.hi == (None if plain.hi is None else pytest.approx(plain.hi * factor))


@pytest.mark.slow_laws
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("first", "second"), _PAIRS)
def test_the_true_ratio_lies_within_as_often_as_is_promised(first: str, second: str) -> None:
    count = _FULL if os.environ.get("GPUYIELD_LAWS", "full") == "full" else _SAMPLED
    truths = [true_capacity(shape(name), seconds=20_000, seeds=range(3)) for name in (first, second)]
    right = truths[1] / truths[0]

    found = [
        ratio_at(measured(first, 100 + seed), measured(second, 5_000 + seed), confidence=0.95) for seed in range(count)
    ]

    outside = sum(not _holds(one, right) for one in found)
    # Five in a hundred may be wrong; more of them would be seen with a certainty of 99.9 %.
    assert binomial_lower(outside, count, 0.001) <= 0.05, (outside, count, right)
    assert sum(one.lo is not None for one in found) >= 0.4 * count, "not by claiming nothing"


def _holds(found: Ratio, right: float) -> bool:
    """Whether the truth lies within; it is itself simulated, to within half a percent."""
    return _or(found.lo, 0.0) <= right * 1.005 and _or(found.hi, math.inf) >= right * 0.995


def _inverse(value: float | None) -> float | None:
    return None if value is None else 1 / value


def _or(value: float | None, other: float) -> float:
    return other if value is None else value
