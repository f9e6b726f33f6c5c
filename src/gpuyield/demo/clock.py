"""Callbacks at instants of the monotonic clock, on an event loop."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Callable
from time import monotonic_ns


class Clock:
    """Calls back at instants, in order, never early; `loop` is set before the first one is due."""

    def __init__(self) -> None:
        self.loop: asyncio.AbstractEventLoop | None = None
        self._due: list[tuple[int, int, Callable[[], None]]] = []
        self._number = itertools.count()
        self._handle: asyncio.TimerHandle | None = None
        self._armed_ns = -1

    def at(self, at_ns: int, call: Callable[[], None]) -> None:
        """Call at an instant."""
        heapq.heappush(self._due, (at_ns, next(self._number), call))
        if self._handle is None or at_ns < self._armed_ns:
            self._arm()

    def clear(self) -> None:
        """Forget what is due."""
        self._due.clear()
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _arm(self) -> None:
        assert self.loop is not None
        if self._handle is not None:
            self._handle.cancel()
        self._armed_ns = self._due[0][0]
        delay_s = max(0, self._armed_ns - monotonic_ns()) / 1e9
        self._handle = self.loop.call_later(delay_s, self._ring)

    def _ring(self) -> None:
        self._handle = None
        due = self._due
        while due and due[0][0] <= monotonic_ns():
            heapq.heappop(due)[2]()
        if due and self._handle is None:
            self._arm()
