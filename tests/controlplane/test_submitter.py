"""What a person who submits a job can ask a real cluster: before submitting, and with rights on one namespace only."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from kube import Object
from scenario import Scenario, job_manifest

from controlplane import ControlPlane

pytestmark = pytest.mark.controlplane

NAME = "submit"
FLAVOR = "submit-gpu"
OTHER = "submit-other"


@pytest.fixture
def stage(stack: ControlPlane) -> Iterator[Scenario]:
    """A queue of the node's four GPUs, and another team's namespace that uses it too."""
    stage = Scenario(stack.client(), NAME, checked=False)
    stage.set_up({FLAVOR: 4})
    other = Scenario(stack.client(), OTHER, checked=False)
    stack.client().apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": OTHER}})
    other.add_local_queue("main", NAME)
    try:
        yield stage
    finally:
        other.tear_down()
        stage.tear_down()


def gpuyield(kubeconfig: Path, *arguments: str, folder: Path, form: str = "json") -> tuple[int, str]:
    """Exit code and stdout of a command in an empty folder."""
    done = subprocess.run(
        [sys.executable, "-m", "gpuyield", *arguments, "-o", form],
        env={**os.environ, "KUBECONFIG": str(kubeconfig)},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, done.stdout


def asked(kubeconfig: Path, *arguments: str, folder: Path) -> dict[str, Any]:
    code, said = gpuyield(kubeconfig, *arguments, folder=folder)
    document: dict[str, Any] = json.loads(said)
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

    fits = asked(stack.kubeconfig(), "what-if", "--job", manifest(tmp_path, mine), folder=tmp_path)
    late = asked(stack.kubeconfig(), "what-if", "--job", manifest(tmp_path, tight), folder=tmp_path)
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
