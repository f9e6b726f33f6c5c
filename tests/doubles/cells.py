"""Cells of the accounting written by hand, for rooms that read them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from gpuyield.model.cells import CLASS_INDEX, Cells, Owner
from gpuyield.model.waterfall import GpuClass


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One cell; the owner as `team/namespace/workload`, None for nobody."""

    owner: str | None
    flavor: str | None
    gpu_class: GpuClass
    gpu_ms: int
    from_ms: int = 0
    node: str | None = None


def cells_of(listed: Iterable[Cell]) -> Cells:
    """The same cells as columns."""
    rows = list(listed)
    owners = sorted({owner_of(one.owner) for one in rows if one.owner is not None})
    flavors = sorted({one.flavor for one in rows if one.flavor is not None})
    nodes = sorted({one.node for one in rows if one.node is not None})

    def ints(values: Iterable[int]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        return np.fromiter(values, dtype=np.int64, count=len(rows))

    gpu_ms = ints(one.gpu_ms for one in rows)
    return Cells(
        from_ms=ints(one.from_ms for one in rows),
        owner=ints(owners.index(owner_of(one.owner)) if one.owner is not None else -1 for one in rows),
        flavor=ints(flavors.index(one.flavor) if one.flavor is not None else -1 for one in rows),
        node=ints(nodes.index(one.node) if one.node is not None else -1 for one in rows),
        gpu_class=ints(CLASS_INDEX[one.gpu_class] for one in rows),
        gpu_ms=gpu_ms,
        lo=gpu_ms,
        hi=gpu_ms,
        bounded=np.zeros(len(rows), dtype=np.bool_),
        owners=tuple(owners),
        flavors=tuple(flavors),
        nodes=tuple(nodes),
    )


def owner_of(text: str) -> Owner:
    """The owner that `team/namespace/workload` names."""
    team, namespace, workload = text.split("/")
    return Owner(namespace=namespace, workload=workload, team=team)
