"""A probe as an Indexed Job, given to a real API server: accepted as restricted, and its pods' own arguments run."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path

import pytest
from kube import POD, Client, Object, Resource, wait_for

from controlplane import ControlPlane
from doubles.command import Command, Ended, isolate
from doubles.model_server import running_double
from gpuyield.demo.engine import EngineSettings
from gpuyield.steps.measure_question import Question
from measure.sharing import LEADS_S, ended, of_kind, options, process, question
from required import missing

pytestmark = pytest.mark.controlplane

_SPACE = "measure-test"
_ROLES = [Resource("rbac.authorization.k8s.io/v1", plural) for plural in ("roles", "rolebindings")]
_INDEX = "batch.kubernetes.io/job-completion-index"


@pytest.fixture
def command(
    tmp_path: Path, stack: ControlPlane, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Command:
    """Commands whose kubectl means this control plane, and a namespace that takes restricted pods only."""
    if shutil.which("kubectl") is None:
        missing("CONTROLPLANE", "There is no kubectl.")
    isolate(tmp_path, monkeypatch)
    monkeypatch.setenv("KUBECONFIG", str(stack.kubeconfig()))
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": _SPACE, "labels": labels}}
    stack.client().apply(namespace)
    return Command(tmp_path, capsys)


def in_cluster(command: Command, asked: Question, *more: str, namespace: str = _SPACE) -> Ended:
    """The next round for two pods."""
    given = ("--in-cluster", "--image", "registry.example/gpuyield:1", "--claim", "records", "--namespace", namespace)
    return command("measure", *options(asked), *given, "--requests-map", "requests", *more, "-o", "json")


def test_every_object_is_one_that_the_api_server_takes(command: Command, stack: ControlPlane) -> None:
    client = stack.client()
    with running_double() as server:
        made = in_cluster(command, question(server, command.folder), "--token-secret", "key", "--workers", "2")
    objects: list[Object] = made.document["manifests"]

    # A pod is not even tried without its account.
    account = client.create(objects[0])
    taken = [account, *(client.create(one, dry_run=True) for one in objects[1:])]

    assert made.code == 0
    assert [one["kind"] for one in taken] == ["ServiceAccount", "ConfigMap", "Job", "Pod"]
    spec = of_kind(taken, "Job")["spec"]
    assert (spec["completionMode"], spec["completions"], spec["backoffLimit"]) == ("Indexed", 2, 0)
    (container,) = spec["template"]["spec"]["containers"]
    assert container["resources"]["requests"] == container["resources"]["limits"]
    assert container["resources"]["limits"]["cpu"] == "2"
    assert spec["template"]["spec"]["automountServiceAccountToken"] is False


@pytest.mark.timeout(600)
def test_the_jobs_pods_send_one_probe_together(command: Command, stack: ControlPlane) -> None:
    client = stack.client()
    with running_double(engine=EngineSettings(slots=64, step_s=0.002, output_tokens=4)) as server:
        asked = question(server, command.folder)
        for lead_s in LEADS_S:
            made = in_cluster(command, asked, "--start-in", f"{lead_s}s", "--apply")
            assert made.code == 0, made.err
            name = made.document["round"]
            pods = wait_for("two pods", partial(_pods, client, name))
            settings = client.get(Resource("v1", "configmaps"), name, _SPACE)
            (command.folder / "round.json").write_text(settings["data"]["round.json"])
            here = {"/etc/gpuyield/round.json": "round.json", "/records": "records"}
            here["/requests/requests.jsonl"] = "requests.jsonl"
            running = []
            for pod in pods:
                (container,) = pod["spec"]["containers"]
                arguments = [here.get(one, one) for one in container["args"]]
                index = int(pod["metadata"]["annotations"][_INDEX])
                running.append(process(command.folder, index, arguments))
            said = [ended(one) for one in running]
            if not any("was not ready" in text for _, text in said):
                break
        merged = command("measure", *options(asked), "--merge", f"records/{name}", "-o", "json")

    assert [code for code, _ in said] == [0, 0], said
    assert (merged.code, merged.document["round"]) == (0, name)
    assert [client.list(kind, _SPACE) for kind in _ROLES] == [[], []], "its pods have no rights"
    assert all(_variable(pod) for pod in pods)


def test_what_the_cluster_refuses_is_said(command: Command) -> None:
    with running_double() as server:
        asked = question(server, command.folder)
        made = in_cluster(command, asked, "--apply", namespace="no-such-namespace")

    assert made.code == 3
    assert "kubectl refused" in made.document["errors"][0]["what"]


def _pods(client: Client, name: str) -> list[Object] | None:
    ours = [one for one in client.list(POD, _SPACE) if _INDEX in one["metadata"].get("annotations", {})]
    ours = [one for one in ours if one["metadata"]["labels"]["gpuyield/round"] == name]
    return ours if len(ours) == 2 else None


def _variable(pod: Object) -> bool:
    """Whether Kubernetes itself tells the container its index."""
    (container,) = pod["spec"]["containers"]
    return any(one["name"] == "JOB_COMPLETION_INDEX" for one in container["env"])
