"""The policies for Kubernetes before 1.36, and the trial of deadlines: gates are required, deadlines warned about."""

from __future__ import annotations

import copy
import json
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from kube import NAMESPACE, Client, wait_for
from scenario import GATES, OUR_GATE, job_manifest, refusal, wait_for_policies

from controlplane import ControlPlane
from gpuyield.controller.manifests.deadlines import deadline_policies
from gpuyield.controller.manifests.gate import requiring
from required import missing

pytestmark = pytest.mark.controlplane

SPACE = "required"

Object = dict[str, Any]


@pytest.fixture(scope="module")
def client(stack: ControlPlane) -> Iterator[Client]:
    """A namespace that opted in, where the gate is required and deadlines are warned about."""
    client = stack.client()
    made = [*requiring(), *deadline_policies("Warn")]
    labels = {"gpuyield.dev/managed": "true"}
    client.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE, "labels": labels}})
    for one in made:
        client.apply(one)
    try:
        wait_for_policies(client)
        wait_for("the namespace's label", lambda: bool(refusal(lambda: client.create(job(None), dry_run=True))))
        yield client
    finally:
        for one in reversed(made):
            client.delete_manifest(one)
        client.delete(NAMESPACE, SPACE)


def job(gate: str | None, **annotations: str) -> Object:
    given = annotations if gate is None else {GATES: gate, **annotations}
    return job_manifest("trial", SPACE, 1, annotations=given)


def cron_job(of: Object) -> Object:
    """A CronJob that makes such jobs."""
    template = copy.deepcopy({"metadata": of["metadata"], "spec": of["spec"]})
    del template["metadata"]["name"], template["metadata"]["namespace"]
    spec = {"schedule": "0 3 * * *", "jobTemplate": template}
    metadata = {"name": "nightly", "namespace": SPACE}
    return {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": metadata, "spec": spec}


@pytest.mark.parametrize(
    ("gate", "allowed"),
    [(None, False), ("x.dev/other", False), (OUR_GATE, True), (f"x.dev/other, {OUR_GATE}", True)],
)
def test_a_job_needs_the_gate(client: Client, gate: str | None, allowed: bool) -> None:
    refused = refusal(lambda: client.create(job(gate), dry_run=True))

    assert allowed == ("start before its time" not in refused), refused


def test_a_cronjob_needs_it_in_its_template(client: Client) -> None:
    assert refusal(lambda: client.create(cron_job(job(OUR_GATE)), dry_run=True)) == ""
    assert "spec.jobTemplate" in refusal(lambda: client.create(cron_job(job(None)), dry_run=True))


def test_a_missing_deadline_is_warned_about_and_the_job_is_made(stack: ControlPlane, client: Client) -> None:
    if shutil.which("kubectl") is None:
        missing("CONTROLPLANE", "There is no kubectl.")

    def submit(of: Object) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["kubectl", "--kubeconfig", str(stack.kubeconfig()), "create", "--dry-run=server", "-f", "-"],
            input=json.dumps(of),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    wait_for("the warning", lambda: "No deadline" in submit(job(OUR_GATE)).stderr)
    without, with_one = submit(job(OUR_GATE)), submit(job(OUR_GATE, **{"gpuyield.dev/deadline": "within 8h"}))

    assert (without.returncode, with_one.returncode) == (0, 0)
    assert "within 8h, 06:00 Europe/Berlin" in without.stderr
    assert "deadline" not in with_one.stderr
