"""How a project's own tests use the control plane; also this folder's test.

python -m pytest            about a minute; skipped where the programs are not built
"""

from __future__ import annotations

from pathlib import Path

import pytest
from fake_kubelet import NodeSpec, parse_nodes
from kube import NODE, Resource, is_true, wait_for
from processes import ComponentError
from scenario import scenario

from controlplane import ControlPlane

pytestmark = pytest.mark.controlplane


def test_a_gated_job_starts_only_when_it_is_released(stack: ControlPlane) -> None:
    with scenario(stack.client(), "gate-test") as stage:
        stage.submit("job", gated=True, seconds=1)
        stage.workload("job")
        held = stage.gpus()

        stage.ungate("job")
        stage.admit("job")

        assert held == 0
        wait_for("the job", lambda: stage.is_complete("job"))


def test_a_user_without_rights_sees_no_jobs(stack: ControlPlane) -> None:
    nobody = stack.client("nobody", groups=())

    with pytest.raises(Exception, match="403"):
        nobody.list(NODE)


def test_two_control_planes_do_not_meet(stack: ControlPlane, tmp_path: Path) -> None:
    with ControlPlane(tmp_path, nodes=["2x8:accelerator=h100"]) as other:
        theirs = [node["metadata"]["name"] for node in other.client().list(NODE)]
        ours = [node["metadata"]["name"] for node in stack.client().list(NODE)]
        started = list(other.supervisor.components.values())

    assert (len(theirs), len(ours)) == (2, 1)
    assert not any(component.is_running() for component in started)
    assert all(component.is_running() for component in stack.supervisor.components.values())


def test_a_folder_in_use_is_refused(stack: ControlPlane) -> None:
    with pytest.raises(ComponentError, match="in use"):
        ControlPlane(stack.folder).up()

    assert is_true(stack.client().list(NODE)[0], "Ready")


def test_nodes_are_numbered_through() -> None:
    nodes = parse_nodes(["1x4", "1x8:accelerator=h100"])

    assert nodes == [
        NodeSpec(name="node-0", gpus=4),
        NodeSpec(name="node-1", gpus=8, labels={"accelerator": "h100"}),
    ]


@pytest.mark.parametrize(
    ("kind", "plural"),
    [
        ("Job", "jobs"),
        ("WorkloadPriorityClass", "workloadpriorityclasses"),
        ("MutatingAdmissionPolicy", "mutatingadmissionpolicies"),
    ],
)
def test_plurals_are_english(kind: str, plural: str) -> None:
    assert Resource.of({"apiVersion": "v1", "kind": kind}).plural == plural
