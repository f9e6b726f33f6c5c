"""What is started when, on Kueue's contract in virtual time."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from doubles.enforced import TERMS, Enforced
from doubles.kueue_contract import BEGIN, KueueContract, Submitted, planned_queue
from gpuyield.controller.actions import Park, Ready, Release, Say
from gpuyield.controller.decide import decide
from gpuyield.controller.places import Place, PlanInForce
from gpuyield.decide.live.problem import live_problem
from gpuyield.units import MINUTE_MS, SECOND_MS

MINUTE = 60


def job(name: str, gpus: int, seconds: int, *, said: int | None = None, gated: bool = True, **ours: str) -> Submitted:
    """A job that runs for so many seconds, and says so unless `said` is another figure (0: it says nothing)."""
    declared = seconds if said is None else said
    length = {"expected-duration": f"{declared}s"} if declared else {}
    annotations = {**length, **{key.replace("_", "-"): text for key, text in ours.items()}}
    return Submitted(name=name, gpus=gpus, runs_ms=seconds * SECOND_MS, gated=gated, annotations=annotations)


def cluster(gpus: int = 4, *, honours_gates: bool = True) -> KueueContract:
    """One planned queue with the quota of one node."""
    return KueueContract([planned_queue("main", {"h100": gpus})], {"h100": gpus}, honours_gates=honours_gates)


def begins(there: KueueContract) -> dict[str, list[int]]:
    """Seconds from the beginning at which each job began."""
    return {one.name: [(at - BEGIN) // SECOND_MS for at in one.begins] for one in there.jobs.values()}


def test_four_jobs_of_two_gpus_run_two_and_two_on_four_gpus() -> None:
    there = cluster()
    for name in "abcd":
        there.submit(job(name, 2, 8, deadline="within 30s"))

    Enforced(there).run(BEGIN + MINUTE_MS)

    found = begins(there)
    assert sorted(at for one in found.values() for at in one) == [0, 0, 8, 8]
    assert all(one.ended_ms is not None and one.ended_ms <= BEGIN + 30_000 for one in there.jobs.values())
    assert there.most_used == {"h100": 4}
    assert not any(one.evictions for one in there.work.values())


def test_what_the_next_job_needs_is_kept_free_although_an_older_one_could_start() -> None:
    there = cluster()
    there.submit(job("runs", 2, 60))
    enforced = Enforced(there)
    enforced.run(BEGIN + 5_000)
    there.submit(job("long", 2, 600))
    there.submit(job("wide", 4, 60, deadline="within 2m30s"))

    enforced.run(BEGIN + 15 * MINUTE_MS)

    found = begins(there)
    assert found["wide"] == [60]
    assert found["long"] == [120]


def test_work_of_unknown_length_fills_only_what_nothing_planned_needs() -> None:
    there = cluster()
    there.submit(job("runs", 2, 60))
    enforced = Enforced(there)
    enforced.run(BEGIN + SECOND_MS)
    there.submit(job("wide", 4, 60, deadline="within 3m"))
    there.submit(job("unknown", 1, 30, said=0))

    enforced.run(BEGIN + 4 * MINUTE_MS)

    assert begins(there) == {"runs": [0], "wide": [60], "unknown": [120]}


def test_an_ungated_job_that_would_delay_a_planned_one_is_parked_before_it_starts_and_comes_back() -> None:
    there = cluster()
    there.submit(job("runs", 2, 60))
    enforced = Enforced(there)
    enforced.run(BEGIN + SECOND_MS)
    there.submit(job("wide", 4, 60, deadline="within 2m30s"))
    enforced.run(BEGIN + 3_000)
    there.submit(job("late", 2, 90, gated=False))

    enforced.run(BEGIN + 5 * MINUTE_MS)

    assert any(isinstance(one, Park) and one.work.name == "late" for one in enforced.written)
    assert begins(there) == {"runs": [0], "wide": [60], "late": [120]}
    assert there.jobs["evals/late"].stopped == []


def test_an_ungated_job_that_ends_before_anything_planned_needs_its_gpus_starts_at_once() -> None:
    there = cluster()
    there.submit(job("runs", 2, 60))
    enforced = Enforced(there)
    enforced.run(BEGIN + SECOND_MS)
    there.submit(job("wide", 4, 60, deadline="within 3m"))
    enforced.run(BEGIN + 3_000)
    there.submit(job("short", 2, 20, gated=False))

    enforced.run(BEGIN + 4 * MINUTE_MS)

    assert begins(there) == {"runs": [0], "short": [4], "wide": [60]}


@pytest.mark.parametrize(("said", "takes"), [(30, 90), (60, 20)], ids=["overruns", "ends early"])
def test_what_follows_starts_when_the_one_before_it_has_ended_however_long_that_took(said: int, takes: int) -> None:
    there = cluster()
    there.submit(job("first", 4, takes, said=said))
    enforced = Enforced(there)
    enforced.run(BEGIN + SECOND_MS)
    there.submit(job("next", 4, 30))

    enforced.run(BEGIN + 4 * MINUTE_MS)

    assert begins(there) == {"first": [0], "next": [takes]}
    assert there.jobs["evals/first"].stopped == []


def test_an_evicted_job_comes_back_when_its_time_comes_and_not_before() -> None:
    there = cluster()
    there.submit(job("victim", 4, 60))
    enforced = Enforced(there)
    enforced.run(BEGIN + 10_000)
    there.submit(job("urgent", 4, 30, deadline="within 35s"))
    there.evict("evals/victim")

    enforced.run(BEGIN + 4 * MINUTE_MS)

    assert begins(there) == {"victim": [0, 40], "urgent": [10]}


def test_a_predecessor_that_has_not_ended_holds_its_successor_whatever_the_time() -> None:
    there = cluster()
    there.submit(job("first", 1, 50, said=10))
    there.submit(job("second", 1, 10, after="first"))

    Enforced(there).run(BEGIN + 2 * MINUTE_MS)

    assert begins(there) == {"first": [0], "second": [50]}


def test_no_gate_is_taken_away_before_the_quota_that_a_parked_job_asked_for_is_given_back() -> None:
    there = cluster()
    there.submit(job("asks", 2, 600, said=0, gated=False))
    there.settle()
    there.submit(job("planned", 4, 60))
    enforced = Enforced(there)

    first, second = enforced.round(), enforced.round()

    assert [(type(one), one.work.name) for one in first.actions if not isinstance(one, Say)] == [(Park, "asks")]
    assert [(type(one), one.work.name) for one in second.actions if not isinstance(one, Say)] == [(Release, "planned")]
    assert enforced.in_vain == []


def test_a_queue_borrows_what_its_cohort_does_not_use_and_the_lender_waits_for_nobody_else() -> None:
    halves = [planned_queue(name, {"h100": 2}, cohort="all") for name in ("main", "other")]
    there = KueueContract(halves, {"h100": 4})
    there.submit(job("borrows", 4, 60))
    enforced = Enforced(there)
    enforced.run(BEGIN + SECOND_MS)
    lender = job("lender", 2, 30)
    lender.queue = "other"
    there.submit(lender)

    enforced.run(BEGIN + 2 * MINUTE_MS)

    assert begins(there) == {"borrows": [0], "lender": [60]}
    assert not any(one.stopped for one in there.jobs.values())


def test_what_needs_more_than_the_second_flavor_has_waits_for_the_first_and_smaller_work_takes_the_second() -> None:
    both = {"h100": 4, "a100": 2}
    there = KueueContract([planned_queue("main", both)], both)
    there.submit(job("runs", 4, 60))
    enforced = Enforced(there)
    enforced.run(BEGIN + SECOND_MS)
    there.submit(job("wide", 4, 60))
    there.submit(job("small", 2, 30))

    enforced.run(BEGIN + 4 * MINUTE_MS)

    assert begins(there) == {"runs": [0], "wide": [60], "small": [1]}
    assert there.most_used == {"h100": 4, "a100": 2}


def test_while_a_queue_is_on_hold_no_gate_is_taken_away_and_afterwards_all_goes_on() -> None:
    there = cluster()
    there.queues["main"] = replace(there.queues["main"], stopped="Hold")
    there.submit(job("waits", 4, 30))
    enforced = Enforced(there)
    enforced.run(BEGIN + 10_000)
    written = list(enforced.written)
    there.queues["main"] = replace(there.queues["main"], stopped="")

    enforced.run(BEGIN + MINUTE_MS)

    assert written == []
    assert begins(there) == {"waits": [10]}


def test_what_somebody_else_switched_off_or_gated_stays_as_it_is() -> None:
    there = cluster()
    there.submit(job("off", 1, 10))
    there.submit(job("gated", 1, 10))
    there.put(replace(there.work["evals/off"], active=False))
    there.put(replace(there.work["evals/gated"], gates=("example.com/theirs", "gpuyield.dev/plan")))

    Enforced(there).run(BEGIN + MINUTE_MS)

    assert begins(there) == {"off": [], "gated": []}


def test_a_gate_that_is_ignored_holds_nothing_and_the_check_alone_keeps_the_plan() -> None:
    there = cluster(honours_gates=False)
    for name in "abcd":
        there.submit(job(name, 2, 8, deadline="within 30s"))

    Enforced(there).run(BEGIN + MINUTE_MS)

    assert sorted(at for one in begins(there).values() for at in one) == [0, 0, 8, 8]
    assert not any(one.stopped for one in there.jobs.values())


def test_the_same_snapshot_and_plan_give_the_same_decision_and_nothing_is_written_where_nothing_changes() -> None:
    there = cluster()
    there.submit(job("runs", 4, 600))
    there.submit(job("waits", 4, 60))
    enforced = Enforced(there)
    enforced.run(BEGIN + 5_000)

    one, other = enforced.round(), enforced.round()

    assert one == other
    assert [action for action in one.actions if not isinstance(action, Say)] == []


def test_who_waits_is_told_when_it_starts_and_others_jobs_are_not_named() -> None:
    there = cluster()
    hidden = job("secret", 4, 600)
    hidden.namespace = "train"
    there.submit(hidden)
    enforced = Enforced(there)
    enforced.run(BEGIN + SECOND_MS)
    there.submit(job("mine", 4, 60, deadline="within 1h"))

    enforced.run(BEGIN + 3_000)

    said = [one.said for one in enforced.said if one.work.name == "mine"][-1]
    assert "Planned for 1 Dec 00:10 on h100, to end 1 Dec 00:11, 49 m 1 s before its deadline." in said
    assert "another team's job" in said
    assert "secret" not in said
    assert said.endswith("Next: kubectl gpuyield explain job/mine -n evals")


def test_ten_thousand_workloads_are_decided_on_in_half_a_second_of_processor_time() -> None:
    queues = [planned_queue(f"q{number}", {"h100": 400}) for number in range(20)]
    there = KueueContract(queues, {"h100": 8_000})
    for number in range(10_000):
        one = job(f"j{number}", 1 + number % 8, 600)
        one.queue = f"q{number % 20}"
        there.submit(one)
    seen = there.snapshot()
    starts = {one.id: BEGIN + number // 1_000 * 600_000 for number, one in enumerate(seen.work)}
    plan = PlanInForce(
        places={
            name: Place(start_ms=at_ms, end_ms=at_ms + 600_000, flavor="h100", status="on_time")
            for name, at_ms in starts.items()
        },
        read={one.work.uid: one for one in live_problem(seen, TERMS).work},
    )
    decide(seen, plan, BEGIN)  # Every sentence of a plan is put in words once.

    took = []
    for _ in range(3):
        before = time.process_time()
        decision = decide(seen, plan, BEGIN)
        took.append(time.process_time() - before)

    assert sum(isinstance(one, Release) for one in decision.actions) == 1_000
    assert len(decision.held) == 9_000
    assert min(took) < 0.5


def test_gpus_planned_for_a_job_that_comes_later_are_not_filled_by_work_of_unknown_length() -> None:
    there = cluster()
    there.submit(job("unknown", 2, 30, said=0))
    later = Place(
        start_ms=BEGIN + MINUTE_MS, end_ms=BEGIN + 2 * MINUTE_MS, flavor="h100", gpus=4, status="planned", why=""
    )
    enforced = Enforced(there)
    enforced.round()
    assert enforced.plan is not None

    alone = decide(there.snapshot(), PlanInForce(places={}, read=enforced.plan.read), BEGIN)
    beside = decide(there.snapshot(), PlanInForce(places={"evals/nightly-1": later}, read=enforced.plan.read), BEGIN)

    assert [type(one) for one in alone.actions if not isinstance(one, Say)] in ([Release], [Ready])
    assert [one for one in beside.actions if not isinstance(one, Say | Park)] == []
