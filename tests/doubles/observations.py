"""A ledger written by hand: nodes, pods and cards as a collector would have stored them."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any  # rows of mixed types

from gpuyield.ledger import Ledger
from gpuyield.ledger.tables import RUNS, SAMPLES, SCRAPES, SERIES, Activity, RunKind
from gpuyield.units import DAY_MS, MINUTE_MS, Window, day_name, parse_instant

DAY = parse_instant("2026-11-10T00:00:00Z")
"""The day on which most tests play."""


def at(clock: str, day: int = 0) -> int:
    """An instant of the tests' day, such as `at("10:05")`."""
    hour, minute = (int(part) for part in clock.split(":"))
    return DAY + day * DAY_MS + (hour * 60 + minute) * MINUTE_MS


def span(from_clock: str, to_clock: str) -> Window:
    """A window of the tests' day."""
    return Window(at(from_clock), at(to_clock))


@dataclass(slots=True)
class Observations:
    """Rows to be written; every series has a sample each `every_ms`."""

    every_ms: int = MINUTE_MS
    _rows: dict[tuple[str, str], list[dict[str, Any]]] = field(default_factory=lambda: defaultdict(list))

    def run(self, kind: RunKind, window: Window, *, value: float = 1.0, **columns: str) -> None:
        """A series that shows one value with samples in `[from, to)` of the window."""
        last = window.from_ms + (window.length_ms - 1) // self.every_ms * self.every_ms
        start = window.from_ms
        while start <= last:
            day_end = start - start % DAY_MS + DAY_MS
            end = min(last, start + (day_end - 1 - start) // self.every_ms * self.every_ms)
            row: dict[str, Any] = dict.fromkeys(
                ("node", "namespace", "pod", "uid", "container", "resource", "detail", "text", "name"), ""
            )
            row |= {"kind": kind.value, "value": value, "from_ms": start, "to_ms": end, "interval_ms": self.every_ms}
            self._rows[RUNS.name, day_name(start)].append(row | columns)
            start = end + self.every_ms

    def node(
        self,
        name: str,
        window: Window,
        *,
        cards: int | None = None,
        allocatable: int | None = None,
        resources: Mapping[str, int] | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> None:
        """A node: whole cards, or any resources; labels as `gpu.count` and so on."""
        offered = dict(resources or {})
        if cards is not None:
            offered["nvidia_com_gpu"] = cards
        for resource, amount in offered.items():
            self.run(RunKind.NODE_CAPACITY, window, node=name, resource=resource, value=amount)
            usable = allocatable if allocatable is not None and resource == "nvidia_com_gpu" else amount
            self.run(RunKind.NODE_ALLOCATABLE, window, node=name, resource=resource, value=usable)
        for key, text in (labels or {}).items():
            self.run(RunKind.NODE_LABEL, window, node=name, detail=key, text=text)

    def pod(
        self,
        name: str,
        window: Window,
        *,
        node: str = "node-a",
        devices: int = 1,
        resource: str = "nvidia_com_gpu",
        namespace: str = "team-a",
        uid: str | None = None,
        created: int | None = None,
        running: int | None = None,
        times: bool = True,
        listed_until: int | None = None,
        phase_after: str = "Succeeded",
        owner: tuple[str, str] | None = None,
    ) -> None:
        """A pod that is bound over the window and runs from `running` (default: at once).

        With `listed_until` it stays listed as finished; `times` says whether its times are printed.
        """
        who: dict[str, Any] = {"namespace": namespace, "pod": name, "uid": f"uid-{name}" if uid is None else uid}
        began = window.from_ms if running is None else running
        listed = Window(window.from_ms, listed_until or window.to_ms)
        self.run(RunKind.POD_REQUEST, listed, node=node, container="main", resource=resource, value=devices, **who)
        if began > window.from_ms:
            self.run(RunKind.POD_PHASE, Window(window.from_ms, began), detail="Pending", **who)
            self.run(RunKind.POD_PHASE, Window(began, listed.to_ms), detail="Pending", value=0, **who)
        if began < window.to_ms:
            self.run(RunKind.POD_PHASE, Window(began, window.to_ms), detail="Running", **who)
        if listed.to_ms > window.to_ms:
            after = Window(window.to_ms, listed.to_ms)
            self.run(RunKind.POD_PHASE, after, detail="Running", value=0, **who)
            self.run(RunKind.POD_PHASE, after, detail=phase_after, **who)
        if owner:
            self.run(RunKind.POD_OWNER, listed, detail=owner[0], text=owner[1], **who)
        if created is not None:
            self.run(RunKind.POD_CREATED, listed, value=created, **who)
        if times:
            self.run(RunKind.POD_SCHEDULED, listed, value=window.from_ms, **who)
            if began < window.to_ms:
                self.run(RunKind.CONTAINER_STARTED, Window(began, listed.to_ms), value=began, **who)
            if listed.to_ms > window.to_ms:
                self.run(RunKind.POD_COMPLETED, Window(window.to_ms, listed.to_ms), value=window.to_ms, **who)

    def waiting(self, name: str, window: Window, *, devices: int = 1, namespace: str = "team-a") -> None:
        """A pod that asks for devices and is placed nowhere."""
        who: dict[str, Any] = {"namespace": namespace, "pod": name, "uid": f"uid-{name}"}
        self.run(
            RunKind.POD_REQUEST, window, container="main", resource="nvidia_com_gpu", value=devices, node="", **who
        )
        self.run(RunKind.POD_PHASE, window, detail="Pending", **who)
        self.run(RunKind.POD_CREATED, window, value=window.from_ms, **who)

    def activity(
        self,
        card: str,
        steps: Sequence[tuple[int, int, float]],
        *,
        node: str = "node-a",
        pod: str = "",
        namespace: str = "team-a",
        metric: Activity = Activity.GR_ENGINE_ACTIVE,
        instance: str = "",
        profile: str = "",
        vgpu: str = "",
    ) -> None:
        """Samples of one series: in each `[from, to)` the ratio, every `every_ms` (NaN: what cannot be true)."""
        labels = {
            "metric": metric.value,
            "name": f"TEST_{metric.value}",
            "card": card,
            "instance": instance,
            "profile": profile,
            "slot": "",
            "node": node,
            "namespace": namespace if pod else "",
            "pod": pod,
            "uid": "",
            "container": "",
            "vgpu": vgpu,
            "model": "",
            "source": "test",
        }
        number = int.from_bytes(hashlib.sha256(repr(sorted(labels.items())).encode()).digest()[:7], "big")
        for from_ms, to_ms, ratio in steps:
            for ts_ms in range(from_ms, to_ms, self.every_ms):
                self._rows[SAMPLES.name, day_name(ts_ms)].append({"series": number, "ts_ms": ts_ms, "value": ratio})
                series = self._rows[SERIES.name, day_name(ts_ms)]
                if not any(row["series"] == number for row in series):
                    series.append({"series": number, **labels})

    def scraped(self, times_ms: Iterable[int], *, target: str = "ksm:8080") -> None:
        """When a target that tells the cluster's state answered."""
        for at_ms in times_ms:
            self._rows[SCRAPES.name, day_name(at_ms)].append({"target": target, "ts_ms": at_ms})

    def ledger(self, folder: Path) -> Ledger:
        """A ledger that holds these rows."""
        made = Ledger.create(folder)
        tables = {table.name: table for table in (RUNS, SAMPLES, SCRAPES, SERIES)}
        for (name, day), rows in self._rows.items():
            table = tables[name]
            made.replace_day(table, day, {column: [row[column] for row in rows] for column in table.columns})
        return made
