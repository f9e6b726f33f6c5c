"""gpuyield plan and queue on a real control plane with Kueue: what waits, why, and when it starts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import pytest
from command_line import asked
from kube import CLUSTER_QUEUE, Client, is_true, wait_for
from scenario import Scenario

from controlplane import ControlPlane

pytestmark = pytest.mark.controlplane

NAME = "live"
FLAVOR, LENDER = "live-gpu", "live-lender"
READER = "system:serviceaccount:live:reader"


@pytest.fixture
def stage(stack: ControlPlane) -> Iterator[Scenario]:
    """Two queues of two GPUs each in one cohort, on the node's four."""
    client = stack.client()
    stage = Scenario(client, NAME, checked=False)
    stage.set_up({FLAVOR: 2}, cohortName=NAME)
    client.apply(stage.cluster_queue(LENDER, {FLAVOR: 2}, cohortName=NAME))
    stage.add_local_queue("lender", LENDER)
    wait_for("the lender", lambda: is_true(client.get(CLUSTER_QUEUE, LENDER), "Active"))
    try:
        yield stage
    finally:
        stage.tear_down()


def submit(stage: Scenario, name: str, gpus: int, queue: str = "main", **ours: str) -> None:
    """A job that runs until it is deleted, with our annotations."""
    annotations = {f"gpuyield.dev/{key.replace('_', '-')}": text for key, text in ours.items()}
    stage.submit(name, gpus, queue=queue, annotations=annotations)


def seconds_between(early: str, late: str) -> float:
    return (datetime.fromisoformat(late) - datetime.fromisoformat(early)).total_seconds()


def test_plan_and_queue_tell_of_each_job_when_it_starts_and_why_it_waits(
    stack: ControlPlane, stage: Scenario, tmp_path: Path
) -> None:
    submit(stage, "running", 3, expected_duration="10m")
    wait_for("running to run", lambda: stage.is_running("running"))
    submit(stage, "next", 2, queue="lender", expected_duration="20m", deadline="within 2h")
    submit(stage, "free", 1, expected_duration="5m", deadline="soon")
    wait_for("free to run", lambda: stage.is_running("free"))
    submit(stage, "nobody-knows", 1)
    stage.workload("next")
    stage.workload("nobody-knows")
    kubeconfig = stack.kubeconfig()

    code, plan = asked(kubeconfig, "plan", "--out", "plan.json", folder=tmp_path)
    _, queue = asked(kubeconfig, "queue", folder=tmp_path)
    _, changed = asked(kubeconfig, "what-if", "--drop", "live/running", folder=tmp_path)
    verified, _ = asked(kubeconfig, "verify", "plan.json", folder=tmp_path)

    waits = {one["job"]: one for one in plan["waiting"]}
    planned = {one["id"]: one for one in plan["jobs"]}
    admitted = stage.workload("running")["status"]["conditions"]
    since = next(one["lastTransitionTime"] for one in admitted if one["type"] == "Admitted")
    assert (code, verified) == (0, 0)
    assert set(waits) == {"live/next", "live/nobody-knows"}
    assert {one: planned[one]["gpus"] for one in planned} == {"live/running": 3, "live/free": 1, "live/next": 2}
    assert plan["gpus"][f"gpu/{FLAVOR}"]["available"] == 4
    # `next` needs two: one GPU of `free` after 5 minutes is too few, so it starts when `running` ends.
    assert seconds_between(since, waits["live/next"]["eta"]) == 600
    assert waits["live/next"]["blocked_by"] == "quota"
    assert waits["live/next"]["why"] == f"of 4 {FLAVOR} GPUs of cohort live 4 are held, and it needs 2"
    assert waits["live/nobody-knows"]["eta"] is None
    assert any(one["where"] == "live/free: gpuyield.dev/deadline" for one in plan["gaps"])
    causes = {one["cause"]: one["gpu_ms"] for one in queue["causes"]}
    assert sum(causes.values()) == queue["waiting_gpu_ms"] == causes["not_due_yet"] + causes["quota"] > 0
    assert {one["job"]: one["cause"] for one in queue["waiting"]} == {
        "live/next": "not_due_yet",
        "live/nobody-knows": "quota",
    }
    assert "live/running" not in {one["id"] for one in changed.get("jobs", ())}


def test_rights_that_lack_are_named_with_the_commands_that_grant_them(stack: ControlPlane, tmp_path: Path) -> None:
    code, refused = asked(stack.kubeconfig(READER, groups=()), "plan", folder=tmp_path)

    said = " ".join(one["what"] + one["fix"] for one in refused["errors"])
    assert code == 3
    for right in ("clusterqueues", "localqueues", "resourceflavors", "workloads"):
        assert f"may not list {right}.kueue.x-k8s.io (403)" in said
    assert "kubectl create clusterrole gpuyield-read --verb=get,list,watch --resource=" in said


def test_the_rights_that_are_told_are_enough(stack: ControlPlane, tmp_path: Path) -> None:
    client = stack.client()
    _, refused = asked(stack.kubeconfig(READER, groups=()), "plan", folder=tmp_path)
    listed = refused["errors"][-1]["fix"].partition("--resource=")[2].partition(" ")[0].split(",")

    with granted(client, listed):
        code, plan = asked(stack.kubeconfig(READER, groups=()), "plan", folder=tmp_path)

    assert (code, plan["waiting"]) == (0, [])
    assert not [one for one in plan["gaps"] if "May not list" in one["reason"]]


@contextmanager
def granted(client: Client, resources: list[str]) -> Iterator[None]:
    """Reading rights on some resources, as a cluster role bound to the reader."""
    rbac, meta = "rbac.authorization.k8s.io/v1", {"name": "live-reader"}
    rules = [
        {"apiGroups": [group], "resources": [plural], "verbs": ["get", "list", "watch"]}
        for plural, _, group in (one.partition(".") for one in resources)
    ]
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "live-reader"}
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": READER}
    made = [
        {"apiVersion": rbac, "kind": "ClusterRole", "metadata": meta, "rules": rules},
        {
            "apiVersion": rbac,
            "kind": "ClusterRoleBinding",
            "metadata": meta,
            "roleRef": reference,
            "subjects": [subject],
        },
    ]
    for one in made:
        client.apply(one)
    try:
        yield
    finally:
        for one in made:
            client.delete_manifest(one)
