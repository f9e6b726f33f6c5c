"""Laws of how far two loads are apart, and of what is drawn from a recorded one."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuyield.measure.recorded import DRAWN, Recorded, drawn_pairs, recorded_document, recorded_of_document
from gpuyield.measure.representative import Lengths, Profile, dispersion_of, distance, lengths_of, lengths_of_buckets
from gpuyield.model.document import canonical_bytes
from gpuyield.verify.values import decode

tokens = st.lists(st.integers(1, 4_000), min_size=1, max_size=120)
amounts = st.none() | st.floats(0.001, 1e6)


def exact(values: list[int]) -> Lengths:
    found = lengths_of(np.array(values, np.int64))
    assert found is not None
    return found


@st.composite
def buckets(draw: st.DrawFn) -> Lengths:
    """A histogram of a serving engine: an open end, and 100 requests or more."""
    edges = sorted(draw(st.sets(st.integers(1, 10_000), min_size=1, max_size=12)))
    counts = sorted(draw(st.lists(st.integers(0, 900), min_size=len(edges), max_size=len(edges))))
    found = lengths_of_buckets([*map(float, edges), math.inf], [*map(float, counts), 1_000.0])
    assert found is not None
    return found


lengths = tokens.map(exact) | buckets()
profiles = st.builds(
    Profile, peak_rps=amounts, prompt=st.none() | lengths, output=st.none() | lengths, dispersion=amounts
)


@given(profiles)
def test_a_load_is_no_distance_from_itself(profile: Profile) -> None:
    found = distance(profile, profile)

    assert found.far == ()
    assert found.prompt == (None if profile.prompt is None else 0.0)
    assert found.burst_ratio == (None if profile.dispersion is None else 1.0)


@given(profiles, profiles)
def test_lengths_are_as_far_from_here_as_from_there_and_ratios_turn_over(one: Profile, other: Profile) -> None:
    there, back = distance(one, other), distance(other, one)

    assert (there.prompt, there.output) == (back.prompt, back.output)
    assert there.prompt is None or 0 <= there.prompt <= 1
    for ahead, behind in ((there.burst_ratio, back.burst_ratio), (there.rate_ratio, back.rate_ratio)):
        assert (ahead is None) == (behind is None)
        assert ahead is None or behind is None or ahead * behind == pytest.approx(1)
    assert len(there.far) == len(back.far)


@given(tokens, tokens, tokens)
def test_exact_lengths_keep_the_inequality_of_the_triangle(one: list[int], two: list[int], three: list[int]) -> None:
    first, second, third = (Profile(prompt=exact(values)) for values in (one, two, three))

    direct, left, right = (distance(*pair).prompt for pair in ((first, third), (first, second), (second, third)))

    assert direct is not None
    assert left is not None
    assert right is not None
    assert direct <= left + right + 1e-12


@given(tokens.flatmap(lambda values: st.tuples(st.just(values), st.permutations(values))))
def test_the_order_of_requests_says_nothing_of_their_lengths(both: tuple[list[int], list[int]]) -> None:
    assert exact(both[0]) == exact(both[1])


@given(profiles, st.integers(0, 2**31))
def test_what_is_drawn_from_a_profile_is_near_it_wherever_it_is_known(profile: Profile, seed: int) -> None:
    prompt, output = drawn_pairs(profile, seed=seed)

    for recorded, drawn in ((profile.prompt, prompt), (profile.output, output)):
        if recorded is None:
            assert (drawn == -1).all()
            continue
        assert (drawn >= 1).all()
        for edge, share in zip(recorded.at_most, recorded.share, strict=True):
            if math.isfinite(edge):
                # What lies beyond the last edge of a histogram is drawn at that edge: nothing tells how far it goes.
                beyond = not recorded.exact and edge == recorded.at_most[-2]
                assert beyond or abs((drawn <= edge).mean() - share) <= 1 / DRAWN + 1e-9


@given(st.builds(Recorded, profile=profiles, source=st.text(max_size=20), requests=st.none() | st.integers(0, 10**9)))
def test_what_was_recorded_is_the_same_on_another_machine(recorded: Recorded) -> None:
    sent = canonical_bytes(recorded_document(recorded))

    assert recorded_of_document(decode(sent)) == recorded


@given(st.lists(st.integers(0, 10**9), min_size=100, max_size=400, unique=True), st.integers(2, 50))
def test_bursts_are_the_same_at_any_speed(times: list[int], factor: int) -> None:
    at = np.sort(np.array(times, np.int64))

    slow, fast = dispersion_of(at * factor), dispersion_of(at * factor * 7)

    assert slow == pytest.approx(fast, rel=0.2, abs=0.2), "windows hold as many requests, whatever the unit"


def test_independent_arrivals_vary_as_their_mean_and_even_ones_do_not() -> None:
    rng = np.random.default_rng(1)

    poisson = dispersion_of(np.cumsum(rng.exponential(1e9, 20_000)).astype(np.int64))
    even = dispersion_of(np.arange(20_000, dtype=np.int64) * 10**9)
    bursts = dispersion_of(np.cumsum(rng.gamma(0.25, 4e9, 20_000)).astype(np.int64))

    assert poisson == pytest.approx(1, abs=0.1)
    assert even == pytest.approx(0, abs=0.01)
    assert bursts is not None
    assert bursts > 2.5


@given(profiles)
def test_what_is_not_known_is_no_distance(profile: Profile) -> None:
    found = distance(replace(profile, prompt=None, dispersion=None), profile)

    assert (found.prompt, found.burst_ratio) == (None, None)
    assert not [one for one in found.far if "prompt" in one or "bursty" in one]
