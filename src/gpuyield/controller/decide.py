"""What to do now: a pure function of what is seen, the plan in force, and the instant.

Work starts when its planned time has come, what it needs is free beside what is planned before it and has not started,
and all that it waits for has ended: time alone starts nothing. Work that no plan holds may fill GPUs in between, where
it is sure to have ended before anything planned needs them (EASY backfill), or where nothing planned ever does. What
comes into its quota otherwise is parked before it starts. Nothing that runs is ever touched.

Source: Kueue's contract of gates and admission checks; EASY backfill: Lifka, "The ANL/IBM SP scheduling system", 1995.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, tzinfo
from functools import partial

from gpuyield.controller.actions import Action, MoveQueue, Park, Ready, Release, Return, Say
from gpuyield.controller.gpus import NEVER, Limits, Needs, OverTime
from gpuyield.controller.places import Place, PlanInForce
from gpuyield.controller.told import told
from gpuyield.decide.live.jobs import UNKNOWN_LENGTH, ReadWork
from gpuyield.decide.live.room import room_of
from gpuyield.model.declaration import InventoryItem
from gpuyield.model.kueue import CheckState, ClusterSnapshot, Work, WorkState, is_gpu_resource
from gpuyield.model.marks import PARKED, PLAN, WANTED_QUEUE
from gpuyield.report.tables import format_local
from gpuyield.units import SECOND_MS

PATIENCE_MS = 2 * SECOND_MS
"""So long work may hold quota while it is not in the plan yet."""
OVERRUN_MS = 10 * SECOND_MS
"""Work that runs beyond its planned end is taken to hold its GPUs for so long again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """How it is decided: the zone of sentences, GPUs that no node reports.

    Work that waits at our gate is released when it has been there for `settle_ms`: what is submitted together is
    planned together.
    """

    zone: tzinfo = UTC
    inventory: tuple[InventoryItem, ...] = ()
    settle_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What is to be written now, what is then said, and why each job that waits is not started, by uid.

    `says` puts ten thousand jobs in words only when it is asked to: nobody who asks whether to start waits for that.
    """

    writes: tuple[Action, ...]
    says: Callable[[], Iterable[Say]] = field(default=tuple, compare=False, repr=False)
    held: Mapping[str, str] = field(default_factory=dict)

    @property
    def actions(self) -> tuple[Action, ...]:
        """All of it, in the order in which it is done."""
        return (*self.writes, *self.says())


def decide(seen: ClusterSnapshot, plan: PlanInForce, now_ms: int, *, manner: Manner | None = None) -> Decision:
    """The writes that bring the cluster to the plan; none where it is there already."""
    return _Round(seen, plan, now_ms, manner or Manner()).run()


def is_parked(work: Work) -> bool:
    """Whether we switched it off, and it does not run."""
    return not work.active and PARKED in work.marks and not work.holds_quota and work.state is not WorkState.FINISHED


def pending_checks(work: Work, ours: frozenset[str]) -> tuple[str, ...]:
    """Our checks that ask whether a Workload may start now; none while Kueue takes it back."""
    if work.state is not WorkState.RESERVED or work.evicted or not work.active:
        return ()
    return tuple(one.name for one in work.checks if one.name in ours and one.state is CheckState.PENDING)


def our_checks(seen: ClusterSnapshot) -> frozenset[str]:
    """The names of the AdmissionChecks that we answer."""
    return frozenset(one.name for one in seen.checks if one.controller == PLAN)


def wanted_queue(work: Work, seen_queues: Mapping[tuple[str, str], str]) -> str | None:
    """The queue that a job in one on hold is for; None where it is in no such queue, or names none that exists.

    `seen_queues` are the stop policies of LocalQueues by namespace and name.
    """
    if not seen_queues.get((work.namespace, work.queue)) or work.state is not WorkState.WAITING:
        return None
    wanted = work.annotations.get(WANTED_QUEUE, "")
    return wanted if seen_queues.get((work.namespace, wanted)) == "" else None


class _Round:
    def __init__(self, seen: ClusterSnapshot, plan: PlanInForce, now_ms: int, manner: Manner) -> None:
        self.seen, self.plan, self.now_ms, self.manner = seen, plan, now_ms, manner
        self.limits = Limits(seen, room_of(seen, manner.inventory))
        self.checks = our_checks(seen)
        self.planned_queues = {one.name for one in seen.queues if self.checks.intersection(one.checks)}
        self.stops = {(one.namespace, one.name): one.stopped for one in seen.local_queues}
        self.open = {one.id for one in seen.work if one.state is not WorkState.FINISHED}
        self.used: dict[str, int] = defaultdict(int)
        """What runs, what is started now, and what is kept for planned work whose time has come."""
        self.asking: dict[str, int] = defaultdict(int)
        """What work holds that is not answered yet: Kueue gives it to nobody before it is parked and seen to be."""
        self.actions: list[Action] = []
        self.parks: list[Park] = []
        self.held: dict[str, str] = {}

    def run(self) -> Decision:
        due: list[Work] = []
        spare: list[Work] = []
        spans: list[tuple[Needs, int, int]] = []
        for work in self.seen.work:
            if work.state is WorkState.FINISHED:
                continue
            asked = pending_checks(work, self.checks)
            if work.holds_quota and not asked:
                spans.append(self._running(work))
            elif self._is_ours(work, asked):
                if asked:
                    self._count(self.asking, self.limits.needs(work.cluster_queue, work.held))
                place = self.plan.places.get(work.id)
                if place is not None and place.is_due(self.now_ms):
                    due.append(work)
                elif place is None or place.start_ms is None:
                    spare.append(work)
                elif asked:
                    self._park(work, place)
                else:
                    self.held[work.uid] = f"it is planned for {self._local(place.start_ms)}"
        running = {one.id for one in self.seen.work if one.holds_quota and not pending_checks(one, self.checks)}
        self.over_time = OverTime(self.now_ms, [*spans, *self._planned(running)])
        for work in sorted(due, key=self._turn):
            self._start_due(work)
        for work in sorted(spare, key=self._order):
            self._fill_gap(work)
        # Last: what parking frees is Kueue's to give away, and what is let go shall have its quota before.
        self.actions += self.parks
        says = partial(told, self.seen, self.plan, self.now_ms, zone=self.manner.zone, ours=self._is_told)
        return Decision(writes=tuple(self.actions), says=says, held=self.held)

    # What there is.

    def _running(self, work: Work) -> tuple[Needs, int, int]:
        """What work holds, and until when as far as the plan knows."""
        needs = self.limits.needs(work.cluster_queue, work.held)
        self._count(self.used, needs)
        place = self.plan.places.get(work.id)
        end_ms = NEVER if place is None or place.end_ms is None else max(place.end_ms, self.now_ms + OVERRUN_MS)
        return needs, self.now_ms, end_ms

    def _planned(self, running: set[str]) -> Iterator[tuple[Needs, int, int]]:
        """What the plan holds for work that has not started; what is late by now starts now."""
        works = {one.id: one for one in self.seen.work if one.state is not WorkState.FINISHED}
        ended = {one.id for one in self.seen.work} - works.keys()
        for name, place in self.plan.places.items():
            work = works.get(name)
            if name in running or name in ended or place.start_ms is None or place.end_ms is None:
                continue
            needs = self._planned_needs(work, place)
            begin = max(place.start_ms, self.now_ms)
            yield needs, begin, begin + place.end_ms - place.start_ms

    def _planned_needs(self, work: Work | None, place: Place) -> Needs:
        """Of a job that is not there yet, such as the next one of a CronJob, only the GPUs are known."""
        gpus = work.gpus if work is not None else place.gpus
        if gpus is None or place.flavor is None:
            return {}
        return self.limits.needs(None if work is None else work.cluster_queue, {place.flavor: gpus})

    def _is_ours(self, work: Work, asked: tuple[str, ...]) -> bool:
        """Whether it is for us to start: it asks us, waits at our gate, was parked by us, or is in a planned queue."""
        if asked or is_parked(work):
            return True
        if work.holds_quota or not work.active:
            return False
        return PLAN in work.gates or work.cluster_queue in self.planned_queues or self._wanted(work) is not None

    def _is_told(self, work: Work) -> bool:
        """Whether the one who submitted it hears from us."""
        waits = not work.holds_quota or work.uid in self.held
        return waits and self._is_ours(work, pending_checks(work, self.checks))

    # Who goes first.

    def _turn(self, work: Work) -> tuple[object, ...]:
        place = self.plan.places[work.id]
        return place.start_ms, place.deadline_ms is None, place.deadline_ms or 0, work.created_ms, work.id

    def _order(self, work: Work) -> tuple[object, ...]:
        """Who holds quota or may take it already, then the oldest."""
        return work.state is not WorkState.RESERVED, self._is_kept(work), work.created_ms, work.id

    # Planned work.

    def _start_due(self, work: Work) -> None:
        place = self.plan.places[work.id]
        why = self._blocked(work)
        if why:
            self._hold(work, why, place)
            return
        flavors = self._flavors(work)
        if place.flavor is not None and flavors and place.flavor not in flavors:
            self._start_elsewhere(work, place, flavors)
            return
        needs = self._planned_needs(work, place) or self.limits.needs(work.cluster_queue, work.held)
        fits = self._is_free(work, needs)
        # Whoever is planned later does not overtake.
        self._count(self.used, needs)
        if fits:
            self._start(work, f"Its planned time, {self._local(place.start_ms)}, has come and its GPUs are free.")
        else:
            self._hold(work, "its GPUs are still held, or for what is planned before it", place)

    def _start_elsewhere(self, work: Work, place: Place, flavors: Mapping[str, int]) -> None:
        """Kueue takes the first flavor with free quota: that is good where nothing planned needs it meanwhile."""
        planned = self._planned_needs(work, place)
        assert place.start_ms is not None
        assert place.end_ms is not None
        span_ms = place.end_ms - place.start_ms
        self.over_time.add(planned, from_ms=self.now_ms, to_ms=self.now_ms + span_ms, sign=-1)
        names = " and ".join(sorted(flavors))
        if self._takes(work, flavors):
            self._start(work, f"It starts on {names} instead of {place.flavor}: nothing planned needs these GPUs.")
            return
        self.over_time.add(planned, from_ms=self.now_ms, to_ms=self.now_ms + span_ms)
        self._count(self.used, planned)
        self._hold(work, f"Kueue would start it on {names}, whose GPUs are planned for others", place)

    # Work that no plan holds.

    def _fill_gap(self, work: Work) -> None:
        place = self.plan.places.get(work.id)
        read = self.plan.read.get(work.uid)
        if read is None:
            self._wait_for_plan(work)
            return
        why = self._blocked(work) or self._may_not_fill(work, read)
        if not why:
            flavors = self._flavors(work)
            if flavors and self._takes(work, flavors):
                self._start(work, "It fills GPUs that nothing planned needs before it ends.")
                return
            why = "its GPUs are held, or planned for others before it would end"
        self._hold(work, why, place)

    def _may_not_fill(self, work: Work, read: ReadWork) -> str:
        if (
            read.job is None
            and read.why != UNKNOWN_LENGTH
            and work.state is not WorkState.RESERVED
            and not is_parked(work)
        ):
            return read.why
        if read.overruns:
            return "its family ran longer than it said too often to fill gaps"
        earliest_ms = read.promise.earliest_start_ms
        return (
            "" if earliest_ms is None or earliest_ms <= self.now_ms else f"it is not before {self._local(earliest_ms)}"
        )

    def _wait_for_plan(self, work: Work) -> None:
        """It came after the plan was made; if it holds quota the next plan has to come soon."""
        since_ms = self.now_ms - (work.reserved_ms or self.now_ms)
        if work.state is WorkState.RESERVED and not 0 <= since_ms < PATIENCE_MS:
            self._hold(work, "the plan does not know it yet", None)
        else:
            self.held[work.uid] = "the plan does not know it yet"

    def _takes(self, work: Work, flavors: Mapping[str, int]) -> bool:
        """Take so much until the work is sure to have ended, where nothing that is planned needs it."""
        needs = self.limits.needs(work.cluster_queue, flavors)
        to_ms = self._end_ms(work, flavors)
        if not self._is_free(work, needs) or not self.over_time.fits(needs, self.limits.amounts, to_ms=to_ms):
            return False
        self._count(self.used, needs)
        self.over_time.add(needs, from_ms=self.now_ms, to_ms=to_ms)
        return True

    def _end_ms(self, work: Work, flavors: Mapping[str, int]) -> int:
        read = self.plan.read.get(work.uid)
        lengths = {one.flavor: one.duration_ms for one in read.job.shapes} if read and read.job else {}
        ends = [lengths.get(name) for name in flavors]
        known = [one for one in ends if one is not None]
        return self.now_ms + max(known) if known and len(known) == len(ends) else NEVER

    def _is_free(self, work: Work, needs: Needs) -> bool:
        """Whether so much is free now; what others ask for is, only for work that holds its quota already."""
        held = {} if work.holds_quota else self.asking
        return all(
            self.used[name] + held.get(name, 0) + gpus <= self.limits.amounts[name] for name, gpus in needs.items()
        )

    @staticmethod
    def _count(of: dict[str, int], needs: Needs, sign: int = 1) -> None:
        for name, gpus in needs.items():
            of[name] += sign * gpus

    # What keeps work back, and what lets it go.

    def _blocked(self, work: Work) -> str:
        """What else than GPUs and time it waits for; "" for nothing."""
        others = [one for one in work.gates if one != PLAN]
        if others and not work.holds_quota:
            return f"another gate holds it: {', '.join(others)}"
        if PLAN in work.gates and not work.holds_quota and 0 <= self.now_ms - work.created_ms < self.manner.settle_ms:
            return "it has only just come, and others may come with it"
        read = self.plan.read.get(work.uid)
        for name in read.promise.after if read is not None else ():
            if f"{work.namespace}/{name}" in self.open:
                return f"it comes after {name}, which has not ended"
        return "Kueue finds too little of something else than GPUs" if _lacks_other(work) else ""

    def _flavors(self, work: Work) -> Mapping[str, int]:
        """The flavors that Kueue gave it, or is going to give it: the first one, in the queue's order, with free quota.

        None of it where no quota is free: then Kueue gives it nothing, and it starts nowhere.
        """
        if work.state is WorkState.RESERVED:
            return work.held
        read = self.plan.read.get(work.uid)
        for flavor in read.flavors if read is not None else ():
            quotas = self.limits.quotas(work.cluster_queue, flavor)
            if all(self.used[name] + work.gpus <= self.limits.amounts[name] for name in quotas):
                return {flavor: work.gpus}
        return {}

    def _start(self, work: Work, said: str) -> None:
        asked = pending_checks(work, self.checks)
        wanted = self._wanted(work)
        if asked:
            # It is used from now on.
            self._count(self.asking, self.limits.needs(work.cluster_queue, work.held), sign=-1)
            place = self.plan.places.get(work.id)
            self.actions.append(
                Ready(
                    work=work,
                    checks=asked,
                    said=said,
                    planned_ms=None if place is None else place.start_ms,
                    first_ms=self.plan.first_starts.get(work.uid),
                )
            )
        elif is_parked(work):
            self.actions.append(Return(work=work, said=said))
        elif PLAN in work.gates:
            self.actions.append(Release(work=work, said=said))
        elif wanted is not None:
            self.actions.append(MoveQueue(work=work, queue=wanted, said=said))

    def _hold(self, work: Work, why: str, place: Place | None) -> None:
        self.held[work.uid] = why
        if pending_checks(work, self.checks):
            self._park(work, place)

    def _park(self, work: Work, place: Place | None) -> None:
        start_ms = None if place is None else place.start_ms
        why = self.held.get(work.uid, "")
        said = f"Parked before it started, without quota: {why}." if why else "Parked before it started, without quota."
        if start_ms is not None and start_ms > self.now_ms:
            said = f"Parked before it started, without quota: it is planned for {self._local(start_ms)}."
        self.held.setdefault(work.uid, "it is planned for later")
        self.parks.append(Park(work=work, until_ms=start_ms, said=said))

    def _is_kept(self, work: Work) -> bool:
        return PLAN in work.gates or is_parked(work) or self._wanted(work) is not None

    def _wanted(self, work: Work) -> str | None:
        return wanted_queue(work, self.stops)

    def _local(self, at_ms: int | None) -> str:
        return "" if at_ms is None else format_local(at_ms, self.manner.zone)


def _lacks_other(work: Work) -> bool:
    """Whether Kueue says of work that may have quota that something lacks, and names no GPUs."""
    if work.state is not WorkState.WAITING or work.gates or not work.active:
        return False
    said = work.said
    return "insufficient" in said and not any(is_gpu_resource(word.strip(",;")) for word in said.split())
