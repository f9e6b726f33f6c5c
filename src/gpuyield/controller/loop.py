"""One round after another: see, plan, decide, write; always from the whole of what is there, never from what changed.

Nothing here waits for an answer of the cluster but the writes themselves; whatever a round misses, the next one makes
good. The replica that does not lead only watches.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Event
from typing import Protocol

from gpuyield.controller.beat import Beat
from gpuyield.controller.decide import our_checks
from gpuyield.controller.metrics import Metrics
from gpuyield.controller.plan_keeper import InForce, PlanKeeper
from gpuyield.controller.plan_parts import StoredPlan
from gpuyield.model.kueue import ClusterSnapshot

PAUSE_S = 1.0
"""A round at least so often."""

LEAST_S = 0.05
"""Changes that come together are seen together."""

_log = logging.getLogger(__name__)


class Watched(Protocol):
    """What is known of the cluster (`mirror.Mirror`)."""

    def snapshot(self, now_ms: int) -> ClusterSnapshot | None:
        """All of it; None while a kind that is needed has never been listed."""

    def wait(self, timeout_s: float) -> bool:
        """Wait for a change; whether there was one."""


class Leading(Protocol):
    """Who leads (`lease.Lease`)."""

    def leads(self) -> bool:
        """Whether this replica may write now."""

    def is_stale(self) -> bool:
        """Whether the replica that led has not been heard of for as long as its Lease says."""

    def holder(self) -> str:
        """Who leads; "" for nobody."""


class Acting(Protocol):
    """What is decided and written (`acting.Acting`)."""

    def act(self, seen: ClusterSnapshot, plan: InForce, now_ms: int) -> int:
        """Do what the plan asks for now; how many writes succeeded."""


@dataclass(slots=True)
class State:
    """What probes read: why nothing is enforced now ("": it is), and when the last round ended."""

    trouble: str = "it has only just started"
    round_s: float = field(default=0.0)


class Loop:
    """The controller of one cluster, without its clocks and connections."""

    def __init__(
        self,
        *,
        watched: Watched,
        leading: Leading,
        keeper: PlanKeeper,
        acting: Acting,
        beat: Beat,
        metrics: Metrics,
        look: Callable[[frozenset[str]], str],
        clock_ms: Callable[[], int],
        monotonic: Callable[[], float],
    ) -> None:
        self._watched, self._leading, self._keeper, self._acting = watched, leading, keeper, acting
        self._beat, self._metrics = beat, metrics
        self._look, self._clock_ms, self._monotonic = look, clock_ms, monotonic
        self._told: StoredPlan | None = None
        self._said = ""
        self.state = State()

    def run(self, stop: Event) -> None:
        """Rounds until it is told to stop; then the checks are given up, so that queues wait instead of holding."""
        while not stop.is_set():
            self.round()
            if self._watched.wait(PAUSE_S):
                stop.wait(LEAST_S)
        if self._leading.leads():
            self._say(self._watched.snapshot(self._clock_ms()), is_active=False, message="The controller was stopped.")

    def round(self) -> None:
        """One look at everything, and what follows from it."""
        began = self._monotonic()
        now_ms = self._clock_ms()
        self._metrics.count("reconciles")
        seen = self._watched.snapshot(now_ms)
        leads = self._leading.leads()
        self._metrics.leads = leads
        if leads:
            wrote = self._lead(seen, now_ms)
            if wrote:
                self._metrics.took(self._monotonic() - began)
        else:
            self._stand_by(seen)
        self._metrics.acts = leads and not self.state.trouble
        self.state.round_s = self._monotonic()

    def _lead(self, seen: ClusterSnapshot | None, now_ms: int) -> int:
        if seen is None:
            self.state.trouble = "the cluster has not been read yet"
            return 0
        refusal = self._look(our_checks(seen))
        plan = None if refusal else self._keeper.keep(seen, now_ms)
        self._tell(plan)
        trouble = refusal or self._keeper.store_trouble or ("" if plan else "there is no plan yet")
        self.state.trouble = trouble
        if trouble or plan is None:
            self._say(seen, is_active=False, message=f"Nothing is started: {trouble}")
            return 0
        self._say(seen, is_active=True, message=self._said)
        return self._acting.act(seen, plan, now_ms)

    def _stand_by(self, seen: ClusterSnapshot | None) -> None:
        holder = self._leading.holder()
        self.state.trouble = f"it stands by: {holder or 'nobody'} leads"
        if self._leading.is_stale():
            self._say(seen, is_active=False, message="The replica that led is not heard of any more.")

    def _say(self, seen: ClusterSnapshot | None, *, is_active: bool, message: str) -> None:
        if seen is None:
            return
        ours = our_checks(seen)
        checks = [one for one in seen.checks if one.name in ours]
        for err in self._beat.say(checks, is_active=is_active, message=message, now_ms=self._clock_ms()):
            self._metrics.count("errors")
            _log.warning("the check cannot be written: %s", err)

    def _tell(self, plan: InForce | None) -> None:
        """What the metrics say of the plan."""
        tally = self._keeper.tally
        self._metrics.set_count("replans", tally.replans)
        self._metrics.set_count("refused_plans", tally.refused)
        if plan is None or plan.stored is self._told:
            return
        self._told = plan.stored
        places = plan.plan.places
        planned = sum(one.start_ms is not None for one in places.values())
        self._said = f"Plan {plan.stored.generation} is enforced; it gives {planned} jobs their time."
        self._metrics.plan_status = str(plan.document.get("status", ""))
        self._metrics.slack_s = {
            (namespace, name): one.slack_s
            for job, one in places.items()
            if one.slack_s is not None
            for namespace, _, name in (job.partition("/"),)
        }
