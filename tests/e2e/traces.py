"""Public traces as what kube-state-metrics and an exporter would have printed of them."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any  # rows of a SQL engine have no narrower type

import duckdb
import numpy as np

from gpuyield.demo.cluster import Node, Pod, Scenario, Scrapes
from gpuyield.demo.exposition import Series
from gpuyield.units import Window

OPENB_EPOCH_MS = 1_700_006_400_000
"""A midnight that stands for second 0 of the pod trace."""

STATE_EVERY_MS = 240_000
"""How often kube-state-metrics is scraped in the replays: seldom, and still within the gap limit."""

Samples = dict[str, list[tuple[int, float]]]
"""Container -> (epoch ms, duty cycle in percent), in order."""


def openb_scenario(folder: Path, *, from_s: int, to_s: int) -> Scenario:
    """The whole-GPU pods of the Alibaba 2023 trace in a span, packed first fit on nodes of its node table."""
    rows = _rows(
        f"select name, num_gpu, qos, pod_phase, creation_time, scheduled_time, deletion_time"
        f" from '{folder / 'alibaba_gpu2023_openb_pods.parquet'}'"
        f" where num_gpu >= 1 and gpu_milli = 1000 and creation_time < {to_s} and deletion_time > {from_s}"
        f" order by coalesce(scheduled_time, creation_time), name"
    )
    sizes = _rows(
        f"select gpu, model, sn from '{folder / 'alibaba_gpu2023_openb_gpu_nodes.parquet'}' where gpu = 8 order by sn"
    )
    packing = _Packing([(sn, model, int(gpu)) for gpu, model, sn in sizes])
    pods = [packing.pod(*row, until_s=to_s) for row in rows]
    window = Window(OPENB_EPOCH_MS + from_s * 1000, OPENB_EPOCH_MS + to_s * 1000)
    nodes = packing.used()
    return Scenario(
        seed=0,
        window=window,
        grid=True,
        nodes=nodes,
        pods=tuple(pods),
        jobs=(),
        services=(),
        outcomes=(),
        verdicts=(),
        activity={card: () for node in nodes for card in node.cards},
        silences=(),
        scrapes=Scrapes(interval_ms=STATE_EVERY_MS),
    )


class _Packing:
    def __init__(self, nodes: list[tuple[str, str, int]]) -> None:
        self._nodes = nodes
        self._free_from: dict[str, list[int]] = {sn: [-1] * gpus for sn, _, gpus in nodes}
        self._used: set[str] = set()

    def pod(
        self,
        name: str,
        gpus: int,
        qos: str,
        phase: str,
        created_s: int,
        scheduled_s: float | None,
        deleted_s: int,
        *,
        until_s: int,
    ) -> Pod:
        ends_itself = phase in ("Succeeded", "Failed")
        placed_s = None if scheduled_s is None or scheduled_s >= until_s else int(scheduled_s)
        node, cards = (None, ()) if placed_s is None else self._take(gpus, placed_s, deleted_s)
        over_ms = OPENB_EPOCH_MS + deleted_s * 1000 if deleted_s < until_s else None
        placed_ms = None if placed_s is None else OPENB_EPOCH_MS + placed_s * 1000
        return Pod(
            namespace=qos.lower(),
            name=name,
            uid=f"uid-{name}",
            owner_kind="StatefulSet",
            owner=f"{qos.lower()}-work",
            gpus=gpus,
            node=node,
            cards=cards,
            created_ms=OPENB_EPOCH_MS + created_s * 1000,
            scheduled_ms=placed_ms,
            running_ms=placed_ms,
            ended_ms=over_ms,
            end_phase=phase if ends_itself and over_ms is not None else "",
            # What ends by itself is kept for ten minutes more.
            deleted_ms=None if over_ms is None else over_ms + 600_000 * ends_itself,
        )

    def used(self) -> tuple[Node, ...]:
        return tuple(
            Node(name=sn, flavor=model, product=model, memory_mib=0, cards=tuple(f"{sn}/{at}" for at in range(gpus)))
            for sn, model, gpus in self._nodes
            if sn in self._used
        )

    def _take(self, gpus: int, from_s: int, to_s: int) -> tuple[str, tuple[str, ...]]:
        for sn, _, _ in self._nodes:
            free = [at for at, until_s in enumerate(self._free_from[sn]) if until_s <= from_s]
            if len(free) >= gpus:
                for at in free[:gpus]:
                    self._free_from[sn][at] = to_s
                self._used.add(sn)
                return sn, tuple(f"{sn}/{at}" for at in free[:gpus])
        raise ValueError("the nodes of the trace do not hold its pods")


def duty_cycles(folder: Path) -> Samples:
    """GPU duty cycles of the Alibaba 2026 generative fleet, as sampled: every 57 s, some samples lost."""
    rows = _rows(
        f"select container_ip, timestamp_anon, value from '{folder / 'alibaba_genai2026_gpu_duty_cycle.parquet'}'"
        " order by container_ip, timestamp_anon"
    )
    samples: Samples = defaultdict(list)
    for container, at_s, value in rows:
        samples[container].append((int(at_s * 1000), float(value)))
    return samples


def duty_scenario(samples: Samples, window: Window) -> Scenario:
    """One pod with one card for each container, on nodes of eight, there throughout."""
    containers = sorted(samples)
    nodes = tuple(
        Node(
            name=f"gen-{first // 8:02d}",
            flavor="gen",
            product="NVIDIA-A10",
            memory_mib=24_000,
            cards=tuple(f"GPU-{name}" for name in containers[first : first + 8]),
        )
        for first in range(0, len(containers), 8)
    )
    pods = tuple(
        Pod(
            namespace="generate",
            name=f"worker-{name}",
            uid=f"uid-{name}",
            owner_kind="StatefulSet",
            owner=f"worker-{name}",
            gpus=1,
            node=f"gen-{number // 8:02d}",
            cards=(f"GPU-{name}",),
            created_ms=window.from_ms - 86_400_000,
            scheduled_ms=window.from_ms - 86_400_000,
            running_ms=window.from_ms - 86_400_000,
        )
        for number, name in enumerate(containers)
    )
    return Scenario(
        seed=0,
        window=window,
        grid=True,
        nodes=nodes,
        pods=pods,
        jobs=(),
        services=(),
        outcomes=(),
        verdicts=(),
        activity={card: () for node in nodes for card in node.cards},
        silences=(),
        scrapes=Scrapes(interval_ms=STATE_EVERY_MS),
    )


def duty_series(samples: Samples) -> list[Series]:
    """The duty cycles as DCGM's utilisation in percent, at the instants of the trace."""
    return [
        Series(
            {
                "__name__": "DCGM_FI_DEV_GPU_UTIL",
                "UUID": f"GPU-{name}",
                "gpu": str(number % 8),
                "Hostname": f"gen-{number // 8:02d}",
                "namespace": "generate",
                "pod": f"worker-{name}",
                "container": "main",
            },
            np.array([at_ms for at_ms, _ in samples[name]], dtype=np.int64),
            np.array([value for _, value in samples[name]]),
        )
        for number, name in enumerate(sorted(samples))
    ]


