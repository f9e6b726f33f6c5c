"""Runs keep what samples said, in whatever parts and order they came."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gpuyield.collect.runs import Observed, Run, RunKey, Runs, encode, from_columns, merge, not_inside, to_columns
from gpuyield.units import Window

KEY = RunKey("pod_phase", pod="p", detail="Running")
LIMIT_MS = 5
# At one moment one truth: a value is a function of the time, so replicas agree.
samples = st.sets(st.integers(0, 60), min_size=1, max_size=25)
steps = st.lists(st.integers(0, 60), max_size=4)


def observed(times: set[int], changes: list[int]) -> Observed:
    ordered = sorted(times)
    values = [float(sum(at >= change for change in changes)) for at in ordered]
    return Observed(KEY, "m", np.array(ordered, dtype=np.int64), np.array(values))


def covered(runs: Runs) -> set[tuple[int, float]]:
    """(time, value) at each moment from a run's first to its last sample."""
    return {(at, run.value) for run in runs.get(KEY, []) for at in range(run.from_ms, run.to_ms + 1)}


def obvious(times: set[int], changes: list[int]) -> set[tuple[int, float]]:
    """The same moment by moment: known where the sample before and the one after agree and are near."""
    ordered = sorted(times)
    value = {at: float(sum(at >= change for change in changes)) for at in ordered}
    found = set(value.items())
    for before, after in itertools.pairwise(ordered):
        if after - before <= LIMIT_MS and value[before] == value[after]:
            found.update((at, value[before]) for at in range(before, after))
    return found


@given(samples, steps)
def test_runs_say_what_the_samples_said(times: set[int], changes: list[int]) -> None:
    assert covered(encode([observed(times, changes)], gap_limit_ms=LIMIT_MS)) == obvious(times, changes)


@given(samples, samples, steps)
def test_two_replicas_are_one_series(one: set[int], other: set[int], changes: list[int]) -> None:
    together = encode([observed(one, changes), observed(other, changes)], gap_limit_ms=LIMIT_MS)

    assert together == encode([observed(one | other, changes)], gap_limit_ms=LIMIT_MS)


@given(samples, steps, st.integers(0, 60))
def test_a_day_read_in_part_and_then_whole_is_the_day_read_whole(times: set[int], changes: list[int], cut: int) -> None:
    whole = encode([observed(times, changes)], gap_limit_ms=LIMIT_MS)
    part = encode([observed({at for at in times if at < cut}, changes)], gap_limit_ms=LIMIT_MS)

    assert merge(part, whole, gap_limit_ms=LIMIT_MS) == whole


@given(samples, steps, st.integers(0, 60))
def test_what_the_source_forgot_is_kept(times: set[int], changes: list[int], cut: int) -> None:
    whole = encode([observed(times, changes)], gap_limit_ms=LIMIT_MS)
    rest = encode([observed({at for at in times if at >= cut}, changes)], gap_limit_ms=LIMIT_MS)

    assert covered(merge(whole, rest, gap_limit_ms=LIMIT_MS)) == covered(whole)


@given(samples, samples, steps)
def test_uniting_twice_is_uniting_once(one: set[int], other: set[int], changes: list[int]) -> None:
    old, new = (encode([observed(times, changes)], gap_limit_ms=LIMIT_MS) for times in (one, other))

    once = merge(old, new, gap_limit_ms=LIMIT_MS)

    assert merge(once, new, gap_limit_ms=LIMIT_MS) == once


@given(samples, steps)
def test_columns_are_the_runs_again(times: set[int], changes: list[int]) -> None:
    runs = encode([observed(times, changes)], gap_limit_ms=LIMIT_MS)
    columns = {name: np.array(values, dtype=object) for name, values in to_columns(runs).items()}

    assert from_columns(columns) == runs


def test_where_two_readings_differ_the_newer_counts() -> None:
    old = {KEY: [Run(0, 100, 1.0, 10, "m")]}
    new = {KEY: [Run(30, 50, 0.0, 10, "m")]}

    assert merge(old, new, gap_limit_ms=10)[KEY] == [
        Run(0, 20, 1.0, 10, "m"),
        Run(30, 50, 0.0, 10, "m"),
        Run(60, 100, 1.0, 10, "m"),
    ]


def test_runs_wholly_inside_a_window_can_be_left_out() -> None:
    runs = {KEY: [Run(0, 9, 1.0, 1, "m"), Run(10, 19, 0.0, 1, "m"), Run(20, 29, 1.0, 1, "m")]}

    assert not_inside(runs, Window(10, 20)) == {KEY: [Run(0, 9, 1.0, 1, "m"), Run(20, 29, 1.0, 1, "m")]}
