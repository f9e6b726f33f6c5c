"""Keeps the plan in force: replans when the cluster changes, takes over a published plan, and keeps the last good one.

Nothing rests on a plan before `gpuyield.verify` has accepted it from its own inputs. A plan that is refused, and a
store that is torn, change nothing: the plan before stays in force, and the store is written anew from it. A plan that
takes long is made beside the loop, which goes on with the one in force: who holds quota is answered in time.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from typing import Any, Protocol  # Documents are JSON.

from gpuyield.controller.check_beside import check_beside
from gpuyield.controller.live_plan import (
    Claim,
    MadePlan,
    as_to_plan,
    facts,
    is_same_plan,
    make_live_plan,
    next_change_ms,
)
from gpuyield.controller.places import PlanInForce
from gpuyield.controller.plan_parts import Pointer, StoredPlan, TornStore
from gpuyield.decide.live.jobs import LiveTerms
from gpuyield.decide.live.problem import WorkAsAsked
from gpuyield.errors import GpuyieldError, SourceError
from gpuyield.model.kueue import ClusterSnapshot, Work, WorkState
from gpuyield.units import SECOND_MS
from gpuyield.verify import Report, check

BY_US = "controller"
BEAT_MS = 60 * SECOND_MS
"""However quiet the cluster is, the plan is looked at again after so long."""

GRACE_MS = SECOND_MS
"""So long after a planned start or end of which nothing is seen the plan no longer holds."""

LOOK_MS = 2 * SECOND_MS
"""The store is looked at so often: a published plan is taken over, a torn one found out."""

STARTING_MS = 5 * SECOND_MS
"""So long work that was let go keeps its place while Kueue gives it quota."""

PATIENCE_S = 0.5
"""A plan that is ready within so long is waited for: what arrives is answered by a plan that knows it."""

Check = Callable[[Mapping[str, Any], bytes], Report]

_log = logging.getLogger(__name__)


class Store(Protocol):
    """Where the plan in force lies (`store.PlanStore`)."""

    def pointer(self) -> Pointer | None:
        """What is in force; None where nothing was ever written. Raises SourceError."""

    def read(self, pointer: Pointer) -> StoredPlan:
        """Its plan. Raises SourceError, TornStore among them."""

    def write(self, plan: StoredPlan) -> Pointer:
        """Put a plan in force, if nobody did so since the pointer was last looked at. Raises SourceError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InForce:
    """A verified plan, and what the controller acts on; `made_of` is the number of its facts (None: made elsewhere)."""

    stored: StoredPlan
    plan: PlanInForce
    made_ms: int
    made_of: int | None = None

    @property
    def document(self) -> Mapping[str, Any]:
        """The plan document."""
        return self.stored.document


@dataclass(frozen=True, slots=True, kw_only=True)
class _Making:
    """A plan that is being made, for these facts, from the plan `before`."""

    result: Future[MadePlan | None]
    made_of: int
    now_ms: int
    before: InForce | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Read:
    """A plan of the store, and whether it stands its check."""

    pointer: Pointer
    stored: StoredPlan
    is_accepted: bool


@dataclass(slots=True)
class Tally:
    """What happened so far."""

    replans: int = 0
    refused: int = 0
    torn: int = 0
    taken_over: int = 0


