"""Rows of GPU time gathered into cells: one per piece between two cuts, owner, flavor, node and class."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict

import numpy as np
import numpy.typing as npt

from gpuyield.account.free import FreeTime
from gpuyield.model.cells import CLASS_INDEX, CLASSES, Cells, Ints, Owner
from gpuyield.model.waterfall import GpuClass
from gpuyield.units import Window

_Key = tuple[Owner | None, str | None, str]


class CellRows:
    """Sums of GPU time by (cut, class) for each owner, flavor and node."""

    def __init__(self, cuts: Ints) -> None:
        self._cuts = cuts
        self._edges = [int(one) for one in cuts]
        self._sums: dict[_Key, list[tuple[Ints, Ints]]] = defaultdict(list)
        self._widened: dict[_Key, dict[int, list[int]]] = defaultdict(dict)

    def add(
        self,
        *,
        from_ms: Ints,
        gpu_class: Ints,
        gpu_ms: Ints,
        lo: Ints,
        hi: Ints,
        bounded: npt.NDArray[np.bool_],
        owner: Owner | None,
        flavor: str | None,
        node: str,
    ) -> None:
        """Add rows; each must lie between two neighbouring cuts."""
        if not len(from_ms):
            return
        slot = np.searchsorted(self._cuts, from_ms, side="right") - 1
        code = slot * len(CLASSES) + gpu_class
        first = int(code.min())
        code -= first
        there = np.flatnonzero(np.bincount(code))
        # Floats hold these sums exactly: they are far below 2**53.
        sums = np.stack([np.bincount(code, weights=column)[there] for column in (gpu_ms, lo, hi, bounded)], axis=1)
        self._sums[owner, flavor, node].append((there + first, sums.astype(np.int64)))

    def add_free(self, found: FreeTime) -> None:
        """Add what nobody held."""
        by_flavor: dict[str | None, list[int]] = defaultdict(list)
        for at, state in enumerate(found.state):
            by_flavor[state.flavor].append(at)
        classes = np.array([CLASS_INDEX[one] for one in found.gpu_class], dtype=np.int64)
        bounded = np.array([state.bounded or state.bridged for state in found.state], dtype=np.bool_)
        for flavor, indices in by_flavor.items():
            chosen = np.array(indices, dtype=np.int64)
            self.add(
                from_ms=found.from_ms[chosen],
                gpu_class=classes[chosen],
                gpu_ms=found.gpu_ms[chosen],
                lo=found.gpu_ms[chosen],
                hi=found.gpu_ms[chosen],
                bounded=bounded[chosen],
                owner=None,
                flavor=flavor,
                node=found.node,
            )

    def add_bounds(
        self,
        span: Window,
        gpu_class: GpuClass,
        *,
        lo: int,
        hi: int,
        owner: Owner | None,
        flavor: str | None,
        node: str,
        bounded: bool,
    ) -> None:
        """Widen the bounds of a class by this many GPUs over a span; `bounded`: by more than a printed second."""
        widened = self._widened[owner, flavor, node]
        number = CLASS_INDEX[gpu_class]
        low = span.from_ms
        slot = bisect_right(self._edges, low) - 1
        while low < span.to_ms:
            high = min(span.to_ms, self._edges[slot + 1]) if slot + 1 < len(self._edges) else span.to_ms
            found = widened.setdefault(slot * len(CLASSES) + number, [0, 0, 0])
            found[0] += lo * (high - low)
            found[1] += hi * (high - low)
            found[2] += bounded
            low, slot = high, slot + 1

    def cells(self) -> Cells:
        """All cells, in the order of owner, flavor, node, time and class."""
        for key, widened in self._widened.items():
            rows = [(0, *amounts) for amounts in widened.values()]
            self._sums[key].append((np.array([*widened], dtype=np.int64), np.array(rows, dtype=np.int64)))
        self._widened.clear()
        keys = sorted(self._sums, key=lambda key: (key[0] is None, key[0] or _NOBODY, key[1] or "", key[2]))
        owners = sorted({key[0] for key in keys if key[0] is not None})
        flavors = sorted({key[1] for key in keys if key[1] is not None})
        nodes = sorted({key[2] for key in keys})
        owner_at = {owner: at for at, owner in enumerate(owners)}
        flavor_at = {flavor: at for at, flavor in enumerate(flavors)}
        node_at = {node: at for at, node in enumerate(nodes)}
        columns: list[list[Ints]] = [[] for _ in range(9)]
        for key in keys:
            codes = np.concatenate([part[0] for part in self._sums[key]])
            amounts = np.concatenate([part[1] for part in self._sums[key]])
            codes, where = np.unique(codes, return_inverse=True)
            sums = np.zeros((len(codes), 4), dtype=np.int64)
            np.add.at(sums, where, amounts)
            count = len(codes)
            owner, flavor, node = key
            for column, values in enumerate(
                (
                    self._cuts[codes // len(CLASSES)],
                    np.full(count, -1 if owner is None else owner_at[owner], dtype=np.int64),
                    np.full(count, -1 if flavor is None else flavor_at[flavor], dtype=np.int64),
                    np.full(count, node_at[node], dtype=np.int64),
                    codes % len(CLASSES),
                    sums[:, 0],
                    sums[:, 1],
                    sums[:, 2],
                    sums[:, 3],
                )
            ):
                columns[column].append(values)
        joined = [np.concatenate(column) if column else np.zeros(0, dtype=np.int64) for column in columns]
        return Cells(
            from_ms=joined[0],
            owner=joined[1],
            flavor=joined[2],
            node=joined[3],
            gpu_class=joined[4],
            gpu_ms=joined[5],
            lo=joined[6],
            hi=joined[7],
            bounded=joined[8] > 0,
            owners=tuple(owners),
            flavors=tuple(flavors),
            nodes=tuple(nodes),
        )


_NOBODY = Owner("", "", "")
