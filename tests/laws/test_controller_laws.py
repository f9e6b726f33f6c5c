"""Laws of enforcement, over random arrivals, ends, evictions, quotas and failures, on Kueue's contract."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from doubles.enforced import Enforced
from doubles.kueue_contract import BEGIN, KueueContract, Submitted, planned_queue
from gpuyield.controller.actions import Action, Say
from gpuyield.model.kueue import WorkState
from gpuyield.units import SECOND_MS
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


@dataclass(frozen=True)
class Trouble:
    """Something unforeseen, at a second: an eviction, half the quota for a while, a controller that is killed."""

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
)
troubles = st.builds(
    Trouble, at=st.integers(1, 80), kind=st.sampled_from(["evict", "halve", "kill", "pause"]), which=st.integers(0, 7)
)


def submitted(one: Arrival, number: int) -> Submitted:
    length = {"expected-duration": f"{one.says}s"} if one.says else {}
    deadline = {} if one.within is None else {"deadline": f"within {one.within}s"}
    return Submitted(
        name=f"j{number}",
        gpus=one.gpus,
        runs_ms=one.runs * SECOND_MS,
        gated=one.gated,
        annotations={**length, **deadline},
    )


def run(jobs: list[Arrival], trouble: list[Trouble], lost: list[bool], *, honours_gates: bool) -> Enforced:
    """All of it, until everything can have ended twice over."""
    there = KueueContract([planned_queue("main", {"h100": _GPUS})], {"h100": _GPUS}, honours_gates=honours_gates)
    fates = iter(lost)
    enforced = Enforced(there, may_write=lambda action: not next(fates, False))
    paused_until = 0
    end = 120 + 3 * sum(one.runs for one in jobs)
    for second in range(end):
        there.pass_time(BEGIN + second * SECOND_MS)
        for number, one in enumerate(jobs):
            if one.at == second:
                there.submit(submitted(one, number))
        for event in (each for each in trouble if each.at == second):
            name = f"evals/j{event.which}"
            if event.kind == "evict" and name in there.work:
                there.evict(name)
            elif event.kind == "halve":
                there.set_quota("main", _GPUS // 2)
            elif event.kind == "kill":
                enforced.forget()
            elif event.kind == "pause":
                paused_until = second + 1 + event.which
        if second == 90:
            there.set_quota("main", _GPUS)
        if second >= paused_until:
            enforced.rounds()
    return enforced


@pytest.mark.sized_laws
@settings(max_examples=_EXAMPLES, deadline=None)
@given(
    jobs=st.lists(arrivals, min_size=1, max_size=7),
    trouble=st.lists(troubles, max_size=4),
    lost=st.lists(st.booleans(), max_size=30),
    honours_gates=st.booleans(),
)
def test_nothing_is_started_and_stopped_by_us_and_nothing_is_stuck(
    jobs: list[Arrival], trouble: list[Trouble], lost: list[bool], honours_gates: bool
) -> None:
    enforced = run(jobs, trouble, lost, honours_gates=honours_gates)

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


def test_ten_thousand_workloads_are_decided_on() -> None:
    there = KueueContract([planned_queue("main", {"h100": 8})], {"h100": 8})
    for number in range(300):
        there.submit(submitted(Arrival(0, 1 + number % 4, 30, 30, None, gated=True), number))
    enforced = Enforced(there)

    decision = enforced.round()

    assert 2 <= len(writes(decision.actions)) <= 8
    assert sum(one.state is WorkState.WAITING for one in there.work.values()) >= 290