class PlanKeeper:
    """The plan in force of one cluster; `store_trouble` says why the store is of no use ("": it is)."""

    def __init__(
        self,
        store: Store,
        terms: Callable[[ClusterSnapshot], LiveTerms],
        *,
        is_parked: Claim,
        is_asked: Claim,
        time_limit: Callable[[], Callable[[], bool]],
        writes: bool = True,
        patience_s: float | None = PATIENCE_S,
    ) -> None:
        self._store, self._terms = store, terms
        self._is_parked, self._is_asked = is_parked, is_asked
        self._time_limit, self._writes, self._patience_s = time_limit, writes, patience_s
        self._beside = ThreadPoolExecutor(max_workers=1, thread_name_prefix="plan")
        self._making: _Making | None = None
        self._ahead: Future[_Read | None] | None = None
        self._taken: Pointer | None = None
        self._generation = 0
        self._looked_ms: int | None = None
        self._is_written = self._is_forgetful = False
        self.in_force: InForce | None = None
        self.store_trouble = "the plan store has not been read yet"
        self.tally = Tally()

    def read_ahead(self) -> None:
        """Begin to read and check the plan of the store, beside all else that a start has to do before it is needed."""
        self._ahead = self._beside.submit(self._read_newest)

    def keep(self, seen: ClusterSnapshot, now_ms: int) -> InForce | None:
        """The plan in force for what is seen now; None where there is none yet, or no plan of ours can be trusted."""
        if self._looked_ms is None or now_ms - self._looked_ms >= LOOK_MS or now_ms < self._looked_ms:
            self._looked_ms = now_ms
            if self._look_at_store(seen, now_ms):
                # Who holds quota is answered by it at once; the next round makes a plan of what changed since.
                return self.in_force
        there = as_to_plan(
            seen, is_parked=self._is_parked, is_asked=self._asks_in_vain(now_ms), starting=self._starting(seen, now_ms)
        )
        made_of = facts(there)
        if self._making is None and self._is_due(made_of, now_ms):
            self._begin(there, made_of, now_ms)
        if self._making is not None:
            wait([self._making.result], timeout=self._patience_s)
            self._take_made()
        self._write()
        return self.in_force

    def close(self, *, wait: bool = False) -> None:
        """Begin no more plans; with `wait` the one that is being made is finished first."""
        self._beside.shutdown(wait=wait, cancel_futures=not wait)

    # When.

    def _is_due(self, made_of: int, now_ms: int) -> bool:
        if self.in_force is None or self.in_force.made_of != made_of:
            return True
        since_ms = now_ms - self.in_force.made_ms
        if since_ms >= BEAT_MS or since_ms < 0:
            return True
        change_ms = next_change_ms(self.in_force.plan.places.values(), self.in_force.made_ms)
        return change_ms is not None and now_ms >= change_ms + GRACE_MS

    def _asks_in_vain(self, now_ms: int) -> Claim:
        """Work with quota that the plan in force does not start now.

        What was taken back before asks anew: its place may be of the run that ended so.
        """
        places = self.in_force.plan.places if self.in_force is not None else {}

        def asks(work: Work) -> bool:
            place = places.get(work.id)
            return self._is_asked(work) and (place is None or not place.is_due(now_ms) or work.evictions > 0)

        return asks

    def _starting(self, seen: ClusterSnapshot, now_ms: int) -> dict[str, str]:
        """Planned work that was let go within STARTING_MS and waits for the quota that it is going to get."""
        places = self.in_force.plan.places if self.in_force is not None else {}
        found: dict[str, str] = {}
        for work in seen.work:
            place = places.get(work.id)
            if work.state is not WorkState.WAITING or work.gates or not work.active or work.evictions:
                continue
            if place is None or not place.flavor or place.start_ms is None:
                continue
            if 0 <= now_ms - place.start_ms < STARTING_MS:
                found[work.uid] = place.flavor
        return found

    # What.

    def _begin(self, there: ClusterSnapshot, made_of: int, now_ms: int) -> None:
        before = None if self.in_force is None else self.in_force.document
        self.tally.replans += 1
        result = self._beside.submit(self._make, there, before)
        self._making = _Making(result=result, made_of=made_of, now_ms=now_ms, before=self.in_force)

    def _make(self, there: ClusterSnapshot, before: Mapping[str, Any] | None) -> MadePlan | None:
        """A plan that stands its check, or None. Runs beside the loop."""
        try:
            made = make_live_plan(there, self._terms(there), before, should_stop=self._time_limit())
        except GpuyieldError as err:
            _log.error("no new plan: %s", err)
            return None
        return made if _is_accepted(check(made.stored.document, made.stored.inputs)) else None

    def _take_made(self) -> None:
        """The plan that was made, where it is ready, and nobody put another one in force meanwhile."""
        making = self._making
        if making is None or not making.result.done():
            return
        self._making = None
        error = making.result.exception()
        if error is not None:
            _log.error("no new plan, by a mistake of ours", exc_info=error)
        made = None if error is not None else making.result.result()
        if self.in_force is not None and (making.before is None or self._was_replaced(making.before)):
            return
        if made is None:
            self.tally.refused += 1
            self._keep_old(making.made_of, making.now_ms)
            return
        stored = made.stored
        if making.before is not None and is_same_plan(making.before.document, stored.document):
            # Nothing moved: what was said of each job, and why it moved last, stays as it is.
            stored = making.before.stored
        before = {} if making.before is None else making.before.plan.first_starts
        plan = PlanInForce.of(stored.document, {one.work.uid: one for one in made.live.work})
        is_first = not (making.before is None and self._is_forgetful)
        plan = plan.with_first_starts(before, (one.work for one in made.live.work), is_first=is_first)
        if making.before is None or stored is not making.before.stored:
            stored = replace(stored, first_starts=plan.first_starts)
            self._is_written = False
        self.in_force = InForce(
            stored=stored,
            plan=plan,
            made_ms=making.now_ms,
            made_of=making.made_of,
        )

    def _was_replaced(self, before: InForce) -> bool:
        return self.in_force is not None and self.in_force.document is not before.document

    def _keep_old(self, made_of: int, now_ms: int) -> None:
        """The last good plan stays in force; the same facts are not tried again before the next beat."""
        if self.in_force is not None:
            self.in_force = replace(self.in_force, made_of=made_of, made_ms=now_ms)

    # The store.

    def _look_at_store(self, seen: ClusterSnapshot, now_ms: int) -> bool:
        """Whether its plan was taken over just now."""
        before = self.tally.taken_over
        ahead = self._read_before()
        try:
            pointer = self._store.pointer()
            if pointer is None:
                self._is_written = False
            else:
                self._generation = max(self._generation, pointer.generation)
                if pointer != self._taken:
                    read = ahead if ahead is not None and ahead.pointer == pointer else self._read(pointer)
                    self._take_over(read, seen, now_ms)
            self._taken = pointer
            self.store_trouble = ""
        except TornStore as err:
            self._found_torn(err)
        except SourceError as err:
            self.store_trouble = str(err)
            _log.warning("the plan store cannot be read: %s", err)
        return self.tally.taken_over != before

    def _read(self, pointer: Pointer, check: Check = check) -> _Read:
        stored = self._store.read(pointer)
        return _Read(pointer=pointer, stored=stored, is_accepted=_is_accepted(check(stored.document, stored.inputs)))

    def _read_newest(self) -> _Read | None:
        pointer = self._store.pointer()
        return None if pointer is None else self._read(pointer, check_beside)

    def _read_before(self) -> _Read | None:
        """What was read ahead; None where nothing was, or it could not be: it is read again then."""
        ahead, self._ahead = self._ahead, None
        if ahead is None:
            return None
        error = ahead.exception()
        if error is not None:
            _log.warning("the plan of the store could not be read ahead: %s", error)
            return None
        return ahead.result()

    def _take_over(self, read: _Read, seen: ClusterSnapshot, now_ms: int) -> None:
        """The plan of the store, made by the leader before us or published, where it stands its check."""
        stored = read.stored
        if not read.is_accepted:
            self.tally.refused += 1
            self._is_written = False
            return
        there = as_to_plan(seen, is_parked=self._is_parked, is_asked=self._is_asked)
        try:
            work = WorkAsAsked(there, self._terms(there))
        except GpuyieldError as err:
            _log.error("what waits cannot be read: %s", err)
            return
        ours = {} if self.in_force is None else self.in_force.plan.first_starts
        plan = PlanInForce.of(stored.document, work)
        plan = plan.with_first_starts({**stored.first_starts, **ours}, work.works, is_first=False)
        self.in_force = InForce(stored=stored, plan=plan, made_ms=now_ms)
        self._is_written = True
        self.tally.taken_over += 1
        _log.info("plan %d of %s taken over", stored.generation, stored.by or "nobody")

    def _found_torn(self, err: TornStore) -> None:
        """What lies there is of no use: our plan is written in its place, and until then the store is not readable."""
        self.tally.torn += 1
        self.store_trouble = str(err)
        self._is_written = False
        self._is_forgetful = True
        _log.error("%s", err)

    def _write(self) -> None:
        if self._is_written or self.in_force is None or not self._writes:
            return
        self._generation += 1
        stored = replace(self.in_force.stored, generation=self._generation, by=BY_US)
        try:
            self._taken = self._store.write(stored)
        except SourceError as err:
            # Somebody published at this very moment, or the store is out of reach: the next look tells.
            self._looked_ms = None
            self.store_trouble = str(err)
            _log.warning("the plan is not stored: %s", err)
            return
        self.in_force = replace(self.in_force, stored=stored)
        self._is_written = True
        self.store_trouble = ""


def _is_accepted(report: Report) -> bool:
    if report.accepted and report.schema.startswith("gpuyield/plan/"):
        return True
    why = "; ".join(str(one) for one in report.refused[:3]) or "it claims nothing that can be checked"
    _log.error("a plan is not used, for it does not stand its check: %s", why[:500])
    return False
