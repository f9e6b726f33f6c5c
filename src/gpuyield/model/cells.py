"""The finest figures of the accounting: GPU time per hour, owner, flavor, node and class."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gpuyield.model.waterfall import GpuClass

CLASSES = tuple(GpuClass)
CLASS_INDEX = {one: at for at, one in enumerate(CLASSES)}

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, order=True)
class Owner:
    """Whom GPU time belongs to. Nobody's time (free or unavailable cards) has no owner.

    `family` is the declared batch family of the workload; None: none is declared.
    """

    namespace: str
    workload: str
    team: str
    family: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cells:
    """Columns of equal length, one row per cell; disjoint GPU time, in GPU-milliseconds.

    `from_ms` is the start of a piece of time that lies within one UTC hour and, if cuts were asked for, between two
    of them. `owner`, `flavor` and `node` are indices into the lists, -1 for none; `gpu_class` one into `CLASSES`.
    `lo` and `hi` bound the truth; a row may have `gpu_ms` 0 and `hi` above it. `bounded` marks figures that rest on
    a split or a bridge rather than on a sample.
    """

    from_ms: Ints
    owner: Ints
    flavor: Ints
    node: Ints
    gpu_class: Ints
    gpu_ms: Ints
    lo: Ints
    hi: Ints
    bounded: npt.NDArray[np.bool_]
    owners: tuple[Owner, ...]
    flavors: tuple[str, ...]
    nodes: tuple[str, ...]
