"""What placements leave free, built in one pass."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from gpuyield.plan.instance.board import Steps
from gpuyield.plan.instance.profile import Profile
from gpuyield.plan.instance.schedule import Placement


def profile_of(steps: Sequence[Steps], placed: Iterable[Placement], from_ms: int) -> Profile:
    """What is free from an instant on with these placements, which may hold more than exists."""
    profile = Profile(steps)
    spans: list[tuple[int, int]] = []
    held: list[tuple[int, int, int]] = []
    for one in placed:
        for start_ms, end_ms in one.segments:
            if end_ms > from_ms:
                held += [(len(spans), resource, amount) for resource, amount in one.mode.demand]
                spans.append((start_ms, end_ms))
    within = np.array(spans, dtype=np.int64).reshape(-1, 2)
    starts, ends = np.maximum(within[:, 0], from_ms), within[:, 1]
    rows = np.array(held, dtype=np.int64).reshape(-1, 3)
    old = np.array(profile.times, dtype=np.int64)
    times = np.unique(np.concatenate([old, [from_ms], starts, ends]))
    began, ended = np.searchsorted(times, starts), np.searchsorted(times, ends)
    before = np.searchsorted(old, times, side="right") - 1
    free = []
    for resource, row in enumerate(profile.free):
        mine = rows[rows[:, 1] == resource]
        changes = np.bincount(began[mine[:, 0]], mine[:, 2], len(times)) - np.bincount(
            ended[mine[:, 0]], mine[:, 2], len(times)
        )
        free.append((np.array(row, dtype=np.int64)[before] - np.cumsum(changes.astype(np.int64))).tolist())
    profile.times, profile.free = times.tolist(), free
    return profile
