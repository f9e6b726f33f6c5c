"""The accounting against a slow and obvious one, to the millisecond, on clusters of every kind."""

from __future__ import annotations

import random
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from account.oracle import Found, Key, walk
from account.worlds import START, Traits, World, make_world, workload_of
from gpuyield.account import Accounting, account, summarise
from gpuyield.account.summary import KEYS
from gpuyield.ledger import Ledger
from gpuyield.model.cells import CLASSES
from gpuyield.model.declaration import Rules
from gpuyield.model.outcome import JudgedSpan, OutcomeStatus
from gpuyield.model.waterfall import GpuClass
from gpuyield.units import HOUR_MS, MINUTE_MS, Window, merge_windows

RULES = Rules(idle_after_ms=10 * MINUTE_MS)
FREE = (GpuClass.NO_DEMAND, GpuClass.QUOTA_BLOCKED, GpuClass.FRAGMENTED)
NAMES = {GpuClass.BYPASSED: "bypassed", GpuClass.UNEXPLAINED: "unexplained"} | dict.fromkeys(FREE, "free")

ON_GRID = {
    "plain": Traits(),
    "times are printed": Traits(times=1.0),
    "only samples tell": Traits(times=0.0),
    "impossible samples": Traits(impossible=0.03),
    "lost scrapes": Traits(loss=0.15, state_loss=0.15),
    "silences": Traits(outages=2),
    "another interval": Traits(interval_changes=True, state_interval_changes=True, loss=0.05, state_loss=0.05),
    "labels that lag": Traits(lag_ms=96_000),
    "no labels": Traits(labels=False),
    "other metrics": Traits(metrics=("gr", "util", "both", "later", "better")),
    "two exporters": Traits(twice=True),
    "names reused": Traits(names_reused=True),
}
OFF_GRID = {
    "jitter": Traits(grid_ms=1, jitter_ms=9_000),
    "everything at once": Traits(
        grid_ms=1_000,
        jitter_ms=4_000,
        loss=0.05,
        state_loss=0.05,
        outages=3,
        interval_changes=True,
        state_interval_changes=True,
        impossible=0.01,
        metrics=("gr", "util", "both", "later", "better"),
        twice=True,
    ),
    "slices": Traits(kinds=("mig",)),
    "shared cards": Traits(kinds=("shared",)),
    "a mixed cluster": Traits(kinds=("mig", "shared", "whole"), nodes=3, length_ms=5 * HOUR_MS),
}
FLOORS_MS = 300
"""Where figures are no whole milliseconds, each piece may be off by one."""

seeds = st.integers(0, 2**32 - 1)


def around(world: World) -> Window:
    return Window(world.window.from_ms - HOUR_MS, world.window.to_ms + HOUR_MS)


def accounted(
    ledger: Ledger, window: Window, judged: Sequence[JudgedSpan] = (), cuts: Iterable[int] = ()
) -> Accounting:
    return account(ledger, window=window, rules=RULES, judged=judged, cuts=cuts)


def by_key(*found: Accounting) -> dict[Key, int]:
    """GPU time by workload, hour and class, under the oracle's names."""
    sums: Counter[Key] = Counter()
    for one in found:
        cells = one.cells
        columns = (cells.from_ms, cells.owner, cells.gpu_class, cells.gpu_ms)
        for at, owner, number, gpu_ms in zip(*(column.tolist() for column in columns), strict=True):
            workload = cells.owners[owner].workload if owner >= 0 else None
            gpu_class = CLASSES[number]
            sums[workload, at - at % HOUR_MS, NAMES.get(gpu_class, gpu_class.value)] += gpu_ms
    return {key: gpu_ms for key, gpu_ms in sums.items() if gpu_ms}


def differences(found: dict[Key, int], right: Found, tolerance_ms: int) -> dict[Key, tuple[float, int]]:
    return {
        key: (float(right.time.get(key, Fraction(0))), found.get(key, 0))
        for key in {*found, *right.time}
        if abs(right.time.get(key, Fraction(0)) - found.get(key, 0)) > tolerance_ms
    }


def judged_spans(world: World, seed: int) -> list[JudgedSpan]:
    """Attempts of some pods, several at once, on multiples of the grid; some name their pod, some only the workload."""
    chance = random.Random(seed)
    spans = []
    for pod in world.pods:
        for _ in range(chance.choice([0, 1, 3])):
            low, high = sorted(chance.randrange(pod.from_ms - HOUR_MS, pod.to_ms + HOUR_MS) for _ in range(2))
            spans.append(
                JudgedSpan(
                    namespace=pod.namespace,
                    workload=workload_of(pod),
                    pod_uid=chance.choice([None, pod.uid, "another"]),
                    from_ms=low - low % world.traits.grid_ms,
                    to_ms=high - high % world.traits.grid_ms,
                    status=chance.choice(list(OutcomeStatus)),
                    weight=chance.choice([0, 1, 2]),
                )
            )
    return spans


@pytest.mark.parametrize("name", [*ON_GRID, *OFF_GRID])
@given(seed=seeds)
@settings(max_examples=2, deadline=None)
def test_every_class_of_every_workload_and_hour_is_what_the_contract_says(name: str, seed: int) -> None:
    world = make_world(seed, (ON_GRID | OFF_GRID)[name])
    with tempfile.TemporaryDirectory() as folder:
        ledger = world.ledger(Path(folder))

        found = by_key(accounted(ledger, around(world)))
        right = walk(ledger, around(world), RULES)

    assert differences(found, right, 0 if name in ON_GRID else FLOORS_MS) == {}


