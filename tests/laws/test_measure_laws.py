"""Laws of the statistics of a load test: each formula against a second, obvious one."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuyield.measure.backlog import backlog_grows, backlog_slope
from gpuyield.measure.statistics import (
    beta_cdf,
    binomial_lower,
    binomial_upper,
    miss_bounds,
    normal_quantile,
    t_quantile,
)
from gpuyield.verify import batches as checked

batch = st.tuples(st.integers(0, 60), st.integers(0, 60)).map(lambda pair: (max(pair), min(pair)))
batches = st.lists(batch, min_size=8, max_size=40).filter(lambda found: sum(tried for tried, _ in found) > 0)
alphas = st.sampled_from([0.05, 0.025, 0.0125, 0.05 / 3, 0.001])


def at_most(misses: int, size: int, share: Fraction) -> Fraction:
    """P(a binomial count <= misses), exactly."""
    return sum(
        (math.comb(size, k) * share**k * (1 - share) ** (size - k) for k in range(misses + 1)), start=Fraction(0)
    )


@given(size=st.integers(1, 60), data=st.data(), alpha=alphas)
@settings(max_examples=30, deadline=None)
def test_the_exact_upper_bound_is_where_so_few_misses_have_the_probability_alpha(
    size: int, data: st.DataObject, alpha: float
) -> None:
    misses = data.draw(st.integers(0, size - 1))

    bound = binomial_upper(misses, size, alpha)

    assert float(at_most(misses, size, Fraction(bound))) == pytest.approx(alpha, rel=1e-9)


@given(size=st.integers(1, 60), data=st.data(), alpha=alphas)
@settings(max_examples=30, deadline=None)
def test_the_exact_lower_bound_is_where_so_many_misses_have_the_probability_alpha(
    size: int, data: st.DataObject, alpha: float
) -> None:
    misses = data.draw(st.integers(1, size))

    bound = binomial_lower(misses, size, alpha)

    assert float(1 - at_most(misses - 1, size, Fraction(bound))) == pytest.approx(alpha, rel=1e-9)


@pytest.mark.parametrize(("misses", "size"), [(0, 59), (1, 93), (2, 124), (3, 153), (5, 208), (10, 336), (20, 577)])
def test_so_many_requests_with_so_few_misses_show_a_95th_percentile(misses: int, size: int) -> None:
    enough, one_less = binomial_upper(misses, size, 0.05), binomial_upper(misses, size - 1, 0.05)

    assert enough <= 0.05 < one_less


@given(freedom=st.integers(1, 60), alpha=alphas)
@settings(max_examples=40, deadline=None)
def test_the_quantile_of_t_leaves_alpha_of_its_density_above_it(freedom: int, alpha: float) -> None:
    quantile = t_quantile(1 - alpha, freedom)
    angles = np.linspace(0, math.atan(quantile / math.sqrt(freedom)), 20_001)
    density = np.cos(angles) ** (freedom - 1)
    constant = math.exp(math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)) / math.sqrt(math.pi)

    below = 0.5 + constant * float(np.trapezoid(density, angles))

    assert 1 - below == pytest.approx(alpha, rel=1e-5)


def test_the_normal_quantiles_are_those_of_the_tables() -> None:
    found = [normal_quantile(one) for one in (0.95, 0.975, 0.99)]

    assert found == pytest.approx([1.6448536270, 1.9599639845, 2.3263478740], abs=1e-9)


@given(x=st.floats(0.001, 0.999), a=st.floats(0.5, 400), b=st.floats(0.5, 400))
@settings(max_examples=200, deadline=None)
def test_the_incomplete_beta_function_agrees_with_its_power_series(x: float, a: float, b: float) -> None:
    assert beta_cdf(x, a, b) == pytest.approx(checked.beta_series(x, a, b), abs=1e-10)


@given(found=batches, alpha=alphas)
@settings(max_examples=30, deadline=None)
def test_the_bounds_enclose_the_share_and_verify_finds_the_same(found: list[tuple[int, int]], alpha: float) -> None:
    attempts, misses = [tried for tried, _ in found], [missed for _, missed in found]

    bounds = miss_bounds(attempts, misses, alpha=alpha)
    again = checked.miss_bounds(tuple(attempts), tuple(misses), alpha)

    assert 0 <= bounds.lo <= bounds.share <= bounds.hi <= 1
    assert (bounds.lo, bounds.hi) == pytest.approx((again.lo, again.hi), abs=1e-8)
    assert (bounds.n_eff, bounds.inflation) == pytest.approx((again.n_eff, again.inflation), rel=1e-8)


@given(found=batches, alpha=alphas)
@settings(max_examples=30, deadline=None)
def test_the_direction_of_time_does_not_matter(found: list[tuple[int, int]], alpha: float) -> None:
    attempts, misses = [tried for tried, _ in found], [missed for _, missed in found]

    forth, back = miss_bounds(attempts, misses, alpha=alpha), miss_bounds(attempts[::-1], misses[::-1], alpha=alpha)

    assert (forth.lo, forth.hi) == pytest.approx((back.lo, back.hi), abs=1e-9)


@given(levels=st.lists(st.integers(0, 300), min_size=2, max_size=30))
@settings(max_examples=150, deadline=None)
def test_verify_finds_the_same_trend_of_the_backlog(levels: list[int]) -> None:
    assert backlog_grows(levels) == checked.backlog_grows(levels)
    assert backlog_slope(levels) == pytest.approx(checked.backlog_slope(levels), abs=1e-9)


@pytest.mark.parametrize("share", [0.02, 0.05, 0.3])
def test_bounds_on_independent_requests_are_wrong_about_as_often_as_they_may_be(share: float) -> None:
    rng = np.random.default_rng(11)
    attempts = [40] * 15
    counts = rng.binomial(40, share, size=(300, 15))

    found = [miss_bounds(attempts, one.tolist(), alpha=0.05) for one in counts]

    # 300 draws at a rate of 5 % lie below 8.4 % with a probability of 99 %.
    assert np.mean([one.hi < share for one in found]) < 0.084
    assert np.mean([one.lo > share for one in found]) < 0.084


def test_bounds_on_batches_that_share_their_luck_hold_too() -> None:
    rng = np.random.default_rng(12)
    share, spread = 0.05, 4.0
    wave = rng.beta(share * spread, (1 - share) * spread, size=(250, 60))
    counts = rng.binomial(100, wave)

    found = [miss_bounds([100] * 60, one.tolist(), alpha=0.05) for one in counts]

    assert np.mean([one.hi < share for one in found]) < 0.1
    assert np.mean([one.lo > share for one in found]) < 0.085
    assert np.median([one.inflation for one in found]) > 10


def test_a_backlog_that_only_fluctuates_is_rarely_said_to_grow() -> None:
    rng = np.random.default_rng(13)
    noise = rng.normal(0, 5, size=(300, 16))
    levels = np.empty_like(noise)
    levels[:, 0] = noise[:, 0]
    for at in range(1, 16):
        levels[:, at] = 0.5 * levels[:, at - 1] + noise[:, at]

    said = [backlog_grows(np.rint(one + 40).astype(int).tolist()) for one in levels]

    assert np.mean(said) < 0.05


@given(start=st.integers(0, 50), step=st.integers(2, 40), length=st.integers(6, 30))
def test_a_backlog_that_rises_with_every_batch_grows(start: int, step: int, length: int) -> None:
    assert backlog_grows([start + step * at for at in range(length)])
