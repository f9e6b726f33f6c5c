"""What becomes of jobs before they are submitted."""

from __future__ import annotations

from doubles.kueue_objects import NOW, Object, clock, flavor, job, local_queue, node, queue, seen, workload
from gpuyield.decide.live.foreign import Foreign
from gpuyield.decide.live.jobs import LiveTerms
from gpuyield.decide.live.problem import live_problem
from gpuyield.decide.live.submitted import (
    NO_DEADLINE,
    NO_LENGTH,
    Submitted,
    freed,
    missing,
    mistakes_of,
    submitted,
    with_submitted,
)
from gpuyield.model.declaration import Declaration
from gpuyield.model.kueue import ClusterSnapshot, PodSet, Recurring, Work, WorkState
from gpuyield.plan import continue_plan, make_plan
from gpuyield.units import HOUR_MS

TERMS = LiveTerms(declaration=Declaration(), history=lambda family: None, stem=lambda name: name)


def cluster(workloads: list[Object], jobs: list[Object]) -> ClusterSnapshot:
    return seen(
        resourceflavors=[flavor("h100", gpu="h100")],
        clusterqueues=[queue("batch", {"h100": {"nominalQuota": 4}})],
        localqueues=[local_queue("main", "batch"), local_queue("main", "batch", namespace="secret")],
        nodes=[node("n0", 4, gpu="h100")],
        workloads=workloads,
        jobs=jobs,
    )


def new(name: str, gpus: int, *, queue: str = "main", **annotations: str) -> Work:
    written = {f"gpuyield.dev/{key.replace('_', '-')}": text for key, text in annotations.items()}
    return Work(
        namespace="evals",
        name=name,
        workload=name,
        kind="Job",
        uid=name,
        created_ms=NOW,
        queue=queue,
        cluster_queue=None,
        pod_sets=(PodSet(name="main", count=1, gpus=gpus),),
        state=WorkState.WAITING,
        annotations=written,
    )


def asked(there: ClusterSnapshot, *work: Work) -> dict[str, Submitted]:
    """What `what-if` finds out, without any clock."""
    before, after = live_problem(there, TERMS), live_problem(with_submitted(there, work, ()), TERMS)
    old = {one.id: one.run for one in make_plan(before.problem, seed=0).jobs if one.run is not None}
    plan = continue_plan(after.problem, old, seed=0)
    late = missing(plan, [one.id for one in work])
    earliest = continue_plan(freed(after.problem, late), old, seed=0) if late else None
    own = Foreign([one.id for one in after.problem.jobs], own=["evals"])
    return {one.job: one for one in submitted(before, after, plan, earliest, own=own)}


def test_start_flavor_and_slack_of_a_job_that_fits() -> None:
    there = cluster([workload("a", 4, on="h100")], [job("a", expected_duration="2h")])

    found = asked(there, new("b", 2, expected_duration="1h", deadline="within 4h"))["evals/b"]

    assert (found.status, found.flavor) == ("planned", "h100")
    assert (clock(found.start_ms), clock(found.end_ms)) == ("2026-12-01T01:30:00Z", "2026-12-01T02:30:00Z")
    assert found.slack_ms == 90 * 60 * 1000
    assert (found.earliest_end_ms, found.add) == (None, ())


def test_a_job_that_cannot_be_in_time_is_told_its_earliest_end() -> None:
    there = cluster([workload("a", 4, on="h100")], [job("a", expected_duration="2h")])

    found = asked(there, new("b", 2, expected_duration="1h", deadline="within 2h"))["evals/b"]

    assert found.status in ("dropped", "impossible")
    assert found.start_ms is None
    assert clock(found.earliest_end_ms) == "2026-12-01T02:30:00Z"


def test_nobody_elses_deadline_is_missed_for_the_earliest_end() -> None:
    there = cluster(
        [workload("a", 4, on="h100"), workload("s", 4, namespace="secret")],
        [
            job("a", expected_duration="2h"),
            job("s", namespace="secret", expected_duration="3h", deadline="2026-12-01T05:00:00Z"),
        ],
    )

    found = asked(there, new("b", 4, expected_duration="1h", deadline="within 2h"))["evals/b"]

    # `a` ends at 01:30, then `s` has to run until 04:30.
    assert clock(found.earliest_end_ms) == "2026-12-01T05:30:00Z"
    assert "secret" not in found.why


def test_what_a_job_lacks_is_told() -> None:
    there = cluster([], [])

    found = asked(there, new("long", 1, deadline="within 2h"), new("free", 1, expected_duration="1h"))

    assert (found["evals/long"].status, found["evals/long"].add) == ("unplanned", (NO_LENGTH,))
    assert (found["evals/free"].status, found["evals/free"].add) == ("planned", (NO_DEADLINE,))


def test_all_that_is_wrong_against_the_cluster_is_told_at_once() -> None:
    there = cluster([workload("a", 1)], [job("a")])
    coming = Recurring(
        namespace="nowhere", name="c", schedule="@daily", zone=None, suspended=False, queue="main", pod_sets=()
    )

    found = mistakes_of(
        [new("a", 1), new("b", 1, queue="mian", deadline="soon", weight="9")], [coming], there, Declaration()
    )

    assert [(one.where, one.what.split(".")[0][:48]) for one in found] == [
        ("evals/a", "evals/a is there already"),
        ("evals/b", "there is no LocalQueue mian in namespace evals"),
        ("evals/b: gpuyield.dev/deadline", found[2].what.split(".")[0][:48]),
        ("evals/b: gpuyield.dev/weight", "weight 9 is above 1, which is the namespace's li"),
        ("nowhere/c", "there is no LocalQueue main in namespace nowhere"),
    ]
    assert "main" in found[1].fix


def test_a_cron_job_is_planned_by_the_jobs_that_it_is_going_to_make() -> None:
    there = cluster([], [])
    coming = Recurring(
        namespace="evals",
        name="nightly",
        schedule="0 6,18 * * *",
        zone="UTC",
        suspended=False,
        queue="main",
        pod_sets=(PodSet(name="main", count=1, gpus=4),),
        annotations={"gpuyield.dev/expected-duration": "2h", "gpuyield.dev/deadline": "within 3h"},
    )
    before, after = live_problem(there, TERMS), live_problem(with_submitted(there, (), [coming]), TERMS)

    plan = make_plan(after.problem, seed=0)
    found = submitted(before, after, plan, None, own=Foreign([], own=["evals"]))

    assert [clock(one.start_ms) for one in found] == ["2026-12-01T06:00:00Z", "2026-12-01T18:00:00Z"]
    assert {one.slack_ms for one in found} == {HOUR_MS}


def test_names_of_other_teams_jobs_are_in_no_sentence() -> None:
    foreign = Foreign(["secret/model-7", "secret/x", "evals/a"], own=["evals"])

    told = foreign.text("It starts when secret/model-7 ends, after secret/x, secret/model-7 and evals/a.")

    assert told == "It starts when another team's job ends, after other teams' jobs and evals/a."
    assert foreign.document({"secret/x": ["secret/x", 1, None]}) == {
        "another team's job": ["another team's job", 1, None]
    }


def test_names_of_kubernetes_are_no_jobs() -> None:
    foreign = Foreign(["secret/x"], own=["evals"])
    said = "set the label kueue.x-k8s.io/queue-name, see gpuyield.dev/deadline"

    assert foreign.text(said) == said
