"""What a person who submits a job can ask a real cluster: before submitting, and with rights on one namespace only."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from command_line import asked, gpuyield
from kube import JOB, WORKLOAD, Object, wait_for
from scenario import Scenario, job_manifest, now

from controlplane import ControlPlane

pytestmark = pytest.mark.controlplane

NAME = "submit"
FLAVOR = "submit-gpu"
OTHER = "submit-other"


@pytest.fixture(scope="module")
def queues(stack: ControlPlane) -> Iterator[tuple[Scenario, Scenario]]:
    """A queue of the node's four GPUs, and another team's namespace that uses it too."""
    stage = Scenario(stack.client(), NAME, checked=False)
    stage.set_up({FLAVOR: 4})
    other = Scenario(stack.client(), OTHER, checked=False)
    stack.client().apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": OTHER}})
    other.add_local_queue("main", NAME)
    try:
        yield stage, other
    finally:
        other.tear_down()
        stage.tear_down()


@pytest.fixture
def stage(queues: tuple[Scenario, Scenario]) -> Iterator[Scenario]:
    """The queue without any job."""
    yield queues[0]
    for each in queues:
        for job in each.client.list(JOB, each.name):
            each.cancel(job["metadata"]["name"])
        wait_for("the Workloads to go", lambda of=each: not of.client.list(WORKLOAD, of.name), timeout_s=60)


def answered(kubeconfig: Path, *arguments: str, folder: Path) -> dict[str, Any]:
    code, document = asked(kubeconfig, *arguments, folder=folder)
    assert code == 0, document
    return document


def manifest(folder: Path, *objects: Object) -> str:
    path = folder / "my.yaml"
    path.write_text(yaml.safe_dump_all(objects))
    return str(path)


def test_what_becomes_of_a_manifest_is_told_before_it_is_submitted(
    stack: ControlPlane, stage: Scenario, tmp_path: Path
) -> None:
    other = Scenario(stack.client(), OTHER, checked=False)
    promised = {"gpuyield.dev/expected-duration": "1h", "gpuyield.dev/deadline": "within 2h"}
    other.submit("theirs", 4, annotations=promised)
    other.workload("theirs")
    mine = job_manifest("mine", NAME, 2, annotations={**promised, "gpuyield.dev/deadline": "within 4h"})
    tight = job_manifest("tight", NAME, 2, annotations={**promised, "gpuyield.dev/deadline": "within 90m"})

    fits = answered(stack.kubeconfig(), "what-if", "--job", manifest(tmp_path, mine), folder=tmp_path)
    late = answered(stack.kubeconfig(), "what-if", "--job", manifest(tmp_path, tight), folder=tmp_path)
    _, words = gpuyield(stack.kubeconfig(), "what-if", "--job", "my.yaml", folder=tmp_path, form="table")

    (one,), (other_one,) = fits["jobs"], late["jobs"]
    assert (one["status"], one["flavor"]) == ("planned", FLAVOR)
    assert 7_100 < one["slack_s"] < 7_300
    assert other_one["status"] in ("dropped", "impossible")
    assert other_one["earliest_end"] == one["end"] or other_one["earliest_end"] > one["end"]
    assert "theirs" not in json.dumps([fits, late]) + words
    assert "it could end by" in words


def test_all_mistakes_of_a_manifest_are_told_at_once(stack: ControlPlane, stage: Scenario, tmp_path: Path) -> None:
    wrong = job_manifest("wrong", NAME, 0, queue="mian", annotations={"gpuyield.dev/deadline": "soon"})

    code, said = gpuyield(stack.kubeconfig(), "what-if", "--job", manifest(tmp_path, wrong), folder=tmp_path)

    errors = [one["what"] for one in json.loads(said)["errors"]]
    assert code == 2
    assert errors[:2] == ["it asks for no GPU.", f"there is no LocalQueue mian in namespace {NAME}."]
    assert len(errors) == 3


def test_a_job_is_explained_with_rights_on_its_namespace_alone(
    stack: ControlPlane, stage: Scenario, tmp_path: Path
) -> None:
    stage.submit("held", 2, gated=True, annotations={"gpuyield.dev/deadline": "within 4h", "gpuyield.dev/weight": "9"})
    held = stage.workload("held")
    said = "It starts when another team's job ends, at 12:00."
    _event(stack, "held", "Job", said)
    _event(stack, held["metadata"]["name"], "Workload", said)
    user = f"system:serviceaccount:{NAME}:person"
    _may_read_namespace(stack, user)
    kubeconfig = stack.kubeconfig(user, groups=("system:authenticated",))

    one = answered(kubeconfig, "explain", "job/held", "-n", NAME, folder=tmp_path)
    code, words = gpuyield(kubeconfig, "explain", "job/held", "--namespace", NAME, folder=tmp_path, form="table")
    elsewhere, refused = gpuyield(kubeconfig, "explain", "job/held", "-n", OTHER, folder=tmp_path, form="table")
    absent, _ = gpuyield(kubeconfig, "explain", "job/nothing", "-n", NAME, folder=tmp_path)

    assert (one["state"], one["gpus"], one["queue"], one["may_not_read"]) == ("gated", 2, "main", [])
    assert [(each["reason"], each["message"]) for each in one["said"] if each["by"] == "gpuyield-controller"] == [
        ("Planned", said)
    ]
    assert [each["where"] for each in one["mistakes"]] == [f"{NAME}/held: gpuyield.dev/weight"]
    assert one["local_queue"]["cluster_queue"] == NAME
    assert code == 0
    assert "waits since" in words
    assert said in words
    assert "The plan in force cannot be seen by this account" in words
    assert "how much quota is free, is not known here" in " ".join(words.split())
    assert (elsewhere, absent) == (0, 2)
    assert "may not read" in refused


def test_a_parked_job_says_until_when_and_why(stack: ControlPlane, stage: Scenario, tmp_path: Path) -> None:
    stage.submit("parked", 2, gated=True, annotations={"gpuyield.dev/deadline": "within 4h"})
    workload = stage.workload("parked")["metadata"]["name"]
    marks = {"gpuyield.dev/parked": "2026-12-01T23:00:00Z", "gpuyield.dev/parked-because": "Its turn is at 23:00"}
    change = {"metadata": {"annotations": marks}, "spec": {"active": False}}
    stack.client().merge(WORKLOAD, workload, change, NAME)

    one = answered(stack.kubeconfig(), "explain", "job/parked", "-n", NAME, folder=tmp_path)

    assert one["state"] == "parked"
    assert one["parked"] == {"until": "2026-12-01T23:00:00Z", "because": "Its turn is at 23:00"}


def _may_read_namespace(stack: ControlPlane, user: str) -> None:
    """The rights of somebody who works in one namespace."""
    rbac, meta = "rbac.authorization.k8s.io/v1", {"name": "reader", "namespace": NAME}
    rules = [
        {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["get", "list"]},
        {"apiGroups": ["kueue.x-k8s.io"], "resources": ["workloads", "localqueues"], "verbs": ["get", "list"]},
        {"apiGroups": [""], "resources": ["events"], "verbs": ["get", "list"]},
    ]
    subject = {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": user}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"}
    stack.client().apply({"apiVersion": rbac, "kind": "Role", "metadata": meta, "rules": rules})
    binding = {"kind": "RoleBinding", "metadata": meta, "roleRef": reference, "subjects": [subject]}
    stack.client().apply({"apiVersion": rbac, **binding})


def _event(stack: ControlPlane, name: str, kind: str, message: str) -> None:
    """An event as the controller writes it."""
    at = now()
    stack.client().create(
        {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{name}.said", "namespace": NAME},
            "involvedObject": {"kind": kind, "name": name, "namespace": NAME},
            "type": "Normal",
            "reason": "Planned",
            "message": message,
            "source": {"component": "gpuyield-controller"},
            "firstTimestamp": at,
            "lastTimestamp": at,
        }
    )
