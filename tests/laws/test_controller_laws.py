"""Laws of enforcement, over random arrivals, ends, evictions, quotas and failures, on Kueue's contract."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from doubles.enforced import Enforced
from doubles.kueue_contract import BEGIN, KueueContract, Submitted, planned_queue
from gpuyield.controller.actions import Action, Say
from gpuyield.units import MINUTE_MS, SECOND_MS
from laws.sizes import size

_EXAMPLES = size(default=6, sample=40, full=1_000)
_GPUS = 4


@dataclass(frozen=True)
class Arrival:
    """A job: when it comes, its size, how long it runs and says to run (0: it says nothing), its deadline."""

    at: int
    gpus: int
    runs: int
    says: int
    within: int | None
    gated: bool
    queue: int = 0


@dataclass(frozen=True)
class Trouble:
    """Something unforeseen, at a second.

    An eviction, half the quota for a while, a controller that is killed or hangs, its clock far ahead or behind for a
    while, its last writes arriving again.
    """

    at: int
    kind: str
    which: int


arrivals = st.builds(
    Arrival,
    at=st.integers(0, 40),
    gpus=st.integers(1, _GPUS),
    runs=st.integers(1, 40),
    says=st.sampled_from([0, 5, 10, 20, 40]),
    within=st.none() | st.integers(10, 200),
    gated=st.booleans(),
    queue=st.integers(0, 1),
)
_KINDS = ["evict", "halve", "kill", "pause", "ahead", "behind", "repeat"]
troubles = st.builds(Trouble, at=st.integers(1, 80), kind=st.sampled_from(_KINDS), which=st.integers(0, 7))
clusters = st.sampled_from(["one queue", "cohort", "two flavors"])


def cluster(kind: str, *, honours_gates: bool = True) -> KueueContract:
    """One queue; or two that lend each other what they have; or one with a few slower GPUs besides."""
    if kind == "cohort":
        halves = [planned_queue(name, {"h100": _GPUS // 2}, cohort="all") for name in ("main", "other")]
        return KueueContract(halves, {"h100": _GPUS}, honours_gates=honours_gates)
    gpus = {"h100": _GPUS} if kind == "one queue" else {"h100": _GPUS, "a100": 2}
    return KueueContract([planned_queue("main", gpus)], gpus, honours_gates=honours_gates)


def quota(there: KueueContract, *, halved: bool) -> None:
    """All quotas as they were, or half of them."""
    for one in tuple(there.queues.values()):
        usual = _GPUS if len(there.queues) == 1 else _GPUS // 2
        there.set_quota(one.name, usual // 2 if halved else usual)


def submitted(one: Arrival, number: int, queue: str = "main") -> Submitted:
    length = {"expected-duration": f"{one.says}s"} if one.says else {}
    deadline = {} if one.within is None else {"deadline": f"within {one.within}s"}
    return Submitted(
        name=f"j{number}",
        gpus=one.gpus,
        runs_ms=one.runs * SECOND_MS,
        gated=one.gated,
        queue=queue,
        annotations={**length, **deadline},
    )


def run(
    jobs: list[Arrival], trouble: list[Trouble], lost: list[bool], there: KueueContract, *, kueue_first: bool = False
) -> Enforced:
    """All of it, until everything can have ended twice over.

    With `kueue_first` Kueue looks at what arrives before we do.
    """
    names = list(there.queues)
    fates = iter(lost)
    enforced = Enforced(there, may_write=lambda action: not next(fates, False))
    paused_until = 0
    for second in range(120 + 3 * sum(one.runs for one in jobs)):
        there.pass_time(BEGIN + second * SECOND_MS)
        for number, one in enumerate(jobs):
            if one.at == second:
                there.submit(submitted(one, number, names[one.queue % len(names)]))
        if kueue_first:
            there.settle()
        for event in (each for each in trouble if each.at == second):
            happen(event, enforced)
            if event.kind == "pause":
                paused_until = second + 1 + event.which
        if second == 90:
            quota(there, halved=False)
            enforced.skew_ms = 0
        if second >= paused_until:
            enforced.rounds()
    return enforced


def happen(event: Trouble, enforced: Enforced) -> None:
    """What is unforeseen happens; a pause is the caller's."""
    name = f"evals/j{event.which}"
    match event.kind:
        case "evict":
            if name in enforced.cluster.work:
                enforced.cluster.evict(name)
        case "halve":
            quota(enforced.cluster, halved=True)
        case "kill":
            enforced.forget()
        case "repeat":
            enforced.repeat(1 + event.which)
        case "ahead":
            enforced.skew_ms = (1 + event.which) * MINUTE_MS
        case "behind":
            enforced.skew_ms = -(1 + event.which) * MINUTE_MS


