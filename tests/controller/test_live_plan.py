"""The plan of a live cluster: verified from its own inputs, carried on from the one before, parked work planned too."""

from __future__ import annotations

from dataclasses import replace

import pytest

from doubles.kueue_objects import NOW, Object, flavor, job, local_queue, node, queue, seen, workload
from gpuyield.controller.live_plan import (
    MadePlan,
    as_to_plan,
    facts,
    is_same_plan,
    make_live_plan,
    next_change_ms,
)
from gpuyield.controller.places import PlanInForce
from gpuyield.decide.live.jobs import LiveTerms
from gpuyield.model.declaration import Declaration
from gpuyield.model.kueue import ClusterSnapshot
from gpuyield.units import HOUR_MS, MINUTE_MS, format_instant, parse_instant
from gpuyield.verify import check

TERMS = LiveTerms(declaration=Declaration(), history=lambda family: None, stem=lambda name: name)


def cluster(workloads: list[Object], jobs: list[Object], *, at_ms: int = NOW, gpus: int = 4) -> ClusterSnapshot:
    """A queue of 4 GPUs on one node."""
    return seen(
        at_ms,
        resourceflavors=[flavor("h100")],
        clusterqueues=[queue("batch", {"h100": {"nominalQuota": gpus}})],
        localqueues=[local_queue("main", "batch")],
        nodes=[node("n0", gpus)],
        workloads=workloads,
        jobs=jobs,
    )


def planned(of: ClusterSnapshot, before: MadePlan | None = None) -> MadePlan:
    return make_live_plan(of, TERMS, None if before is None else before.stored.document, should_stop=lambda: False)


def starts(made: MadePlan) -> dict[str, int]:
    """Minutes from the fixed instant."""
    return {
        one["id"]: (parse_instant(one["segments"][0][0]) - NOW) // MINUTE_MS
        for one in made.stored.document["jobs"]
        if one["segments"]
    }


FOUR = [workload(name, 2) for name in "abcd"]
THEIRS = [job(name, expected_duration="1h", deadline="within 4h") for name in "abcd"]


def test_four_jobs_of_two_gpus_run_two_by_two_and_the_plan_stands_the_check_of_a_stranger() -> None:
    made = planned(cluster(FOUR, THEIRS))

    assert sorted(starts(made).values()) == [0, 0, 60, 60]
    assert check(made.stored.document, made.stored.inputs).accepted


def test_what_has_started_is_kept_and_the_rest_stays_where_it_was() -> None:
    first = planned(cluster(FOUR, THEIRS))
    early = [name for name, start in starts(first).items() if start == 0]
    later = [
        workload(
            one["metadata"]["ownerReferences"][0]["name"],
            2,
            on="h100" if f"evals/{one['metadata']['ownerReferences'][0]['name']}" in early else "",
            admitted=format_instant(NOW),
        )
        for one in FOUR
    ]

    second = planned(cluster(later, THEIRS, at_ms=NOW + 10 * MINUTE_MS), first)

    assert starts(second) == starts(first)


def test_an_early_end_pulls_the_next_job_forward_and_says_why() -> None:
    first = planned(cluster([workload("a", 4, on="h100"), workload("b", 4)], THEIRS[:2]))
    assert starts(first)["evals/b"] == 30

    second = planned(cluster([workload("b", 4)], THEIRS[1:2], at_ms=NOW + 5 * MINUTE_MS), first)

    assert starts(second) == {"evals/b": 5}
    assert "earlier" in next(one["moved_because"] for one in second.stored.document["jobs"])


def test_work_that_asks_with_quota_does_not_push_aside_what_was_planned() -> None:
    asked = workload("late", 4, on="h100")
    asked["status"]["conditions"] = [one for one in asked["status"]["conditions"] if one["type"] != "Admitted"]
    both = cluster([asked, workload("urgent", 4)], [job("late", expected_duration="1h"), urgent()])

    there = as_to_plan(both, is_parked=no, is_asked=yes)

    assert starts(planned(there)) == {"evals/urgent": 0, "evals/late": 60}
    assert starts(planned(as_to_plan(both, is_parked=no, is_asked=no)))["evals/late"] == 0


def test_parked_work_is_planned_and_what_others_switched_off_is_not() -> None:
    off = cluster([workload("off", 4, active=False)], [job("off", expected_duration="1h")])

    ours = planned(as_to_plan(off, is_parked=yes, is_asked=no))
    theirs = planned(as_to_plan(off, is_parked=no, is_asked=no))

    assert starts(ours) == {"evals/off": 0}
    assert starts(theirs) == {}


def test_what_can_start_now_is_planned_for_now_and_not_for_the_next_second() -> None:
    at_ms = NOW + 437

    made = planned(as_to_plan(cluster(FOUR[:1], THEIRS[:1], at_ms=at_ms), is_parked=no, is_asked=no))

    assert parse_instant(made.stored.document["jobs"][0]["segments"][0][0]) == NOW


def test_a_job_that_may_be_paused_is_never_planned_with_pauses() -> None:
    asked = [job("a", expected_duration="3h", preemptible="3m"), urgent()]

    made = planned(cluster([workload("a", 4), workload("urgent", 4)], asked))

    assert all(len(one["segments"]) == 1 for one in made.stored.document["jobs"])


@pytest.mark.parametrize("at_ms", [NOW - 1, NOW, NOW + HOUR_MS])
def test_the_next_start_or_end_of_the_plan_is_when_it_is_looked_at_again(at_ms: int) -> None:
    made = planned(cluster(FOUR, THEIRS))

    expected = {NOW - 1: NOW, NOW: NOW + HOUR_MS, NOW + HOUR_MS: NOW + 2 * HOUR_MS}
    assert next_change_ms(PlanInForce.of(made.stored.document, {}).places.values(), at_ms) == expected[at_ms]


def test_facts_change_with_what_the_plan_rests_on_and_not_with_the_time() -> None:
    one = cluster(FOUR, THEIRS)

    assert facts(one) == facts(replace(one, at_ms=one.at_ms + 5))
    assert facts(one) != facts(cluster(FOUR[:3], THEIRS))
    assert facts(one) != facts(cluster(FOUR, THEIRS, gpus=2))
    assert facts(one) != facts(cluster(FOUR, [*THEIRS[:3], job("d", expected_duration="2h")]))


def test_plans_are_the_same_when_every_job_runs_at_the_same_time() -> None:
    first, second = planned(cluster(FOUR, THEIRS)), planned(cluster(FOUR[:3], THEIRS))

    assert is_same_plan(first.stored.document, planned(cluster(FOUR, THEIRS), first).stored.document)
    assert not is_same_plan(first.stored.document, second.stored.document)


def urgent() -> Object:
    return job("urgent", expected_duration="1h", deadline="within 2h30m")


def yes(work: object) -> bool:
    return True


def no(work: object) -> bool:
    return False


def test_a_job_that_runs_beyond_its_deadline_is_late_and_the_plan_stands_its_check() -> None:
    late = cluster(
        [workload("late", 4, on="h100"), workload("next", 4)],
        [
            job("late", expected_duration="1h", deadline="within 40m"),
            job("next", expected_duration="1h", deadline="within 9h"),
        ],
    )

    made = planned(late)

    assert check(made.stored.document, made.stored.inputs).accepted
    assert {one["id"]: one["status"] for one in made.stored.document["jobs"]} == {
        "evals/late": "late",
        "evals/next": "planned",
    }
