"""The controller enforces plans, on a real control plane and on its double: nothing starts early, nothing is stuck."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest
from enforcement import Enforcer, Planned, is_check_active, planned, wait_seen, with_home
from kube import CLUSTER_QUEUE, JOB, Client, Object, Resource, is_true, wait_for
from on_double import double_client
from scenario import Scenario, job_manifest, scenario, seconds_while

from controlplane import ControlPlane
from doubles.cluster.objects import ApiObjects

pytestmark = pytest.mark.controlplane


@pytest.fixture(scope="module", params=["control plane", "double"])
def client(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """The administrator of either: every scenario is told by both."""
    if request.param == "double":
        with double_client(ApiObjects(), tmp_path_factory.mktemp("double")) as made:
            yield made
    else:
        stack: ControlPlane = request.getfixturevalue("stack")
        yield with_home(stack.client())


FOUR = ("q1", "q2", "q3", "q4")
SEED_DEADLINES = {"q1": "within 60s", "q2": "within 60s", "q3": "within 14s", "q4": "within 14s"}


def is_late(stage: Scenario, job: str, within_s: int) -> bool:
    from datetime import datetime

    found = stage.job(job)
    created = datetime.fromisoformat(found["metadata"]["creationTimestamp"])
    return (datetime.fromisoformat(found["status"]["completionTime"]) - created).total_seconds() > within_s


def test_four_jobs_on_four_gpus_run_two_then_two_and_all_meet_their_deadlines(stage: Planned) -> None:
    for name in FOUR:
        stage.ask(name, seconds=4, expected="7s", deadline=SEED_DEADLINES[name])

    stage.wait_complete(*FOUR)

    assert set(stage.witness.order[:2]) == {"q3", "q4"}
    assert stage.witness.peak == 4
    assert stage.evictions() == 0
    assert [is_late(stage, name, int(SEED_DEADLINES[name][7:-1])) for name in FOUR] == [False] * 4
    stage.expect_nothing_stopped()


def test_the_same_jobs_under_plain_kueue_miss_a_deadline(client: Client) -> None:
    with scenario(client, "plain", checked=False) as plain:
        for name in FOUR:
            plain.submit(name, 2, seconds=8)
            plain.workload(name)

        for name in FOUR:
            wait_for(f"{name} to complete", partial(plain.is_complete, name), timeout_s=60)

        assert any(is_late(plain, name, int(SEED_DEADLINES[name][7:-1])) for name in FOUR)


def test_a_late_arrival_with_an_earlier_deadline_goes_first(stage: Planned) -> None:
    stage.ask("runs", 4, seconds=5, expected="8s", deadline="within 60s")
    stage.wait_running("runs")
    stage.ask("patient", 4, seconds=2, expected="20s", deadline="within 120s")
    wait_seen(stage, "patient")

    stage.ask("urgent", 4, seconds=2, expected="5s", deadline="within 25s")

    stage.wait_complete("runs", "patient", "urgent")
    assert stage.witness.order == ["runs", "urgent", "patient"]
    stage.expect_nothing_stopped()


def test_a_job_that_overruns_is_waited_for_and_nobody_starts_too_early(stage: Planned) -> None:
    stage.ask("slow", 4, seconds=8, expected="2s", deadline="within 60s")
    stage.wait_running("slow")
    stage.ask("next", 4, seconds=2, expected="4s", deadline="within 60s")

    stage.wait_complete("slow", "next")

    assert stage.started_at("next") >= stage.completed_at("slow")
    assert stage.evictions() == 0
    stage.expect_nothing_stopped()


def test_an_early_end_pulls_the_next_job_forward(stage: Planned) -> None:
    stage.ask("short", 4, seconds=3, expected="10m", deadline="within 60m")
    stage.wait_running("short")
    stage.ask("next", 4, seconds=2, expected="5m", deadline="within 60m")

    stage.wait_complete("short", "next", timeout_s=30)

    stage.expect_nothing_stopped()


def test_an_ungated_arrival_backfills_where_it_harms_nobody_and_is_parked_where_it_would(stage: Planned) -> None:
    stage.ask("runs", 2, seconds=18, expected="22s", deadline="within 90s")
    stage.wait_running("runs")
    stage.ask("wide", 4, seconds=2, expected="5s", deadline="within 45s")
    wait_seen(stage, "wide")

    stage.ask("long", 2, seconds=2, expected="10m", gated=False)
    wait_for("long to be parked", lambda: stage.workload("long")["spec"].get("active") is False)
    stage.ask("brief", 2, seconds=1, expected="4s", gated=False)

    stage.wait_complete("runs", "brief", "wide", "long")
    order = stage.witness.order
    assert order.index("brief") < order.index("wide") < order.index("long")
    wait_for("the quota to be free", lambda: stage.gpus() == 0)
    stage.expect_nothing_stopped()


def test_a_job_that_an_administrator_evicts_comes_back_and_ends(stage: Planned) -> None:
    stage.ask("evicted", 2, seconds=4, expected="8s", deadline="within 90s")
    stage.wait_running("evicted")

    stage.stop_queue("HoldAndDrain")
    wait_for("the eviction", lambda: stage.was_evicted("evicted"))
    stage.stop_queue("None")

    stage.wait_complete("evicted")
    stage.expect_nothing_stopped(by_others=("evicted",))


def test_a_quota_that_is_halved_in_the_middle_of_the_plan_is_kept_to(stage: Planned) -> None:
    for name in FOUR:
        stage.ask(name, seconds=4, expected="7s", deadline="within 90s")
    stage.wait_running(*stage.witness.order[:2])
    wait_for("two to run", lambda: len(stage.witness.order) == 2)

    stage.client.apply(stage.cluster_queue(stage.name, {stage.name: 2}))

    stage.wait_complete(*FOUR)
    assert stage.evictions() == 0
    ends = sorted((stage.started_at(name), stage.completed_at(name)) for name in FOUR)
    assert ends[3][0] >= ends[2][1]
    stage.expect_nothing_stopped()


def test_a_job_borrows_from_its_cohort_only_what_nobody_planned_there(client: Client, enforcer: Enforcer) -> None:
    with planned(client, "borrower", 2, cohortName="borrowing") as stage:
        client.apply(stage.cluster_queue("borrower-lender", {"borrower": 2}, cohortName="borrowing"))
        stage.add_local_queue("lender", "borrower-lender")
        wait_for("the lender", lambda: is_true(client.get(CLUSTER_QUEUE, "borrower-lender"), "Active"))

        stage.ask("wide", 4, seconds=3, expected="6s", deadline="within 60s")
        stage.wait_running("wide")
        stage.ask("own", 2, seconds=1, expected="4s", queue="lender", deadline="within 60s")

        stage.wait_complete("wide", "own")
        assert stage.started_at("own") >= stage.completed_at("wide")
        assert stage.evictions() == 0
        stage.expect_nothing_stopped()


def test_two_flavors_are_filled_and_never_overfilled(client: Client, enforcer: Enforcer) -> None:
    stage = Planned(client, "flavors")
    stage.set_up({"flavors-a": 2, "flavors-b": 2})
    try:
        for name in ("a", "b", "c"):
            stage.ask(name, seconds=3, expected="6s", deadline="within 60s")

        stage.wait_complete("a", "b", "c")

        assert stage.witness.peak == 4
        assert stage.evictions() == 0
        stage.expect_nothing_stopped()
    finally:
        stage.tear_down()


def test_the_jobs_of_a_cron_job_are_planned_and_run(stage: Planned) -> None:
    template = job_manifest(
        "unused",
        stage.name,
        2,
        annotations={"kueue.x-k8s.io/admission-gated-by": "gpuyield.dev/plan", "gpuyield.dev/expected-duration": "5s"},
        pod_annotations={"fake-kubelet/run-seconds": "1"},
    )
    cron: Object = {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "minutely", "namespace": stage.name},
        "spec": {
            "schedule": "* * * * *",
            "timeZone": "Etc/UTC",
            "jobTemplate": {
                "metadata": {key: template["metadata"][key] for key in ("labels", "annotations")},
                "spec": template["spec"],
            },
        },
    }
    stage.client.create(cron)

    done = wait_for(
        "a job of the CronJob to complete",
        lambda: next((one for one in stage.client.list(JOB, stage.name) if is_true(one, "Complete")), None),
        timeout_s=90,
    )

    stage.client.delete(Resource("batch/v1", "cronjobs"), "minutely", stage.name)
    assert done["metadata"]["name"].startswith("minutely-")
    stage.expect_nothing_stopped()


def test_the_answer_to_quota_comes_within_two_seconds(stage: Planned) -> None:
    for number in range(12):
        stage.ask(f"j{number}", 1, seconds=1, expected="3s", gated=number % 2 == 0, deadline="within 120s")

    stage.wait_complete(*(f"j{number}" for number in range(12)), timeout_s=90)

    assert len(stage.witness.answers_s) >= 12
    assert max(stage.witness.answers_s) <= 2.0
    stage.expect_nothing_stopped()


def test_the_check_is_active_while_it_is_watched_over(stage: Planned, client: Client) -> None:
    assert is_check_active(client, stage.name)
    assert seconds_while(lambda: is_check_active(client, stage.name), 1.0) >= 1.0
