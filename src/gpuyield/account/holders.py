"""Who holds whole GPUs that are idle: how many, since when, and for how long at most."""

from __future__ import annotations

from collections import defaultdict

from gpuyield.account.account import Accounting
from gpuyield.account.pieces import Idle
from gpuyield.model.cells import Owner
from gpuyield.model.waterfall import Holder
from gpuyield.units import Window

# A span that ends this close to the end of what was read is still going on: scrapes come some seconds apart.
_STILL_MS = 300_000


def idle_holders(accounting: Accounting) -> tuple[Holder, ...]:
    """Holders of idle GPUs in the window, most idle GPU time first."""
    spans: dict[tuple[Owner, str | None], list[Idle]] = defaultdict(list)
    for one in accounting.idle:
        # Its start may lie before what was read of the node.
        state = accounting.nodes.at(one.track.holding.node, one.window.to_ms - 1)
        spans[one.track.holding.owner, state.flavor if state else None].append(one)
    end_ms = min(accounting.window.to_ms, accounting.observed[-1].to_ms if accounting.observed else 0)
    holders = []
    for (owner, flavor), found in spans.items():
        inside = [cut for one in found if (cut := one.window.cut(accounting.window)) is not None]
        now = [one for one in found if one.window.from_ms < end_ms and one.window.to_ms + _STILL_MS >= end_ms]
        since = min(now, key=lambda one: one.window.from_ms, default=None)
        longest = max(found, key=lambda one: (one.window.length_ms, -one.window.from_ms))
        holders.append(
            Holder(
                namespace=owner.namespace,
                workload=owner.workload,
                team=owner.team,
                flavor=flavor,
                gpus=most_at_once(inside),
                idle_gpu_ms=sum(window.length_ms for window in inside),
                since_ms=since.window.from_ms if since else None,
                gpus_now=len({one.track.device.key for one in now if one.track.device}),
                open_start=since.open_start if since else longest.open_start,
                longest=longest.window,
            )
        )
    return tuple(sorted(holders, key=lambda one: (-one.idle_gpu_ms, one.namespace, one.workload, one.flavor or "")))


def most_at_once(windows: list[Window]) -> int:
    """The largest number of windows that hold at one instant."""
    edges = sorted([(window.from_ms, 1) for window in windows] + [(window.to_ms, -1) for window in windows])
    level = highest = 0
    for _, change in edges:
        level += change
        highest = max(highest, level)
    return highest
