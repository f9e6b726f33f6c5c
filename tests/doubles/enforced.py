"""A planner and the decision on Kueue's contract, round after round in virtual time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any  # Documents are JSON.

from doubles.kueue_contract import Conflict, KueueContract
from gpuyield.controller.actions import Action, Release, Return, Say
from gpuyield.controller.decide import Decision, decide, is_parked, our_checks, pending_checks
from gpuyield.controller.live_plan import as_to_plan, facts, make_live_plan, next_change_ms
from gpuyield.controller.places import PlanInForce
from gpuyield.decide.live.jobs import LiveTerms
from gpuyield.model.declaration import Declaration
from gpuyield.model.kueue import ClusterSnapshot, WorkState
from gpuyield.units import SECOND_MS

TERMS = LiveTerms(declaration=Declaration(), history=lambda family: None, stem=lambda name: name)
BEAT_MS = 60 * SECOND_MS
_MOST_ROUNDS = 10


class Enforced:
    """A controller; `may_write` says of each action whether it reaches the cluster.

    Its clock is `skew_ms` ahead of the cluster's. `in_vain` are the jobs that it let go and that got no quota by it.
    """

    def __init__(
        self,
        cluster: KueueContract,
        *,
        may_write: Callable[[Action], bool] = lambda action: True,
        terms: Callable[[ClusterSnapshot], LiveTerms] = lambda seen: TERMS,
    ) -> None:
        self.cluster, self.may_write, self.terms = cluster, may_write, terms
        self.document: Mapping[str, Any] | None = None
        self.plan: PlanInForce | None = None
        self.said: list[Say] = []
        self.written: list[Action] = []
        self.in_vain: list[str] = []
        self.skew_ms = 0
        self._facts: int | None = None
        self._made_ms = 0

    def forget(self) -> None:
        """Killed and started anew: the stored plan is all that is left."""
        self.plan, self._facts = None, None

    def round(self) -> Decision:
        """See, plan, decide, write."""
        seen = self.cluster.snapshot()
        seen = replace(seen, at_ms=seen.at_ms + self.skew_ms)
        now_ms = seen.at_ms
        ours = our_checks(seen)

        there = as_to_plan(seen, is_parked=is_parked, is_asked=lambda work: bool(pending_checks(work, ours)))
        made_of = facts(there)
        change_ms = None if self.plan is None else next_change_ms(self.plan.places.values(), self._made_ms)
        late = change_ms is not None and now_ms >= change_ms + SECOND_MS
        is_old = not 0 <= now_ms - self._made_ms < BEAT_MS  # Of the future, too, where the clock was put back.
        if self.plan is None or made_of != self._facts or late or is_old:
            made = make_live_plan(there, self.terms(there), self.document, should_stop=lambda: False)
            self.document = made.stored.document
            self.plan = PlanInForce.of(self.document, {one.work.uid: one for one in made.live.work})
            self._facts, self._made_ms = made_of, now_ms
        decision = decide(seen, self.plan, now_ms)
        for action in decision.actions:
            if isinstance(action, Say):
                self.said.append(action)
            elif self.may_write(action):
                self.written.append(action)
                self._write(action)
        return decision

    def repeat(self, number: int) -> None:
        """The last writes arrive once more, as those of a leader that does not know yet that it is none."""
        for action in self.written[-number:]:
            self._write(action)

    def _write(self, action: Action) -> None:
        name = action.work.id
        try:
            self.cluster.write(action)
        except Conflict:
            return
        if isinstance(action, Release | Return) and self.cluster.work[name].state is WorkState.WAITING:
            self.in_vain.append(name)

    def run(self, to_ms: int, *, step_ms: int = SECOND_MS) -> None:
        """Rounds until an instant; each write wakes the next one."""
        self.rounds()
        while self.cluster.now_ms < to_ms:
            self.cluster.pass_time(min(to_ms, self.cluster.now_ms + step_ms))
            self.rounds()

    def rounds(self) -> None:
        """Rounds until one writes nothing."""
        for _ in range(_MOST_ROUNDS):
            before = len(self.written)
            self.round()
            if len(self.written) == before:
                return
