"""How many of the answers so far kept each limit, while a probe runs: for whoever watches, not for any judgement."""

from __future__ import annotations

from collections.abc import Sequence

from gpuyield.measure.sender.messages import Progress
from gpuyield.model.declaration import Metric, Objective
from gpuyield.model.measure import ResponseStatus


class Attained:
    """Counts what the workers tell; it begins anew with each probe."""

    def __init__(self, objectives: Sequence[Objective]) -> None:
        self._objectives = objectives
        self._last: dict[int, float] = {}
        self._kept: dict[str, int] = {}
        self._seen: dict[str, int] = {}
        self._number = -1

    def shares(self, number: int, told: Sequence[Progress | None]) -> dict[str, float]:
        """The share that kept each objective that can be seen already, of probe `number`, with what is told now.

        Of latency limits on the first token and on the whole answer, and of errors; of a sample where answers are many.
        """
        if number != self._number:
            self._number, self._last, self._kept, self._seen = number, {}, {}, {}
        for place, one in enumerate(told):
            if one is not None and self._last.get(place) != one.at_s:
                self._last[place] = one.at_s
                self._count(one)
        return {name: self._kept.get(name, 0) / seen for name, seen in self._seen.items() if seen}

    def _count(self, one: Progress) -> None:
        failed = sum(status != ResponseStatus.OK for status in one.statuses)
        for objective in self._objectives:
            if objective.metric is Metric.ERROR:
                kept, seen = len(one.statuses) - failed, len(one.statuses)
            elif objective.metric in (Metric.TTFT, Metric.E2E) and objective.at_most_us is not None:
                values = one.first_s if objective.metric is Metric.TTFT else one.whole_s
                limit_s = objective.at_most_us / 1e6
                kept, seen = sum(value <= limit_s for value in values), len(values) + failed
            else:
                continue
            self._kept[objective.name] = self._kept.get(objective.name, 0) + kept
            self._seen[objective.name] = self._seen.get(objective.name, 0) + seen
