"""Decides on the plan in force and writes what follows; counts what must never happen."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from gpuyield.collect.kueue.starts import started
from gpuyield.controller.apply import Writer
from gpuyield.controller.decide import Manner, decide, our_checks
from gpuyield.controller.metrics import Metrics
from gpuyield.controller.plan_keeper import InForce
from gpuyield.model.kueue import CheckState, ClusterSnapshot, Work, WorkState
from gpuyield.model.marks import PARKED
from gpuyield.units import SECOND_MS

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Acting:
    """Acts for one cluster; `manner` may change from round to round."""

    writer: Writer
    metrics: Metrics
    manner: Callable[[], Manner]
    _since_ms: int | None = None
    _started: set[str] = field(default_factory=set)
    _stopped: set[str] = field(default_factory=set)
    _counted: set[str] = field(default_factory=set)

    def act(self, seen: ClusterSnapshot, plan: InForce, now_ms: int) -> int:
        """Do what the plan asks for now; how many writes succeeded."""
        there = {one.uid for one in seen.work}
        self._count_starts(seen, there, now_ms)
        self._count_early_stops(seen)
        self.writer.forget_all_but(there)
        decision = decide(seen, plan.plan, now_ms, manner=self.manner())
        ours = our_checks(seen)
        wrote = self.writer.write(decision.writes, now_ms, ours=ours)
        return wrote + self.writer.write(decision.says(), now_ms, ours=ours)

    def _count_starts(self, seen: ClusterSnapshot, there: set[str], now_ms: int) -> None:
        """How far from the plan work began that began while we led."""
        since_ms = self._since_ms = now_ms if self._since_ms is None else self._since_ms
        self._counted &= there
        for work in seen.work:
            if work.admitted_ms is None or work.admitted_ms < since_ms or work.uid in self._counted:
                continue
            late_ms = started(work, work.admitted_ms).late_ms
            if late_ms is not None:
                self.metrics.began(late_ms / SECOND_MS)
                self._counted.add(work.uid)

    def _count_early_stops(self, seen: ClusterSnapshot) -> None:
        """Work that ran by our word and was then switched off by us: it must never be."""
        ours = our_checks(seen)
        for work in seen.work:
            if work.state is WorkState.ADMITTED and _is_ready(work, ours):
                self._started.add(work.uid)
            elif work.state is WorkState.FINISHED:
                self._started.discard(work.uid)
            elif work.uid in self._started:
                self._started.discard(work.uid)
                if not work.active and PARKED in work.marks and work.uid not in self._stopped:
                    self._stopped.add(work.uid)
                    self.metrics.count("early_stops")
                    _log.error("%s was started and then stopped by us: please report this", work.id)


def _is_ready(work: Work, ours: frozenset[str]) -> bool:
    return any(one.name in ours and one.state is CheckState.READY for one in work.checks)
