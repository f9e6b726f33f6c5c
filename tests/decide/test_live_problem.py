"""A cluster with Kueue as a planning problem, and why each job waits."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from doubles.kueue_objects import (
    NOW,
    Object,
    clock,
    flavor,
    job,
    local_queue,
    node,
    pod,
    problem,
    queue,
    seen,
    workload,
)
from gpuyield.decide.live.jobs import LiveTerms
from gpuyield.decide.live.problem import LiveProblem, WorkAsAsked, live_problem
from gpuyield.decide.live.waiting import Waiting, waiting_now
from gpuyield.model.declaration import BatchFamily, Declaration, Selector
from gpuyield.model.duration import DurationBasis, FamilyDuration
from gpuyield.model.kueue import WorkState
from gpuyield.model.queue import Cause
from gpuyield.plan import make_plan
from gpuyield.units import HOUR_MS

H100 = flavor("h100", gpu="h100")


def cluster(
    workloads: Sequence[Object],
    jobs: Sequence[Object] = (),
    *,
    quota: int = 4,
    nodes: Sequence[Object] = (),
    pods: Sequence[Object] = (),
    queues: Sequence[Object] | None = None,
) -> LiveProblem:
    """One queue of H100s."""
    return problem(
        seen(
            resourceflavors=[H100],
            clusterqueues=[queue("batch", {"h100": {"nominalQuota": quota}})] if queues is None else queues,
            localqueues=[local_queue("main", "batch"), local_queue("other", "research")],
            nodes=nodes or [node("n0", 4, gpu="h100")],
            workloads=workloads,
            jobs=jobs,
            pods=pods,
        )
    )


def waiting(live: LiveProblem) -> dict[str, Waiting]:
    plan = make_plan(live.problem, seed=0)
    return {one.job: one for one in waiting_now(live, plan)}


def reasons(live: LiveProblem) -> str:
    return "\n".join(f"{gap.where}: {gap.reason}" for gap in live.gaps)


def test_a_job_waits_for_quota_and_starts_when_the_running_one_ends() -> None:
    live = cluster(
        [workload("a", 4, on="h100"), workload("b", 2)],
        [job("a", expected_duration="2h"), job("b", expected_duration="1h")],
        pods=[pod("a-0", "n0", 4)],
    )

    found = waiting(live)["evals/b"]

    assert found.blocked_by == "quota"
    assert found.cause is Cause.QUOTA
    assert found.why == "of 4 h100 GPUs of the quota of batch 4 are held, and it needs 2"
    assert clock(found.eta_ms) == "2026-12-01T01:30:00Z"


def test_free_gpus_on_two_nodes_are_fragmented_for_a_pod_that_needs_them_together() -> None:
    live = cluster(
        [workload("a", 3, on="h100"), workload("c", 3, on="h100"), workload("b", 2)],
        [job(name, expected_duration="2h") for name in "abc"],
        quota=8,
        nodes=[node("n0", 4, gpu="h100"), node("n1", 4, gpu="h100")],
        pods=[pod("a-0", "n0", 3), pod("c-0", "n1", 3)],
    )

    found = waiting(live)["evals/b"]

    assert (found.blocked_by, found.cause) == ("fragmented", Cause.FRAGMENTED)
    assert "2 h100 GPUs are free on 2 nodes, at most 1 together" in found.why


def test_a_job_that_its_plan_keeps_on_time_is_not_due_yet() -> None:
    live = cluster(
        [workload("a", 4, on="h100"), workload("b", 2)],
        [job("a", expected_duration="2h"), job("b", expected_duration="1h", deadline="2026-12-01T06:00:00Z")],
    )

    found = waiting(live)["evals/b"]

    assert (found.blocked_by, found.cause) == ("quota", Cause.NOT_DUE_YET)


def test_a_job_of_unknown_length_is_told_and_not_planned() -> None:
    live = cluster([workload("b", 2)], [job("b")])

    found = waiting(live)["evals/b"]

    assert found.eta_ms is None
    assert "gpuyield.dev/expected-duration" in found.why
    assert "evals/b: Not planned: nothing tells how long it runs" in reasons(live)


def test_kueues_maximum_run_time_is_a_length_of_last_resort() -> None:
    live = cluster([workload("b", 2, maximumExecutionTimeSeconds=3600)], [job("b")])

    assert [one.shapes[0].duration_ms for one in live.problem.jobs] == [HOUR_MS]


def test_runs_of_what_makes_a_job_count_before_those_of_all_jobs_under_its_name() -> None:
    found = seen(
        resourceflavors=[H100],
        clusterqueues=[queue("batch", {"h100": {"nominalQuota": 4}})],
        localqueues=[local_queue("main", "batch")],
        nodes=[node("n0", 4, gpu="h100")],
        workloads=[workload("b", 2)],
        jobs=[job("b")],
    )
    history = {
        "evals/evals": ran("evals", DurationBasis.ALL, 3 * HOUR_MS),
        "evals/b": ran("b", DurationBasis.FAMILY, 2 * HOUR_MS),
    }
    family = BatchFamily(name="evals", selector=Selector(namespace="evals"))
    terms = LiveTerms(declaration=Declaration(batch=(family,)), history=history.get, stem=lambda name: name)

    live = live_problem(found, terms)

    assert [one.shapes[0].duration_ms for one in live.problem.jobs] == [2 * HOUR_MS]


def ran(family: str, basis: DurationBasis, planned_ms: int) -> FamilyDuration:
    return FamilyDuration(family=family, basis=basis, runs=9, quantile=0.7, planned_ms=planned_ms)


def test_malformed_annotations_are_told_one_by_one_and_the_others_count() -> None:
    live = cluster([workload("b", 2)], [job("b", expected_duration="1h", deadline="tomorrow", weight="heavy")])

    told = reasons(live)

    assert 'evals/b: gpuyield.dev/deadline: deadline "tomorrow" is not a deadline.' in told
    assert "evals/b: gpuyield.dev/weight" in told
    assert [(one.id, one.deadline_ms, one.shapes[0].duration_ms) for one in live.problem.jobs] == [
        ("evals/b", None, HOUR_MS)
    ]


def test_a_weight_that_no_limit_grants_does_not_count() -> None:
    live = cluster([workload("b", 2)], [job("b", expected_duration="1h", weight="5")])

    assert live.problem.jobs[0].weight == 1
    assert "weight 5 is above 1" in reasons(live)


@pytest.mark.parametrize(
    ("queues", "said"),
    [
        ([queue("batch", {"h100": {"nominalQuota": 4}}, stopPolicy="Hold")], "is stopped (Hold)"),
        ([], "there is no ClusterQueue batch"),
    ],
)
def test_a_job_that_cannot_start_as_things_are_has_no_start(queues: list[Object], said: str) -> None:
    live = cluster([workload("b", 2)], [job("b", expected_duration="1h")], queues=queues)

    found = waiting(live)["evals/b"]

    assert (found.blocked_by, found.eta_ms) == ("held", None)
    assert said in found.why


def test_a_job_that_is_switched_off_is_not_planned() -> None:
    live = cluster([workload("b", 2, active=False)], [job("b", expected_duration="1h")])

    assert "spec.active" in waiting(live)["evals/b"].why
    assert live.problem.jobs == ()


def test_a_node_selector_rules_flavors_out() -> None:
    live = problem(
        seen(
            resourceflavors=[H100, flavor("a100", gpu="a100")],
            clusterqueues=[queue("batch", {"h100": {"nominalQuota": 4}, "a100": {"nominalQuota": 4}})],
            localqueues=[local_queue("main", "batch")],
            nodes=[node("n0", 4, gpu="h100"), node("n1", 4, gpu="a100")],
            workloads=[workload("b", 2, selector={"gpu": "a100", "zone": "x"}), workload("c", 2)],
            jobs=[job("b", expected_duration="1h"), job("c", expected_duration="1h")],
        )
    )

    assert {one.id: [shape.flavor for shape in one.shapes] for one in live.problem.jobs} == {
        "evals/b": ["a100"],
        "evals/c": ["h100", "a100"],
    }


@pytest.mark.parametrize(
    ("terms", "flavors"),
    [
        ([[("gpu", "In", ["a100", "b200"])]], ["a100"]),
        ([[("gpu", "NotIn", ["a100"])]], ["h100"]),
        ([[("gpu", "Exists", [])]], ["h100", "a100"]),
        ([[("gpu", "DoesNotExist", [])]], []),
        ([[("generation", "Gt", ["8"])]], ["h100"]),
        ([[("generation", "Lt", ["9"]), ("gpu", "In", ["a100"])]], ["a100"]),
        ([[("gpu", "In", ["h100"]), ("generation", "Lt", ["9"])]], []),
        ([[("gpu", "In", ["a100"])], [("generation", "In", ["9"])]], ["h100", "a100"]),
        ([[("zone", "In", ["x"])]], ["h100", "a100"]),
        ([[("zone", "In", ["x"])], [("gpu", "In", ["a100"])]], ["h100", "a100"]),
        ([[("gpu", "Roughly", ["a100"])]], []),
    ],
)
def test_required_node_affinity_rules_flavors_out_as_kueue_does(
    terms: list[list[tuple[str, str, list[str]]]], flavors: list[str]
) -> None:
    asks = workload("b", 2)
    asks["spec"]["podSets"][0]["template"]["spec"]["affinity"] = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [
                    {"matchExpressions": [{"key": key, "operator": how, "values": values} for key, how, values in term]}
                    for term in terms
                ]
            }
        }
    }
    live = problem(
        seen(
            resourceflavors=[flavor("h100", gpu="h100", generation="9"), flavor("a100", gpu="a100", generation="8")],
            clusterqueues=[queue("batch", {"h100": {"nominalQuota": 4}, "a100": {"nominalQuota": 4}})],
            localqueues=[local_queue("main", "batch")],
            nodes=[node("n0", 4, gpu="h100", generation="9"), node("n1", 4, gpu="a100", generation="8")],
            workloads=[asks],
            jobs=[job("b", expected_duration="1h")],
        )
    )

    assert [[shape.flavor for shape in one.shapes] for one in live.problem.jobs] == ([flavors] if flavors else [])
    if not flavors:
        assert "its nodes are not those of the required node affinity" in waiting(live)["evals/b"].why


def test_a_pod_wider_than_every_node_is_told() -> None:
    live = cluster(
        [workload("b", 4)], [job("b", expected_duration="1h")], quota=8, nodes=[node("n0", 2, gpu="h100")] * 2
    )

    assert "a pod asks for 4 GPUs, and its widest node has 2" in waiting(live)["evals/b"].why


def test_pods_that_did_not_come_through_kueue_take_gpus_from_the_plan() -> None:
    live = cluster([], nodes=[node("n0", 8, gpu="h100")], pods=[pod("service", "n0", 3, through_kueue=False)])

    assert live.problem.capacity.steps["gpu/h100"] == ((0, 5),)


def test_nodes_that_could_not_be_read_are_a_gap_and_quota_stands_in() -> None:
    live = problem(
        seen(
            without=("nodes", "pods"),
            resourceflavors=[H100],
            clusterqueues=[queue("batch", {"h100": {"nominalQuota": 6}})],
        )
    )

    assert live.problem.capacity.steps["gpu/h100"] == ((0, 6),)
    assert "flavor h100: Its nodes are not known" in reasons(live)


def test_a_node_that_is_not_ready_offers_nothing_and_keeps_what_runs() -> None:
    live = cluster(
        [workload("a", 4, on="h100")],
        [job("a", expected_duration="2h")],
        nodes=[node("n0", 4, ready=False, gpu="h100")],
        pods=[pod("a-0", "n0", 4)],
    )

    assert live.problem.capacity.steps["gpu/h100"] == ((0, 4), (90 * 60_000, 0))
    assert "None of its 1 nodes can take work: n0 is not ready (KubeletNotReady)." in reasons(live)


def test_a_quota_that_was_halved_beneath_running_work_gives_new_work_nothing_until_it_ends() -> None:
    live = cluster(
        [workload("a", 4, on="h100"), workload("b", 2)],
        [job("a", expected_duration="2h"), job("b", expected_duration="1h")],
        quota=2,
    )

    plan = make_plan(live.problem, seed=0)

    run = plan.job("evals/b").run
    assert run is not None
    assert run.start_ms == 90 * 60_000


@pytest.mark.parametrize(("past_s", "expected", "more_ms"), [(0, "10m", 10 * 60_000), (90_000, "2h", HOUR_MS)])
def test_a_job_that_overruns_is_told_and_holds_its_gpus_as_long_again_and_at_most_an_hour(
    past_s: int, expected: str, more_ms: int
) -> None:
    overrun = workload("a", 4, on="h100")
    overrun["status"]["accumulatedPastExecutionTimeSeconds"] = past_s

    live = cluster([overrun], [job("a", expected_duration=expected)])

    (found,) = live.problem.jobs
    assert found.started_ms is not None
    assert found.started_ms + found.shapes[0].duration_ms == more_ms
    assert "It runs longer than expected" in reasons(live)


def test_flavors_on_the_same_nodes_share_their_gpus() -> None:
    live = problem(
        seen(
            resourceflavors=[flavor("spot"), flavor("reserved")],
            clusterqueues=[queue("batch", {"spot": {"nominalQuota": 4}, "reserved": {"nominalQuota": 4}})],
            localqueues=[local_queue("main", "batch")],
            nodes=[node("n0", 4)],
            workloads=[workload("a", 4), workload("b", 4)],
            jobs=[job("a", expected_duration="1h"), job("b", expected_duration="1h")],
        )
    )

    plan = make_plan(live.problem, seed=0)

    runs = [one.run for one in plan.jobs if one.run is not None]
    assert live.problem.capacity.steps["nodes/reserved"] == ((0, 4),)
    assert sorted(run.start_ms for run in runs) == [0, HOUR_MS]


def test_predecessors_that_succeeded_are_done_and_lost_ones_are_told() -> None:
    live = cluster(
        [workload("a", 1, on="h100", finished="2026-11-30T23:50:00Z"), workload("b", 1), workload("c", 1)],
        [job("b", expected_duration="1h", after="a"), job("c", expected_duration="1h", after="b, gone")],
    )

    assert {one.id: one.after for one in live.problem.jobs} == {"evals/b": (), "evals/c": ("evals/b",)}
    assert "evals/c: It comes after evals/gone" in reasons(live)
    assert waiting(live)["evals/c"].blocked_by == "not_yet"


def test_version_v1beta1_reads_the_same() -> None:
    old_queue = queue("batch", {"h100": {"nominalQuota": 4}}, cohort="all", admissionChecks=["gpuyield"])
    new_queue = queue(
        "batch",
        {"h100": {"nominalQuota": 4}},
        cohortName="all",
        admissionChecksStrategy={"admissionChecks": [{"name": "gpuyield"}]},
    )
    old_work, new_work = workload("a", 2, on="h100"), workload("a", 2, on="h100")
    old_work["status"]["accumulatedPastExexcutionTimeSeconds"] = 60
    new_work["status"]["accumulatedPastExecutionTimeSeconds"] = 60

    old = seen(api_version="v1beta1", clusterqueues=[old_queue], workloads=[old_work])
    new = seen(clusterqueues=[new_queue], workloads=[new_work])

    assert old.queues == new.queues
    assert old.queues[0].cohort == "all"
    assert old.queues[0].checks == ("gpuyield",)
    assert old.work == new.work
    assert old.work[0].past_run_ms == 60_000


def test_pods_that_ended_give_their_quota_back() -> None:
    running = workload("a", 2, pods=3, on="h100")
    running["status"]["reclaimablePods"] = [{"name": "main", "count": 2}]

    found = seen(workloads=[running]).work[0]

    assert found.state is WorkState.ADMITTED
    assert found.held == {"h100": 2}


def test_an_object_that_cannot_be_read_hides_no_other() -> None:
    broken = queue("broken", {"h100": {"nominalQuota": 4}})
    broken["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"] = "1500m"

    found = seen(clusterqueues=[broken, queue("batch", {"h100": {"nominalQuota": 4}})])

    assert [one.name for one in found.queues] == ["batch"]
    assert [(one.where, one.reason) for one in found.gaps] == [
        ("clusterqueues broken", 'It could not be read: "1500m" is no whole number of GPUs. Write 4.')
    ]


def test_a_status_that_counts_otherwise_than_the_workloads_is_told() -> None:
    counted = queue("batch", {"h100": {"nominalQuota": 4}})
    counted["status"]["flavorsReservation"] = [
        {"name": "h100", "resources": [{"name": "nvidia.com/gpu", "total": "4"}]}
    ]

    live = cluster([workload("a", 2, on="h100")], [job("a", expected_duration="1h")], queues=[counted])

    assert "ClusterQueue batch: Its status counts 4 GPUs of h100 as reserved, its Workloads hold 2" in reasons(live)


@pytest.mark.parametrize("kind", ["RayJob", "JobSet", "TrainJob"])
def test_work_through_other_kinds_is_planned_by_its_workload(kind: str) -> None:
    gang = workload("ray", 2, pods=2, kind=kind)
    gang["spec"]["podSets"][0]["template"]["metadata"]["annotations"] = {"gpuyield.dev/expected-duration": "2h"}

    live = cluster([gang])

    assert [(one.id, dict(one.shapes[0].demand)) for one in live.problem.jobs] == [("evals/ray", {"gpu/h100": 4})]


def test_work_that_is_read_as_it_is_asked_for_is_read_as_the_problem_has_it() -> None:
    works = [workload("runs", 2, on="h100"), workload("waits", 2), workload("vague", 1)]
    live = cluster(works, [job("runs", expected_duration="1h"), job("waits", expected_duration="2h", deadline="soon")])

    asked = WorkAsAsked(live.seen, LiveTerms(declaration=Declaration(), history=lambda family: None, stem=str))

    assert [asked[one.work.uid] for one in live.work] == list(live.work)
    assert len(asked) == len(asked.works) == 3
    assert "gone" not in asked


def test_a_clock_that_is_behind_keeps_nothing_waiting() -> None:
    made_later = job("a", expected_duration="1h")
    made_later["metadata"]["creationTimestamp"] = "2099-01-01T00:00:00Z"

    live = cluster([workload("a", 2)], [made_later])

    assert [one.release_ms for one in live.problem.jobs] == [0]


def test_a_plan_of_now_starts_at_the_next_second() -> None:
    live = problem(seen(at_ms=NOW + 1))

    assert live.problem.origin_ms == NOW + 1000


def cron_job(schedule: str, *, suspend: bool = False, **annotations: str) -> Object:
    """A CronJob of two pods with one GPU each."""
    made = job("x", **annotations)["metadata"]["annotations"]
    container = {"name": "main", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    return {
        "metadata": {"name": "nightly", "namespace": "evals"},
        "spec": {
            "schedule": schedule,
            "timeZone": "Europe/Berlin",
            "suspend": suspend,
            "jobTemplate": {
                "metadata": {"labels": {"kueue.x-k8s.io/queue-name": "main"}, "annotations": made},
                "spec": {"parallelism": 2, "completions": 2, "template": {"spec": {"containers": [container]}}},
            },
        },
    }


def recurring(of: Object) -> LiveProblem:
    return problem(
        seen(
            resourceflavors=[H100],
            clusterqueues=[queue("batch", {"h100": {"nominalQuota": 4}})],
            localqueues=[local_queue("main", "batch")],
            nodes=[node("n0", 4, gpu="h100")],
            cronjobs=[of],
        )
    )


def test_a_cron_jobs_runs_of_the_next_day_are_planned_with_deadlines_of_their_own() -> None:
    live = recurring(cron_job("0 2,14 * * *", expected_duration="1h", deadline="within 3h"))

    # Now is 1 in the morning in Berlin.
    assert [(one.release_ms, one.deadline_ms, dict(one.shapes[0].demand)) for one in live.problem.jobs] == [
        (1 * HOUR_MS, 4 * HOUR_MS, {"gpu/h100": 2}),
        (13 * HOUR_MS, 16 * HOUR_MS, {"gpu/h100": 2}),
    ]
    assert live.problem.jobs[0].id == f"evals/nightly-{(NOW + HOUR_MS) // 60_000}"
    assert waiting(live) == {}


@pytest.mark.parametrize(
    ("of", "said"),
    [
        (cron_job("0 2 * *", expected_duration="1h"), '"0 2 * *" is no schedule.'),
        (cron_job("0 2 * * *"), "Its coming runs are not planned: nothing tells how long it runs"),
    ],
)
def test_coming_runs_that_cannot_be_planned_are_told(of: Object, said: str) -> None:
    live = recurring(of)

    assert live.problem.jobs == ()
    assert said in reasons(live)


def test_a_cron_job_without_a_time_zone_is_planned_in_utc_and_told() -> None:
    of = cron_job("0 2 * * *", expected_duration="1h")
    del of["spec"]["timeZone"]

    live = recurring(of)

    assert [one.release_ms for one in live.problem.jobs] == [2 * HOUR_MS]
    assert "CronJob evals/nightly: It names no time zone" in reasons(live)


def test_a_suspended_cron_job_has_no_coming_runs() -> None:
    live = recurring(cron_job("0 2 * * *", suspend=True))

    assert (live.problem.jobs, live.gaps) == ((), ())
