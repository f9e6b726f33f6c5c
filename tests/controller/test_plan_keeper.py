"""The plan in force follows the cluster, is verified and stored, and survives a torn store and a refused plan."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from threading import Event

import pytest

from doubles.kueue_objects import NOW, Object, flavor, job, local_queue, node, queue, seen, workload
from gpuyield.controller.live_plan import make_live_plan
from gpuyield.controller.plan_keeper import BEAT_MS, GRACE_MS, LOOK_MS, InForce, PlanKeeper
from gpuyield.controller.plan_parts import Pointer, StoredPlan, TornStore, digest_of, pack, unpack
from gpuyield.decide.live.jobs import LiveTerms
from gpuyield.errors import SourceError
from gpuyield.model.declaration import Declaration
from gpuyield.model.kueue import ClusterSnapshot, Work
from gpuyield.units import HOUR_MS, MINUTE_MS

TERMS = LiveTerms(declaration=Declaration(), history=lambda family: None, stem=lambda name: name)


@dataclass
class KeptInMemory:
    """A plan store without a cluster."""

    now: Pointer | None = None
    pieces: tuple[bytes, ...] = ()
    written: list[StoredPlan] = field(default_factory=list)
    out_of_reach: bool = False
    reads: int = 0

    def pointer(self) -> Pointer | None:
        if self.out_of_reach:
            raise SourceError("out of reach.", where="store")
        return self.now

    def read(self, pointer: Pointer) -> StoredPlan:
        try:
            return unpack(pointer, self.pieces)
        finally:
            self.reads += 1

    def write(self, plan: StoredPlan) -> Pointer:
        if self.out_of_reach:
            raise SourceError("out of reach.", where="store")
        self.put(plan)
        self.written.append(plan)
        assert self.now is not None
        return self.now

    def put(self, plan: StoredPlan) -> None:
        self.pieces = pack(plan)
        names = tuple(f"gpuyield-plan-{at}" for at in range(len(self.pieces)))
        self.now = Pointer(
            generation=plan.generation, digest=digest_of(self.pieces), pieces=names, by=plan.by or "somebody"
        )

    def tear(self) -> None:
        """As if half of it had been written by another."""
        assert self.now is not None
        self.pieces = tuple(one[:-3] for one in self.pieces)
        self.now = replace(self.now, generation=self.now.generation + 1)


def wait_until(holds: Callable[[], bool]) -> None:
    end_s = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < end_s
        time.sleep(0.01)


def no(work: Work) -> bool:
    return False


def keeper(store: KeptInMemory, *, writes: bool = True) -> PlanKeeper:
    return PlanKeeper(
        store,
        lambda seen: TERMS,
        is_parked=no,
        is_asked=no,
        time_limit=lambda: lambda: False,
        writes=writes,
        patience_s=None,
    )


def cluster(names: str = "ab", *, at_ms: int = NOW, running: Sequence[str] = (), gpus: int = 4) -> ClusterSnapshot:
    """Jobs of 4 GPUs for an hour each on 4 GPUs; those that run began half an hour before the fixed instant."""
    works: list[Object] = [workload(one, 4, on="h100" if one in running else "") for one in names]
    return seen(
        at_ms,
        resourceflavors=[flavor("h100")],
        clusterqueues=[queue("batch", {"h100": {"nominalQuota": gpus}})],
        localqueues=[local_queue("main", "batch")],
        nodes=[node("n0", gpus)],
        workloads=works,
        jobs=[job(one, expected_duration="1h", deadline="within 12h") for one in names],
    )


def starts(found: InForce | None) -> dict[str, int]:
    """Minutes from the fixed instant, by the last letter."""
    assert found is not None
    return {
        name[-1]: (place.start_ms - NOW) // MINUTE_MS
        for name, place in found.plan.places.items()
        if place.start_ms is not None
    }


def test_the_first_plan_is_made_verified_and_stored() -> None:
    store = KeptInMemory()
    keeping = keeper(store)

    found = keeping.keep(cluster(), NOW)

    assert sorted(starts(found).values()) == [0, 60]
    assert [(one.generation, one.by) for one in store.written] == [(1, "controller")]
    assert keeping.store_trouble == ""


def test_nothing_is_planned_or_written_while_nothing_changes() -> None:
    store = KeptInMemory()
    keeping = keeper(store)
    first = keeping.keep(cluster(running="a"), NOW)

    second = keeping.keep(cluster(running="a", at_ms=NOW + MINUTE_MS - 1), NOW + MINUTE_MS - 1)

    assert second is not None
    assert first is not None
    assert second.document == first.document
    assert (keeping.tally.replans, len(store.written)) == (1, 1)


@pytest.mark.parametrize(
    ("later_ms", "names", "gpus"),
    [
        (1_000, "abc", 4),
        (1_000, "b", 4),
        (1_000, "ab", 8),
        (BEAT_MS, "ab", 4),
        (30 * MINUTE_MS + GRACE_MS, "ab", 4),
    ],
    ids=["arrival", "finish", "capacity", "beat", "an end of which nothing is seen"],
)
def test_the_plan_is_made_anew_when_it_may_no_longer_hold(later_ms: int, names: str, gpus: int) -> None:
    keeping = keeper(KeptInMemory())
    keeping.keep(cluster(running="a"), NOW)
    later = NOW + later_ms

    keeping.keep(cluster(names, running="a", at_ms=later, gpus=gpus), later)

    assert keeping.tally.replans == 2


def test_a_beat_that_changes_no_start_writes_nothing() -> None:
    store = KeptInMemory()
    keeping = keeper(store)
    keeping.keep(cluster(running="a"), NOW)

    keeping.keep(cluster(running="a", at_ms=NOW + BEAT_MS), NOW + BEAT_MS)

    assert (keeping.tally.replans, len(store.written)) == (2, 1)


def test_a_plan_that_did_not_change_is_the_same_one() -> None:
    keeping = keeper(KeptInMemory())
    first = keeping.keep(cluster(running="a"), NOW)

    second = keeping.keep(cluster(running="a", at_ms=NOW + BEAT_MS), NOW + BEAT_MS)

    assert first is not None
    assert second is not None
    assert second.stored is first.stored


def test_the_first_start_of_a_job_outlives_later_plans_and_leaders() -> None:
    store = KeptInMemory()
    keeping = keeper(store)
    keeping.keep(cluster("ab", running="a"), NOW)
    later = NOW + 30 * MINUTE_MS + GRACE_MS

    moved = keeping.keep(cluster("ab", running="a", at_ms=later), later)
    next_one = keeper(store).keep(cluster("ab", running="a", at_ms=later), later)

    assert moved is not None
    assert [one.start_ms for name, one in moved.plan.places.items() if name.endswith("b")] == [later // 1000 * 1000]
    assert first_start(moved, "b") == first_start(next_one, "b") == NOW + 30 * MINUTE_MS


def test_a_first_start_whose_word_is_lost_is_not_known() -> None:
    store = KeptInMemory()
    first = keeper(store).keep(cluster("ab", running="a"), NOW)
    assert first is not None
    store.put(replace(first.stored, first_starts={}, by="somebody"))

    published = keeper(store).keep(cluster("abc", running="a", at_ms=NOW + 1_000), NOW + 1_000)
    torn = keeper(store)
    store.pieces = (b"torn",)
    torn_found = torn.keep(cluster("ab", running="a", at_ms=NOW + 2_000), NOW + 2_000)

    assert first_start(published, "b") is None
    assert first_start(torn_found, "b") is None


def first_start(found: InForce | None, name: str) -> int | None:
    """The first start of a job, by its letter."""
    assert found is not None
    (uid,) = [uid for uid, one in found.plan.read.items() if one.work.id.endswith(name)]
    return found.plan.first_starts.get(uid)


def test_the_next_leader_goes_on_with_the_plan_of_the_one_before() -> None:
    store = KeptInMemory()
    before = keeper(store).keep(cluster("abc", running="a"), NOW)

    after = keeper(store).keep(cluster("abc", running="a", at_ms=NOW + 5_000), NOW + 5_000)

    assert starts(after) == starts(before)


@pytest.mark.parametrize("meanwhile", ["nothing", "written", "torn", "mended"])
def test_what_was_read_ahead_is_used_where_it_is_still_what_the_store_holds(meanwhile: str) -> None:
    store = KeptInMemory()
    before = keeper(store).keep(cluster("abc"), NOW)
    assert before is not None
    assert store.written
    if meanwhile == "mended":
        store.tear()
    next_one = keeper(store)
    next_one.read_ahead()
    wait_until(lambda: store.reads > 0)
    if meanwhile == "written":
        longer = keeper(KeptInMemory()).keep(cluster("abcd"), NOW)
        assert longer is not None
        store.put(replace(longer.stored, generation=9, by="somebody"))
    if meanwhile == "mended":
        store.put(replace(before.stored, generation=9, by="somebody"))
    if meanwhile == "torn":
        store.tear()

    found = next_one.keep(cluster("abcd"), NOW)

    if meanwhile == "torn":
        assert (found is not None, next_one.tally.torn, next_one.tally.taken_over) == (True, 1, 0)
    else:
        assert found is not None
        assert found.stored.generation == (1 if meanwhile == "nothing" else 9)
        assert len(starts(found)) == (4 if meanwhile == "written" else 3)


def test_a_published_plan_is_taken_over_and_carried_on() -> None:
    store = KeptInMemory()
    keeping = keeper(store)
    mine = starts(keeping.keep(cluster("abc", running="a"), NOW))
    b_first = mine["b"] < mine["c"]
    other = keeper(KeptInMemory()).keep(cluster("ac" if b_first else "ab", running="a"), NOW)
    assert other is not None
    swapped = make_live_plan(cluster("abc", running="a"), TERMS, other.document, should_stop=lambda: False)
    store.put(replace(swapped.stored, generation=7, by="somebody"))

    found = keeping.keep(cluster("abc", running="a", at_ms=NOW + LOOK_MS), NOW + LOOK_MS)

    assert starts(found) == {"a": -30, "b": mine["c"], "c": mine["b"]}
    assert keeping.tally.taken_over == 1


def test_a_published_plan_that_does_not_stand_its_check_is_not_used() -> None:
    store = KeptInMemory()
    keeping = keeper(store)
    good = keeping.keep(cluster(running="a"), NOW)
    assert good is not None
    document = {**good.document, "jobs": [{**one, "segments": []} for one in good.document["jobs"]]}
    store.put(StoredPlan(document=document, inputs=good.stored.inputs, generation=9, by="somebody"))

    found = keeping.keep(cluster(running="a", at_ms=NOW + LOOK_MS), NOW + LOOK_MS)

    assert starts(found) == starts(good)
    assert keeping.tally.refused == 1
    assert (store.written[-1].by, store.written[-1].generation) == ("controller", 10)


def test_what_was_read_ahead_is_checked_too() -> None:
    store = KeptInMemory()
    good = keeper(store).keep(cluster(running="a"), NOW)
    assert good is not None
    document = {**good.document, "jobs": [{**one, "segments": []} for one in good.document["jobs"]]}
    store.put(StoredPlan(document=document, inputs=good.stored.inputs, generation=9, by="somebody"))
    next_one = keeper(store)
    next_one.read_ahead()

    found = next_one.keep(cluster(running="a"), NOW)

    assert starts(found) == starts(good)
    assert (next_one.tally.refused, next_one.tally.taken_over) == (1, 0)


def test_a_torn_store_is_found_out_and_the_last_good_plan_is_kept_and_written_anew() -> None:
    store = KeptInMemory()
    keeping = keeper(store)
    good = keeping.keep(cluster(running="a"), NOW)
    store.tear()
    torn = store.now
    assert torn is not None
    with pytest.raises(TornStore):
        store.read(torn)

    found = keeping.keep(cluster(running="a", at_ms=NOW + LOOK_MS), NOW + LOOK_MS)

    assert starts(found) == starts(good)
    assert (keeping.tally.torn, keeping.store_trouble) == (1, "")
    assert store.now is not None
    assert store.read(store.now).by == "controller"


def test_a_store_out_of_reach_is_told_and_the_plan_stays_in_force() -> None:
    store = KeptInMemory()
    keeping = keeper(store)
    good = keeping.keep(cluster(running="a"), NOW)
    store.out_of_reach = True

    found = keeping.keep(cluster(running="a", at_ms=NOW + LOOK_MS), NOW + LOOK_MS)

    assert starts(found) == starts(good)
    assert "out of reach" in keeping.store_trouble


def test_it_says_that_the_store_is_of_no_use_until_it_has_been_read() -> None:
    store = KeptInMemory(out_of_reach=True)
    keeping = keeper(store)

    keeping.keep(cluster(), NOW)

    assert keeping.store_trouble != ""


def test_a_dry_run_writes_nothing() -> None:
    store = KeptInMemory()

    found = keeper(store, writes=False).keep(cluster(), NOW)

    assert found is not None
    assert store.now is None


def test_a_plan_that_takes_long_does_not_keep_the_loop_waiting() -> None:
    ready = Event()

    def slowly(seen: ClusterSnapshot) -> LiveTerms:
        ready.wait(30)
        return TERMS

    keeping = PlanKeeper(
        KeptInMemory(),
        slowly,
        is_parked=no,
        is_asked=no,
        time_limit=lambda: lambda: False,
        patience_s=0,
    )

    before = keeping.keep(cluster(), NOW)
    ready.set()
    keeping.close(wait=True)
    after = keeping.keep(cluster(), NOW + 1)

    assert before is None
    assert sorted(starts(after).values()) == [0, 60]
    assert keeping.tally.replans == 1


def test_the_clock_may_jump_and_the_plan_follows() -> None:
    keeping = keeper(KeptInMemory())
    keeping.keep(cluster(at_ms=NOW + HOUR_MS), NOW + HOUR_MS)

    found = keeping.keep(cluster(), NOW)

    assert sorted(starts(found).values()) == [0, 60]
