"""The unchanged chain from a URL to cells of the accounting, and cells summed as the truth is."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from e2e.truth import HOUR_MS, Key
from gpuyield.account import Accounting, account
from gpuyield.collect.collect import collect
from gpuyield.collect.endpoint import endpoint
from gpuyield.collect.http import HttpClient
from gpuyield.collect.prometheus import Prometheus
from gpuyield.demo.cluster import Scenario
from gpuyield.ledger import Ledger
from gpuyield.model.cells import CLASSES
from gpuyield.model.declaration import Rules, Teams
from gpuyield.model.waterfall import BUSY, UNALLOCATED, GpuClass
from gpuyield.units import DAY_MS, Window

_BUSY = {one.value for one in BUSY}
_UNALLOCATED = {one.value for one in UNALLOCATED if one is not GpuClass.BYPASSED}


def collected(url: str, window: Window, folder: Path, *, chunk_ms: int | None = None) -> Ledger:
    """A ledger with the window in it, read long after its end."""
    ledger = Ledger.create(folder)
    http = HttpClient(endpoint(product="Prometheus", url=url, declared_at="sources.prometheus"))
    try:
        collect(
            source=Prometheus(http),
            ledger=ledger,
            window=window,
            rules=Rules(),
            now_ms=window.to_ms + DAY_MS,
            chunk_ms=chunk_ms,
        )
    finally:
        http.close()
    return ledger


_COLLECTED: dict[str, Ledger] = {}


def collected_once(url: str, scenario: Scenario, folders: pytest.TempPathFactory) -> Ledger:
    """The ledger of a scenario behind a URL, collected by the first test that asks."""
    if url not in _COLLECTED:
        _COLLECTED[url] = collected(url, scenario.window, folders.mktemp("ledger"))
    return _COLLECTED[url]


def accounted(ledger: Ledger, window: Window) -> Accounting:
    """The accounting of the window, teams by label."""
    return account(ledger, window=window, rules=Rules(), teams=Teams(label="team"))


@dataclass(slots=True)
class Bounds:
    """A figure and the bounds that the truth should lie in."""

    gpu_ms: int = 0
    lo: int = 0
    hi: int = 0


def by_class(accounting: Accounting) -> dict[Key, Counter[str]]:
    """GPU-ms of each team and hour, in the classes of the truth; without empty ones."""
    sums: dict[Key, Counter[str]] = {}
    cells = accounting.cells
    for at, owner, gpu_class, gpu_ms in zip(
        cells.from_ms.tolist(), cells.owner.tolist(), cells.gpu_class.tolist(), cells.gpu_ms.tolist(), strict=True
    ):
        if gpu_ms:
            team = cells.owners[owner].team if owner >= 0 else None
            sums.setdefault((team, at - at % HOUR_MS), Counter())[true_class(CLASSES[gpu_class])] += gpu_ms
    return sums


def bounds_by_class(accounting: Accounting) -> dict[str, Bounds]:
    """The cluster's totals with their bounds, in the classes of the truth."""
    cells = accounting.cells
    sums: dict[str, Bounds] = {}
    for number, gpu_class in enumerate(CLASSES):
        rows = cells.gpu_class == number
        total = sums.setdefault(true_class(gpu_class), Bounds())
        total.gpu_ms += int(np.sum(cells.gpu_ms[rows]))
        total.lo += int(np.sum(cells.lo[rows]))
        total.hi += int(np.sum(cells.hi[rows]))
    return sums


Scope = tuple[str, str | None, int | None, str]
"""What it is of (cluster, team, hour, team and hour), the team, the hour, and the class."""


def scopes(team: str | None, hour: int, name: str) -> list[Scope]:
    """All that a figure of a team's hour counts for."""
    return [
        ("cluster", None, None, name),
        ("team", team, None, name),
        ("hour", None, hour, name),
        ("team and hour", team, hour, name),
    ]


def bounds_by_scope(accounting: Accounting, hours: range) -> dict[Scope, tuple[int, int]]:
    """Bounds of the cluster, of teams, of hours and of teams in hours; of these hours alone."""
    low: Counter[Scope] = Counter()
    high: Counter[Scope] = Counter()
    cells = accounting.cells
    columns = (cells.from_ms, cells.owner, cells.gpu_class, cells.lo, cells.hi)
    for at, owner, number, lo, hi in zip(*(column.tolist() for column in columns), strict=True):
        if at - at % HOUR_MS in hours:
            team = cells.owners[owner].team if owner >= 0 else None
            for scope in scopes(team, at - at % HOUR_MS, true_class(CLASSES[number])):
                low[scope] += lo
                high[scope] += hi
    return {scope: (low[scope], high[scope]) for scope in low | high}


def busy_bounds_by_workload(accounting: Accounting) -> dict[tuple[str, str], tuple[int, int]]:
    """Bounds of busy GPU-ms by namespace and workload."""
    cells = accounting.cells
    found: dict[tuple[str, str], tuple[int, int]] = {}
    for owner, number, lo, hi in zip(
        cells.owner.tolist(), cells.gpu_class.tolist(), cells.lo.tolist(), cells.hi.tolist(), strict=True
    ):
        if owner >= 0 and true_class(CLASSES[number]) == "busy":
            workload = cells.owners[owner].namespace, cells.owners[owner].workload
            low, high = found.get(workload, (0, 0))
            found[workload] = low + lo, high + hi
    return found


def busy_by_workload(accounting: Accounting) -> Counter[tuple[str, str]]:
    """Busy GPU-ms by namespace and workload."""
    cells = accounting.cells
    busy: Counter[tuple[str, str]] = Counter()
    for owner, gpu_class, gpu_ms in zip(
        cells.owner.tolist(), cells.gpu_class.tolist(), cells.gpu_ms.tolist(), strict=True
    ):
        if owner >= 0 and true_class(CLASSES[gpu_class]) == "busy":
            busy[cells.owners[owner].namespace, cells.owners[owner].workload] += gpu_ms
    return busy


def held_by_uid(accounting: Accounting, window: Window) -> dict[str, int]:
    """How long each pod held its devices within the window."""
    held = {}
    for one in accounting.pods.holdings:
        piece = Window(one.from_ms, one.to_ms).cut(window)
        held[one.uid] = piece.length_ms if piece else 0
    return held


def true_class(gpu_class: GpuClass) -> str:
    """The name by which the truth knows a leaf: all of busy is one, and all that is free but not bypassed."""
    if gpu_class.value in _BUSY:
        return "busy"
    if gpu_class.value in _UNALLOCATED:
        return "unallocated"
    return "bypassed" if gpu_class is GpuClass.BYPASSED else gpu_class.value


def differences(found: dict[Key, Counter[str]], expected: dict[Key, Counter[str]]) -> list[str]:
    """Where two waterfalls differ, readably."""
    lines = []
    for key in sorted({*found, *expected}, key=lambda one: (one[1], one[0] or "")):
        left, right = found.get(key, Counter()), expected.get(key, Counter())
        lines += [
            f"{key[0]} at {key[1]}: {name} found {left[name]}, true {right[name]}"
            for name in sorted({*left, *right})
            if left[name] != right[name]
        ]
    return lines
