"""Where idle spans truly began: day by day back from the first day that was read for the window."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from gpuyield.account.activity import PPB, Device, DeviceKey, read_devices
from gpuyield.account.pieces import Idle
from gpuyield.ledger import Ledger
from gpuyield.ledger.tables import SAMPLES
from gpuyield.model.declaration import Rules
from gpuyield.units import Window


def began_earlier(ledger: Ledger, idle: Sequence[Idle], days: Sequence[str], rules: Rules) -> list[Idle]:
    """The same spans, with the start of those that go back beyond what was read found in earlier days.

    `open_start` stays where a span goes back to the first sample that the ledger has of its device.
    """
    found = list(idle)
    earlier = [day for day in ledger.days(SAMPLES) if days and day < days[0]]
    open_at = [at for at, one in enumerate(found) if one.open_start]
    while open_at and earlier:
        day = earlier.pop()
        devices = read_devices(
            ledger,
            [day],
            gap_limit_ms=rules.gap_limit_ms,
            idle_after_ms=rules.idle_after_ms,
            pod_nodes={},
            known_nodes={found[at].track.holding.node for at in open_at},
        )
        by_key = {one.key: one for one in devices.devices}
        still = []
        for at in open_at:
            found[at] = _earlier(found[at], by_key, rules)
            if found[at].open_start:
                still.append(at)
        open_at = still
    return found


def _earlier(one: Idle, devices: dict[DeviceKey, Device], rules: Rules) -> Idle:
    """The span moved back through one day; its start stays open while every sample of the day belongs to it."""
    device = devices.get(one.track.device.key) if one.track.device else None
    if device is None:
        return replace(one, open_start=False)
    begin_ms = max(one.track.holding.running_ms or 0, one.track.holding.from_ms)
    before = device.start_ms < one.window.from_ms
    start, end, ppb = device.start_ms[before], device.end_ms[before], device.ppb[before]
    if not len(start) or one.window.from_ms - int(start[-1]) > rules.gap_limit_ms:
        return replace(one, open_start=False)
    end[-1] = one.window.from_ms
    below = (ppb >= 0) & (ppb < int(rules.activity_threshold * PPB)) & (start >= begin_ms)
    joined = np.append(end[:-1] == start[1:], True)
    broken = np.flatnonzero(~(below & joined))
    first = int(broken[-1]) + 1 if len(broken) else 0
    if first >= len(start):
        return replace(one, open_start=False)
    window = Window(int(start[first]), one.window.to_ms)
    return Idle(track=one.track, window=window, open_start=first == 0)