@pytest.mark.sized_laws
@settings(max_examples=_EXAMPLES, deadline=None)
@given(
    jobs=st.lists(arrivals, min_size=1, max_size=7),
    trouble=st.lists(troubles, max_size=4),
    lost=st.lists(st.booleans(), max_size=30),
    kind=clusters,
    honours_gates=st.booleans(),
)
def test_nothing_is_started_and_stopped_by_us_and_nothing_is_stuck(
    jobs: list[Arrival], trouble: list[Trouble], lost: list[bool], kind: str, honours_gates: bool
) -> None:
    enforced = run(jobs, trouble, lost, cluster(kind, honours_gates=honours_gates))

    for job in enforced.cluster.jobs.values():
        evicted = enforced.cluster.work[job.id].evictions
        assert len(job.stopped) <= evicted, f"{job.name} was stopped, and nobody evicted it"
        assert len(job.begins) == 1 + len(job.stopped), f"{job.name} began {len(job.begins)} times"
        assert job.ended_ms is not None, f"{job.name} is stuck: {enforced.round().held.get(f'uid-{job.id}')}"


@pytest.mark.sized_laws
@settings(max_examples=_EXAMPLES, deadline=None)
@given(jobs=st.lists(arrivals, min_size=1, max_size=7))
def test_where_all_is_as_declared_no_deadline_is_missed_that_the_first_plan_kept(jobs: list[Arrival]) -> None:
    there = KueueContract([planned_queue("main", {"h100": _GPUS})], {"h100": _GPUS})
    for number, one in enumerate(jobs):
        there.submit(submitted(Arrival(0, one.gpus, one.runs, one.runs, one.within, gated=True), number))
    enforced = Enforced(there)
    enforced.round()
    assert enforced.plan is not None
    promised = {
        name: max(place.end_ms, place.deadline_ms)
        for name, place in enforced.plan.places.items()
        if place.end_ms is not None and place.deadline_ms is not None
    }

    enforced.run(BEGIN + 400 * SECOND_MS)

    for name, limit_ms in promised.items():
        ended_ms = there.jobs[name].ended_ms
        assert ended_ms is not None
        assert ended_ms <= limit_ms


@pytest.mark.sized_laws
@settings(max_examples=_EXAMPLES, deadline=None)
@given(jobs=st.lists(arrivals, min_size=1, max_size=7), at=st.integers(0, 60))
def test_deciding_again_changes_nothing_and_once_all_is_written_nothing_is_left_to_write(
    jobs: list[Arrival], at: int
) -> None:
    there = KueueContract([planned_queue("main", {"h100": _GPUS})], {"h100": _GPUS})
    for number, one in enumerate(jobs):
        there.submit(submitted(one, number))
    enforced = Enforced(there)
    enforced.run(BEGIN + at * SECOND_MS)

    first, again = enforced.round(), enforced.round()

    assert first == again
    assert writes(first.actions) == []


def writes(actions: tuple[Action, ...]) -> list[Action]:
    return [one for one in actions if not isinstance(one, Say)]


@pytest.mark.sized_laws
@settings(max_examples=_EXAMPLES, deadline=None)
@given(jobs=st.lists(arrivals, min_size=1, max_size=7), trouble=st.lists(troubles, max_size=4), kind=clusters)
@example(
    jobs=[
        *(Arrival(at=0, gpus=1, runs=1, says=0, within=None, gated=False) for _ in range(3)),
        Arrival(at=0, gpus=2, runs=1, says=0, within=None, gated=True),
        Arrival(at=0, gpus=3, runs=1, says=0, within=None, gated=False),
        Arrival(at=2, gpus=2, runs=1, says=5, within=None, gated=False),
        Arrival(at=2, gpus=3, runs=1, says=0, within=None, gated=False),
    ],
    trouble=[Trouble(at=1, kind="behind", which=0)],
    kind="one queue",
)
def test_whatever_is_let_go_gets_its_quota_at_once(jobs: list[Arrival], trouble: list[Trouble], kind: str) -> None:
    enforced = run(jobs, trouble, [], cluster(kind), kueue_first=True)

    assert enforced.in_vain == []
    assert all(most <= enforced.cluster.gpus[flavor] for flavor, most in enforced.cluster.most_used.items())
