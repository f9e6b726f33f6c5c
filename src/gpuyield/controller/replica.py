"""All parts of one replica of the controller, with their clocks, joined; what it does is in `loop`."""

from __future__ import annotations

import time
from collections.abc import Callable

from gpuyield.collect.kubernetes import ClusterApi
from gpuyield.controller.acting import Acting
from gpuyield.controller.apply import Writer
from gpuyield.controller.beat import Beat
from gpuyield.controller.decide import Manner, is_parked
from gpuyield.controller.dry_run import look_once
from gpuyield.controller.fitness import Fitness
from gpuyield.controller.lease import Lease
from gpuyield.controller.live_terms import Terms
from gpuyield.controller.loop import Loop
from gpuyield.controller.metrics import Metrics
from gpuyield.controller.mirror import Mirror
from gpuyield.controller.options import Options
from gpuyield.controller.plan_keeper import PATIENCE_S, PlanKeeper
from gpuyield.controller.store import PlanStore
from gpuyield.model.kueue import CheckState, Work
from gpuyield.report.answer import Answer
from gpuyield.steps.setting import wall_clock_ms
from gpuyield.units import parse_zone

SEARCH_S = 1.0
"""So long a new plan is searched for at most; carrying the old one on comes first."""

SETTLE_MS = 2_000
"""Jobs that come together are planned together: none is released before so long."""

SILENT_S = 60.0
"""A loop that has not gone round for so long is not alive."""


class Replica:
    """All parts of one replica, joined."""

    def __init__(self, api: ClusterApi, mirror: Mirror, options: Options) -> None:
        self.metrics = Metrics()
        self.mirror = mirror
        self.lease = Lease(api, options.home, options.name, changed=mirror.wake)
        self.fitness = Fitness(api, options.home, time.monotonic)
        self.terms = Terms(options.file, options.ledger_root)
        declared = self.terms.declaration
        self.manner = Manner(
            zone=parse_zone(declared.reporting_zone), inventory=tuple(declared.inventory), settle_ms=SETTLE_MS
        )
        self.checks: frozenset[str] = frozenset()
        self.keeper = PlanKeeper(
            PlanStore(api, options.home),
            self.terms,
            is_parked=is_parked,
            is_asked=self._is_asked,
            time_limit=_time_limit,
            writes=not options.dry_run,
            patience_s=None if options.dry_run else PATIENCE_S,
        )
        self.loop = Loop(
            watched=mirror,
            leading=self.lease,
            keeper=self.keeper,
            acting=Acting(Writer(api, self.metrics, self.lease.leads), self.metrics, lambda: self.manner),
            beat=Beat(api),
            metrics=self.metrics,
            look=self._look,
            clock_ms=wall_clock_ms,
            monotonic=time.monotonic,
        )

    def look_once(self) -> Answer:
        """The answer of a dry run."""
        return look_once(self.mirror, self.keeper, self.fitness, self.manner, wall_clock_ms)

    def _look(self, checks: frozenset[str]) -> str:
        self.checks = checks
        return self.fitness.refusal(checks)

    def _is_asked(self, work: Work) -> bool:
        return any(one.name in self.checks and one.state is CheckState.PENDING for one in work.checks)

    def not_alive(self) -> str:
        """Why this process has to be started anew; "" while the loop goes round."""
        silent_s = time.monotonic() - self.loop.state.round_s
        return f"the loop stands still for {silent_s:.0f} s" if silent_s > SILENT_S else ""

    def not_ready(self) -> str:
        """Why nothing is enforced by this replica now."""
        return self.loop.state.trouble


def _time_limit() -> Callable[[], bool]:
    end_s = time.monotonic() + SEARCH_S
    return lambda: time.monotonic() >= end_s
