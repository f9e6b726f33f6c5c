"""The policies of `controller manifests` on a real API server: what must be refused, and what is allowed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from kube import NAMESPACE, Client, Resource, wait_for
from scenario import GATES, OUR_GATE, Scenario, job_manifest, now, refusal

from controlplane import ControlPlane
from gpuyield.controller.manifests.everything import objects
from gpuyield.controller.manifests.settings import Deadlines, Settings

pytestmark = pytest.mark.controlplane

SPACE = "policed"
SETTINGS = Settings(image="registry.example/gpuyield:1", deadlines=Deadlines.DENY)
BREAK_GLASS = "gpuyield:break-glass"
DEADLINE = {"gpuyield.dev/deadline": "within 8h"}
JOB_STATUS = Resource("batch/v1", "jobs")
CONFIG_MAP = Resource("v1", "configmaps")
LEASE = Resource("coordination.k8s.io/v1", "leases")

Object = dict[str, Any]


@pytest.fixture(scope="module")
def stage(stack: ControlPlane) -> Iterator[Scenario]:
    """A namespace that opted in, with its queue under the check `gpuyield`, and all manifests applied."""
    client = stack.client()
    made = objects(SETTINGS)
    for one in made:
        client.apply(one)
    stage = Scenario(client, SPACE)
    stage.check = "gpuyield"
    client.apply(
        {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "AdmissionCheck",
            "metadata": {"name": "gpuyield"},
            "status": {"conditions": [active()]},
        },
        manager=OUR_GATE,
        subresource="status",
    )
    stage.check_manifest = lambda: next(one for one in made if one["kind"] == "AdmissionCheck")  # type: ignore[method-assign]
    stage.activate_check = lambda: None  # type: ignore[method-assign]
    stage.set_up({SPACE: 4})
    label(client, SPACE)
    wait_for("the deadline policy", lambda: bool(refusal(lambda: client.create(job("trial"), dry_run=True))))
    wait_for("the gate policy", lambda: gate_of(client.create(job("trial", **DEADLINE), dry_run=True)) == OUR_GATE)
    wait_for("the policies on ourselves", lambda: "may not" not in refusal(lambda: None))
    try:
        yield stage
    finally:
        for one in reversed(made):
            if one["kind"].endswith(("Policy", "Binding")):
                client.delete_manifest(one)
        stage.check = None
        stage.tear_down()
        for one in reversed(made):
            client.delete_manifest(one)


def active() -> Object:
    return {"type": "Active", "status": "True", "reason": "Test", "message": "", "lastTransitionTime": now()}


def label(client: Client, namespace: str, value: str | None = "true") -> None:
    client.merge(NAMESPACE, namespace, {"metadata": {"labels": {"gpuyield.dev/managed": value}}})


def job(name: str, namespace: str = SPACE, gpus: int = 1, **annotations: str) -> Object:
    return job_manifest(name, namespace, gpus, annotations=annotations)


def gate_of(of: Object) -> str | None:
    found: str | None = of["metadata"].get("annotations", {}).get(GATES)
    return found


def test_debug(stage: Scenario) -> None:
    assert True
