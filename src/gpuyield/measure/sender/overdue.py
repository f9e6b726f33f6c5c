"""Which of the running requests are over a time limit: some are looked at in each round, so that none is long."""

from __future__ import annotations

from collections.abc import Collection

from gpuyield.measure.sender.connection import Exchange
from gpuyield.measure.sender.limits import Limits

_LOOKED_AT_ONCE = 500
_LOOK_EVERY_NS = 100_000_000
_AFTER_DONE_NS = 300_000_000


class Overdue:
    """Goes through the running requests again and again."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._looking: list[Exchange] = []
        self._looked_ns = 0

    def found(self, running: Collection[Exchange], now_ns: int) -> list[Exchange]:
        """Those of the next few that are over a limit."""
        if not self._looking:
            if now_ns - self._looked_ns < _LOOK_EVERY_NS:
                return []
            self._looking, self._looked_ns = list(running), now_ns
        few = self._looking[-_LOOKED_AT_ONCE:]
        del self._looking[-_LOOKED_AT_ONCE:]
        return [one for one in few if one in running and self._is_late(one, now_ns)]

    def _is_late(self, exchange: Exchange, now_ns: int) -> bool:
        limits = self._limits
        if now_ns - exchange.begun_ns > limits.total_s * 1e9:
            return True
        if exchange.sent_ns < 0:
            return now_ns - exchange.begun_ns > limits.connect_s * 1e9
        if not exchange.times_ns:
            return now_ns - exchange.sent_ns > limits.first_s * 1e9
        silent_ns = now_ns - exchange.times_ns[-1]
        return silent_ns > limits.between_s * 1e9 or (exchange.done_seen and silent_ns > _AFTER_DONE_NS)
