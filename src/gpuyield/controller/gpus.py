"""How many GPUs are free of every limit, now and over time as running work and the plan hold them.

A limit is what exists of a flavor, or what a set of queues may hold of it: the same limits that the planner keeps.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt

from gpuyield.decide.live.quotas import quotas_of, resource_of
from gpuyield.decide.live.room import Room
from gpuyield.model.job import Capacity, amount_at
from gpuyield.model.kueue import ClusterSnapshot
from gpuyield.plan.instance.quota import limits_by_queue, limits_of

NEVER = 2**62
"""An end that nothing tells."""

Needs = Mapping[str, int]
"""GPUs by the name of the limit that counts them."""


class Limits:
    """The limits of one snapshot, and which of them count a GPU of a flavor in a queue."""

    def __init__(self, seen: ClusterSnapshot, room: Room) -> None:
        capacity = Capacity(steps={name: ((0, gpus),) for name, gpus in room.gpus.items()})
        limits = limits_of(quotas_of(seen).queues, capacity)
        self._room = room
        self._of_queue = limits_by_queue(limits)
        self._names: dict[tuple[str | None, str], tuple[str, ...]] = {}
        self.amounts = {**room.gpus, **{name: amount_at(one.steps, 0) for name, one in limits.items()}}

    def needs(self, queue: str | None, gpus: Mapping[str, int]) -> Needs:
        """What work of a queue with so many GPUs of each flavor takes."""
        if len(gpus) == 1:
            ((flavor, amount),) = gpus.items()
            return dict.fromkeys(self._named(queue, flavor), amount)
        found: dict[str, int] = defaultdict(int)
        for flavor, amount in gpus.items():
            for name in self._named(queue, flavor):
                found[name] += amount
        return found

    def quotas(self, queue: str | None, flavor: str) -> tuple[str, ...]:
        """The limits that Kueue keeps: those of queues, not of nodes."""
        return self._of_queue.get((queue, resource_of(flavor)), ()) if queue is not None else ()

    def _named(self, queue: str | None, flavor: str) -> tuple[str, ...]:
        key = (queue, flavor)
        if key not in self._names:
            resources = [name for name in self._room.resources(flavor) if name in self.amounts]
            named = [one for name in resources for one in (name, *self._of_queue.get((queue or "", name), ()))]
            self._names[key] = tuple(named)
        return self._names[key]


class OverTime:
    """What is held of each limit at every instant from now on."""

    def __init__(self, now_ms: int, held: Iterable[tuple[Needs, int, int]]) -> None:
        self._now_ms = now_ms
        changes: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for needs, from_ms, to_ms in held:
            begin = max(from_ms, now_ms)
            if to_ms > begin:
                for name, gpus in needs.items():
                    changes[name] += ((begin, gpus), (to_ms, -gpus))
        self._of = {name: _levels(listed, now_ms) for name, listed in changes.items()}

    def fits(self, needs: Needs, amounts: Mapping[str, int], *, to_ms: int) -> bool:
        """Whether so much is free of every limit from now to an instant."""
        return all(self._most(name, to_ms) + gpus <= amounts[name] for name, gpus in needs.items())

    def add(self, needs: Needs, *, from_ms: int, to_ms: int, sign: int = 1) -> None:
        """Hold so much more from one instant to another, or less with `sign` -1."""
        begin = max(from_ms, self._now_ms)
        if to_ms <= begin:
            return
        for name, gpus in needs.items():
            times, level = self._of.get(name) or _levels((), self._now_ms)
            for at_ms in (begin, to_ms):
                at = int(np.searchsorted(times, at_ms))
                if at == len(times) or times[at] != at_ms:
                    times = np.insert(times, at, at_ms)
                    level = np.insert(level, at, level[at - 1])
            low, high = np.searchsorted(times, (begin, to_ms))
            level[low:high] += sign * gpus
            self._of[name] = (times, level)

    def _most(self, name: str, to_ms: int) -> int:
        found = self._of.get(name)
        if found is None:
            return 0
        times, level = found
        return int(level[: max(1, int(np.searchsorted(times, to_ms)))].max())


_Levels = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]


def _levels(changes: Iterable[tuple[int, int]], now_ms: int) -> _Levels:
    """Instants from now on, and what is held from each on."""
    instants, amounts = zip((now_ms, 0), *changes, strict=True)
    times, first = np.unique(np.array(instants, dtype=np.int64), return_inverse=True)
    level = np.zeros(len(times), dtype=np.int64)
    np.add.at(level, first, np.array(amounts, dtype=np.int64))
    return times, np.cumsum(level)
