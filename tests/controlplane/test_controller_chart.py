"""The chart under the real Helm: it lints, it is what `controller manifests` prints, and the kustomize base is that."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import binaries
import pytest
import yaml
from kube import NAMESPACE, Resource
from scenario import refusal

from controlplane import ControlPlane
from gpuyield.cli.controller_deploy import IMAGE
from gpuyield.controller.manifests.everything import objects
from gpuyield.controller.manifests.settings import Deadlines, Gate, Hold, Settings
from required import missing

pytestmark = pytest.mark.controlplane

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "deploy" / "helm" / "gpuyield"
BASE = ROOT / "deploy" / "kustomize" / "base"
SPACE = "gpuyield-charted"

Object = dict[str, Any]


@pytest.fixture(scope="module")
def helm() -> Path:
    try:
        return binaries.program("helm")
    except binaries.BuildError as error:
        missing("CONTROLPLANE", str(error))


def run(helm: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([helm, *arguments], capture_output=True, text=True, timeout=60, check=False)


def rendered(helm: Path, *values: str, namespace: str = "gpuyield-system", kubernetes: str = "1.36.0") -> list[Object]:
    sets = [word for value in values for word in ("--set-json", value)]
    place = ("--namespace", namespace, "--kube-version", kubernetes)
    done = run(helm, "template", "gpuyield", str(CHART), *place, *sets)
    assert done.returncode == 0, done.stderr
    return [one for one in yaml.safe_load_all(done.stdout) if one]


def by_name(made: list[Object]) -> dict[tuple[str, str], Object]:
    return {(one["kind"], one["metadata"]["name"]): one for one in made if one["kind"] != "Namespace"}


def test_helm_finds_nothing_wrong_with_it(helm: Path) -> None:
    done = run(helm, "lint", "--strict", str(CHART))

    assert done.returncode == 0, done.stdout
    assert "[WARNING]" not in done.stdout


@pytest.mark.parametrize("deadlines", Deadlines)
@pytest.mark.parametrize("gate", Gate)
@pytest.mark.parametrize("hold", Hold)
def test_it_makes_what_the_command_prints(helm: Path, deadlines: Deadlines, gate: Gate, hold: Hold) -> None:
    config = "kind: Cluster\nmetadata: {name: 'x'}\n"
    values = (f'deadlines="{deadlines}"', f'gate="{gate}"', f'hold="{hold}"', "replicas=3", 'image="r.example/g:2"')
    settings = Settings(
        image="r.example/g:2", deadlines=deadlines, gate=gate, hold=hold, replicas=3, namespace="other", config=config
    )

    charted = rendered(helm, *values, "config=\"kind: Cluster\\nmetadata: {name: 'x'}\\n\"", namespace="other")

    assert by_name(charted) == by_name(objects(settings))


def test_the_base_is_its_output_with_the_defaults(helm: Path) -> None:
    base = list(yaml.safe_load_all((BASE / "gpuyield.yaml").read_text()))
    namespace = yaml.safe_load((BASE / "namespace.yaml").read_text())
    kustomization = yaml.safe_load((BASE / "kustomization.yaml").read_text())

    assert by_name(base) == by_name(rendered(helm))
    assert [namespace, *base] == objects(Settings(image=IMAGE))
    assert kustomization["resources"] == ["namespace.yaml", "gpuyield.yaml"]


def test_an_older_kubernetes_is_told_what_to_choose(helm: Path) -> None:
    done = run(helm, "template", "gpuyield", str(CHART), "--kube-version", "1.33.0")

    assert done.returncode != 0
    assert "Set gate=require" in done.stderr
    assert rendered(helm, 'gate="require"', kubernetes="1.33.0")


@pytest.mark.parametrize("value", ['deadlines="maybe"', "replicas=0", 'imgae="x"', 'image="no image"'])
def test_values_that_cannot_be_meant_are_refused(helm: Path, value: str) -> None:
    done = run(helm, "template", "gpuyield", str(CHART), "--kube-version", "1.36.0", "--set-json", value)

    assert done.returncode != 0
    assert value.partition("=")[0] in done.stderr


def test_what_a_cluster_wants_of_the_pods_is_put_there(helm: Path) -> None:
    charted = rendered(helm, 'nodeSelector={"role":"infra"}', 'tolerations=[{"operator":"Exists"}]')

    pod = by_name(charted)["Deployment", "gpuyield-controller"]["spec"]["template"]["spec"]
    assert (pod["nodeSelector"], pod["tolerations"]) == ({"role": "infra"}, [{"operator": "Exists"}])


@pytest.fixture
def space(stack: ControlPlane) -> Iterator[str]:
    client = stack.client()
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    client.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE, "labels": labels}})
    yield SPACE
    client.delete(NAMESPACE, SPACE)


def test_helm_installs_it_on_the_api_server_dry_and_for_real(helm: Path, stack: ControlPlane, space: str) -> None:
    client = stack.client()
    way = ("--kubeconfig", str(stack.kubeconfig()), "--namespace", space)

    dry = run(helm, "install", "gpuyield", str(CHART), *way, "--dry-run=server")
    real = run(helm, "install", "gpuyield", str(CHART), *way)
    try:
        deployments = Resource("apps/v1", "deployments")
        found = client.get(deployments, "gpuyield-controller", space)
        template = found["spec"]["template"]
        pod = {"apiVersion": "v1", "kind": "Pod", **template, "metadata": {"name": "one", "namespace": space}}
        restricted = refusal(lambda: client.create(pod, dry_run=True))
    finally:
        gone = run(helm, "uninstall", "gpuyield", *way)

    assert (dry.returncode, real.returncode, gone.returncode) == (0, 0, 0), dry.stderr + real.stderr + gone.stderr
    assert "gpuyield controller lint" in real.stdout
    assert (restricted, found["spec"]["replicas"]) == ("", 2)
    assert refusal(lambda: client.get(deployments, "gpuyield-controller", space)).startswith("404")