def expected_duty(samples: list[tuple[int, float]], window: Window) -> dict[str, float]:
    """Busy, underused, idle and unobserved ms of one card by the contract's rule, sample by sample.

    A sample holds until the next within five minutes, else for the median spacing; its busy part is whole
    milliseconds; below 5 % for half an hour without a break is idle.
    """
    # The day that begins at the window's end is not read.
    samples = [sample for sample in samples if sample[0] < window.to_ms]
    spacings = sorted(after[0] - before[0] for before, after in pairwise(samples))
    median = (spacings[(len(spacings) - 1) // 2] + spacings[len(spacings) // 2]) / 2
    held: list[tuple[float, float, float]] = []
    for number, (at_ms, value) in enumerate(samples):
        next_ms = samples[number + 1][0] if number + 1 < len(samples) else float("inf")
        held.append((at_ms, next_ms if next_ms - at_ms <= 300_000 else at_ms + median, value))
    idle: list[bool] = [False] * len(held)
    first = 0
    while first < len(held):
        last = first
        if held[first][2] < 5:
            while last + 1 < len(held) and held[last + 1][2] < 5 and held[last][1] == held[last + 1][0]:
                last += 1
            if held[last][1] - held[first][0] >= 1_800_000:
                idle[first : last + 1] = [True] * (last + 1 - first)
        first = last + 1
    sums = {"busy": 0.0, "underused": 0.0, "idle_held": 0.0}
    for (low, high, value), is_idle in zip(held, idle, strict=True):
        length = max(0.0, min(high, window.to_ms) - max(low, window.from_ms))
        if is_idle:
            sums["idle_held"] += length
        else:
            busy = length * value // 100
            sums["busy"] += busy
            sums["underused"] += length - busy
    return sums | {"unobserved": window.length_ms - sum(sums.values())}


def _rows(sql: str) -> list[tuple[Any, ...]]:
    with duckdb.connect() as connection:
        return connection.execute(sql).fetchall()