@given(seed=seeds)
@settings(max_examples=5, deadline=None)
def test_busy_time_goes_to_the_attempts_that_cover_it_by_their_weight(seed: int) -> None:
    world = make_world(seed, Traits())
    judged = judged_spans(world, seed)
    with tempfile.TemporaryDirectory() as folder:
        ledger = world.ledger(Path(folder))

        found = by_key(accounted(ledger, around(world), judged))
        right = walk(ledger, around(world), RULES, judged)

    assert differences(found, right, 0) == {}


@given(seed=seeds, cuts=st.lists(st.integers(-HOUR_MS, 7 * HOUR_MS), min_size=1, max_size=4, unique=True))
@settings(max_examples=5, deadline=None)
def test_cutting_the_window_anywhere_changes_no_figure(seed: int, cuts: list[int]) -> None:
    traits = Traits(kinds=("mig", "shared", "whole"), jitter_ms=5_000, grid_ms=1, loss=0.1, outages=1, impossible=0.01)
    world = make_world(seed, traits)
    judged = judged_spans(world, seed)
    instants = [START + cut for cut in cuts]
    edges = sorted({around(world).from_ms, *instants, around(world).to_ms})
    with tempfile.TemporaryDirectory() as folder:
        ledger = world.ledger(Path(folder))

        whole = by_key(accounted(ledger, around(world), judged))
        parts = by_key(*(accounted(ledger, Window(low, high), judged) for low, high in pairwise(edges)))
        inner = by_key(accounted(ledger, around(world), judged, cuts=instants))

    assert parts == whole
    assert inner == whole


@given(seed=seeds, by=st.lists(st.sampled_from(KEYS), min_size=1, max_size=4, unique=True))
@settings(max_examples=4, deadline=None)
def test_rows_by_any_keys_sum_to_the_cluster(seed: int, by: list[str]) -> None:
    world = make_world(seed, Traits(kinds=("mig", "shared", "whole"), nodes=3, length_ms=5 * HOUR_MS))
    with tempfile.TemporaryDirectory() as folder:
        found = summarise(accounted(world.ledger(Path(folder)), around(world)), by=by)

    for number, leaf in enumerate(found.waterfall.leaves):
        rows = [row.waterfall.leaves[number] for row in found.rows]
        assert sum(one.gpu_ms for one in rows) == leaf.gpu_ms
        assert leaf.lo <= leaf.gpu_ms <= leaf.hi
        # A row's bounds are cut at 0 and at the figure itself, so together they are no tighter than the cluster's.
        assert sum(one.hi for one in rows) >= leaf.hi


@given(seed=seeds)
@settings(max_examples=4, deadline=None)
def test_holders_are_those_of_the_idle_spans(seed: int) -> None:
    world = make_world(seed, Traits(strays=0.0, states=False))
    window = world.window
    with tempfile.TemporaryDirectory() as folder:
        ledger = world.ledger(Path(folder))

        found = {one.workload: one for one in summarise(accounted(ledger, window)).holders}
        spans = walk(ledger, window, RULES).idle

    by_workload: dict[str, list[Window]] = defaultdict(list)
    for workload, _, _, low, high in spans:
        by_workload[workload].append(Window(low, high))
    assert set(found) == set(by_workload)
    for workload, windows in by_workload.items():
        holder = found[workload]
        at_once = max(sum(one.from_ms <= at < one.to_ms for one in windows) for at in (w.from_ms for w in windows))
        assert holder.gpus == at_once
        assert holder.idle_gpu_ms == sum(one.length_ms for one in windows)
        assert holder.longest.length_ms == max(one.length_ms for one in windows)
        going_on = [one for one in windows if one.to_ms > world.state_times[-1]]
        if going_on:
            assert holder.since_ms == min(one.from_ms for one in going_on)
            assert holder.gpus_now >= len(going_on)


@given(seed=seeds)
@settings(max_examples=5, deadline=None)
def test_a_figure_is_measured_only_where_nothing_was_split_bridged_or_unseen(seed: int) -> None:
    silent = make_world(seed, Traits(outages=2, times=1.0))
    with tempfile.TemporaryDirectory() as folder:
        found = summarise(accounted(silent.ledger(Path(folder)), silent.window), by=("hour",))

    for row in found.rows:
        for leaf in row.waterfall.leaves:
            if leaf.gpu_class is GpuClass.UNOBSERVED:
                assert leaf.evidence == ("unknown" if leaf.gpu_ms else "measured") or leaf.hi > 0
            if leaf.gpu_class is GpuClass.UNEXPLAINED and leaf.gpu_ms:
                assert leaf.evidence == "bounded"


def test_windows_of_the_oracle_are_disjoint() -> None:
    world = make_world(7, Traits())
    for pod in world.pods:
        others = [one for one in world.pods if one.node == pod.node and set(one.slots) & set(pod.slots)]
        windows = [Window(one.from_ms, one.to_ms) for one in others]

        assert sum(one.length_ms for one in merge_windows(windows)) == sum(one.length_ms for one in windows)
