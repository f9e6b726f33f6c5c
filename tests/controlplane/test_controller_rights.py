"""The controller under its own manifests: its account, its roles, and all policies are enough to enforce a plan."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from enforcement import Enforcer, Planned
from kube import NAMESPACE, wait_for
from scenario import GATES, job_manifest, refusal

from controlplane import ControlPlane
from gpuyield.controller.manifests.everything import objects
from gpuyield.controller.manifests.running import check
from gpuyield.controller.manifests.settings import Deadlines, Settings

pytestmark = pytest.mark.controlplane

SETTINGS = Settings(image="registry.example/gpuyield:1", deadlines=Deadlines.DENY)
ACCOUNT = "system:serviceaccount:gpuyield-system:gpuyield-controller"
GROUPS = ("system:serviceaccounts", "system:serviceaccounts:gpuyield-system")

Object = dict[str, Any]


class Installed(Planned):
    """A planned queue under the check of the manifests, in a namespace that opted in, and the replica that plans it."""

    replica: Enforcer

    def check_manifest(self) -> Object:
        """The check as it is installed."""
        self.check = "gpuyield"
        return check()


@pytest.fixture
def stage(stack: ControlPlane, tmp_path: Path) -> Iterator[Installed]:
    client = stack.client()
    made = objects(SETTINGS)
    for one in made:
        client.apply(one)
    replica = Enforcer(stack.kubeconfig(ACCOUNT, GROUPS), tmp_path, "replica-of-the-account")
    replica.start()
    stage = Installed(client, "installed")
    stage.replica = replica
    try:
        stage.set_up({stage.name: 4})
        client.merge(NAMESPACE, stage.name, {"metadata": {"labels": {"gpuyield.dev/managed": "true"}}})
        trial = job_manifest("trial", stage.name, 1)
        wait_for("the policies", lambda: "No deadline" in refusal(lambda: client.create(trial, dry_run=True)))
        replica.wait_ready()
        yield stage
    finally:
        replica.stop()
        for one in reversed(made[1:]):
            if one["kind"] != "AdmissionCheck":
                client.delete_manifest(one)
        stage.tear_down()
        client.delete_manifest(check())
        print(replica.said()[-6000:])


def test_the_seed_example_runs_under_real_rights_and_every_policy(stage: Installed) -> None:
    jobs = ("q1", "q2", "q3", "q4")
    for name in jobs:
        # Nobody writes the gate: the API server adds it.
        stage.ask(name, seconds=3, expected="6s", gated=False, deadline="within 60s")
    gates = {stage.job(name)["metadata"]["annotations"].get(GATES) for name in jobs[2:]}

    stage.wait_complete(*jobs)

    assert gates == {"gpuyield.dev/plan"}
    assert stage.witness.peak == 4
    assert [line for line in stage.replica.said().splitlines() if "failed" in line or "forbidden" in line] == []
    stage.expect_nothing_stopped()
    assert any("Planned" in said for said in stage.events("q4"))
    assert all(GATES not in stage.job(name)["metadata"].get("annotations", {}) for name in jobs)
