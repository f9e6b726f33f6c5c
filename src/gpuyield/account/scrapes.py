"""When kube-state-metrics answered: what only samples tell changed between two of these moments.

It may be several targets (replicas, shards), and the ledger does not say which of them tells of a pod. So of all that
answered within the gap limit the one that answered first (or, afterwards, last) bounds a change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any  # arrays of mixed types

import numpy as np
import numpy.typing as npt

from gpuyield.model.cells import Ints
from gpuyield.units import Window


class Scrapes:
    """Moments at which targets answered; `sampled` are spans in which any node was sampled without a silence."""

    def __init__(self, targets: Sequence[Ints] = (), sampled: Sequence[Window] = (), gap_limit_ms: int = 0) -> None:
        self._targets = list(targets)
        self._sampled = sampled
        self._gap_limit_ms = gap_limit_ms

    def before(self, at_ms: int, interval_ms: int) -> int:
        """The last moment before an instant by which everything had been asked.

        Where no moments are known (a ledger of an earlier version), one interval before.
        """
        found = []
        for moments in self._targets:
            index = int(np.searchsorted(moments, at_ms)) - 1
            if index >= 0 and moments[index] >= at_ms - self._gap_limit_ms:
                found.append(int(moments[index]))
        if found:
            return min(found)
        earlier = [one.to_ms - 1 for one in self._sampled if one.to_ms <= at_ms]
        if not earlier or any(one.from_ms < at_ms < one.to_ms for one in self._sampled):
            return at_ms - interval_ms
        return max(earlier)

    def after(self, at_ms: int, interval_ms: int) -> int | None:
        """The first moment after an instant by which everything had been asked again; None: it never was.

        Where no moments are known, one interval after.
        """
        found = []
        for moments in self._targets:
            index = int(np.searchsorted(moments, at_ms, side="right"))
            if index < len(moments) and moments[index] <= at_ms + self._gap_limit_ms:
                found.append(int(moments[index]))
        if found:
            return max(found)
        if any(one.from_ms <= at_ms < one.to_ms - 1 for one in self._sampled):
            return at_ms + interval_ms
        return min((one.from_ms for one in self._sampled if one.from_ms > at_ms), default=None)


def by_target(rows: Mapping[str, npt.NDArray[Any]]) -> list[Ints]:
    """The moments of each target, in order, of rows of the ledger's table."""
    names, codes = np.unique(rows["target"].astype(np.str_), return_inverse=True)
    return [np.unique(rows["ts_ms"][codes == at]) for at in range(len(names))]
