"""Free capacity over time: the earliest fit is the one that trying every start finds, however many resources count."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gpuyield.plan.instance.board import Mode
from gpuyield.plan.instance.profile import NEVER, Profile

RESOURCES = 3
amounts = st.integers(0, 6)
steps = st.lists(st.tuples(st.integers(0, 60), amounts), max_size=6, unique_by=lambda one: one[0]).map(
    lambda found: tuple(sorted(found))
)
demands = st.lists(st.tuples(st.integers(0, RESOURCES - 1), st.integers(1, 5)), min_size=1, max_size=3).map(
    lambda found: tuple(sorted(dict(found).items()))
)
held = st.lists(st.tuples(demands, st.integers(0, 60), st.integers(1, 20)), max_size=5)


def tried(profile: Profile, mode: Mode, first_ms: int, last_ms: int) -> int | None:
    """The first of all starts at which anything changes, and of the first one, at which it fits."""
    starts = sorted({first_ms, *(at for at in profile.times if first_ms < at <= last_ms)})
    found = (at for at in starts if at <= last_ms and profile.fits(mode.demand, at, at + mode.duration_ms))
    return next(found, None)


@given(st.tuples(steps, steps, steps), held, demands, st.integers(1, 30), st.integers(0, 80), st.integers(0, 80))
def test_the_earliest_fit_is_the_first_of_all_starts_that_fits(
    capacity: tuple[tuple[tuple[int, int], ...], ...],
    taken: list[tuple[tuple[tuple[int, int], ...], int, int]],
    demand: tuple[tuple[int, int], ...],
    duration_ms: int,
    first_ms: int,
    room_ms: int,
) -> None:
    profile = Profile(capacity)
    for of, start_ms, length_ms in taken:
        profile.reserve(of, start_ms, start_ms + length_ms)
    mode = Mode(shape=0, demand=demand, duration_ms=duration_ms, gpus=1)

    for last_ms in (first_ms + room_ms, NEVER):
        assert profile.earliest(mode, first_ms, last_ms) == tried(profile, mode, first_ms, last_ms)
