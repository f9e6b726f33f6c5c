"""The law of bounds: whatever truly happened between the samples lies within `[lo, hi]`.

The truth is continuous and made first; scrapes of it come with jitter, loss, silences and impossible values. A truth
that is consistent with its samples changes a card, or a node, at most once between two of them.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from account.worlds import Traits, World, make_world, truth
from gpuyield.account import Accounting, account
from gpuyield.model.cells import CLASSES
from gpuyield.model.declaration import Rules
from gpuyield.model.waterfall import BUSY, UNALLOCATED, GpuClass
from gpuyield.units import HOUR_MS, MINUTE_MS, Window
from laws.sizes import size

pytestmark = pytest.mark.sized_laws

RULES = Rules(idle_after_ms=10 * MINUTE_MS)
GROUPS = dict.fromkeys(BUSY, "busy") | dict.fromkeys(UNALLOCATED, "unallocated") | {GpuClass.BYPASSED: "bypassed"}
JITTER_MS = 8_000
EXAMPLES = size(default=4, sample=6, full=40)

KINDS = {
    "times and samples": Traits(grid_ms=1, jitter_ms=JITTER_MS),
    "times are printed": Traits(grid_ms=1, jitter_ms=JITTER_MS, times=1.0),
    "only samples tell": Traits(grid_ms=1, jitter_ms=JITTER_MS, times=0.0),
    "lost scrapes": Traits(grid_ms=1, jitter_ms=JITTER_MS, loss=0.02),
    "silences": Traits(grid_ms=1, jitter_ms=JITTER_MS, times=1.0, outages=2),
    "another interval": Traits(grid_ms=1, jitter_ms=JITTER_MS, interval_changes=True),
    "lost scrapes of state": Traits(grid_ms=1, jitter_ms=JITTER_MS, times=0.2, state_loss=0.1),
    "another interval of state": Traits(grid_ms=1, jitter_ms=JITTER_MS, times=0.2, state_interval_changes=True),
    "everything": Traits(
        grid_ms=1,
        jitter_ms=JITTER_MS,
        loss=0.02,
        state_loss=0.05,
        outages=1,
        interval_changes=True,
        state_interval_changes=True,
    ),
    "impossible samples": Traits(grid_ms=1, jitter_ms=JITTER_MS, impossible=0.02),
    "no labels": Traits(grid_ms=1, jitter_ms=JITTER_MS, labels=False),
    "labels that lag": Traits(grid_ms=1, jitter_ms=JITTER_MS, lag_ms=90_000),
}

Scoped = tuple[str, str | None, int | None, str]
"""Scope, team, hour, class."""


def scopes(team: str | None, hour: int, group: str) -> list[Scoped]:
    """The cluster, the team, the hour, and the team's hour."""
    return [
        ("cluster", None, None, group),
        ("team", team, None, group),
        ("hour", None, hour, group),
        ("team and hour", team, hour, group),
    ]


def bounds(found: Accounting) -> dict[Scoped, tuple[int, int]]:
    low: Counter[Scoped] = Counter()
    high: Counter[Scoped] = Counter()
    cells = found.cells
    columns = (cells.from_ms, cells.owner, cells.gpu_class, cells.lo, cells.hi)
    for at, owner, number, lo, hi in zip(*(column.tolist() for column in columns), strict=True):
        team = cells.owners[owner].team if owner >= 0 else None
        gpu_class = CLASSES[number]
        for scope in scopes(team, at - at % HOUR_MS, GROUPS.get(gpu_class, gpu_class.value)):
            low[scope] += lo
            high[scope] += hi
    return {scope: (low[scope], high[scope]) for scope in {*low, *high}}


def all_seen(world: World) -> bool:
    """Whether each pod, or its times, were seen; of one that came and went in a silence nobody knows the team."""
    return all(
        any(pod.from_ms <= at < (pod.gone_ms if pod.times else pod.to_ms) for at in world.state_times)
        for pod in world.pods
    )


def is_visible(world: World) -> bool:
    """Whether no node was closed wholly between two scrapes that both answered: nobody can see that."""
    closed = [one for node in world.nodes for one in (node.not_ready, node.cordoned, node.unhealthy) if one]
    return not any(
        before < one.from_ms and one.to_ms <= after and after - before <= RULES.gap_limit_ms
        for before, after in pairwise(world.state_times)
        for one in closed
    )


@pytest.mark.parametrize("name", KINDS)
@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=EXAMPLES, deadline=None)
def test_every_truth_behind_the_samples_lies_within_the_bounds(name: str, seed: int) -> None:
    world = make_world(seed, KINDS[name])
    assume(is_visible(world))
    window = Window(world.window.from_ms + 10 * MINUTE_MS, world.window.to_ms - 10 * MINUTE_MS)
    right: Counter[Scoped] = Counter()
    for (team, hour, group), gpu_ms in truth(world, RULES.idle_after_ms, window).items():
        for scope in scopes(team, hour, group):
            right[scope] += gpu_ms

    with tempfile.TemporaryDirectory() as folder:
        found = bounds(account(world.ledger(Path(folder)), window=window, rules=RULES))

    outside = {
        scope: (found.get(scope, (0, 0)), right[scope])
        for scope in {*found, *right}
        if (scope[1] is None or all_seen(world))
        and not found.get(scope, (0, 0))[0] <= right[scope] <= found.get(scope, (0, 0))[1]
    }
    assert outside == {}
