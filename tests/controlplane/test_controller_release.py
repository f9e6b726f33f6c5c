"""`controller release` with the controller down: gates, parking and checks on the real Kueue, and who may do it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from command_line import asked
from kube import JOB, NAMESPACE, WORKLOAD, is_true, wait_for
from scenario import GATES, Scenario, job_manifest, refusal

from controlplane import ControlPlane
from gpuyield.controller.manifests.gate import guarding
from gpuyield.controller.manifests.rights import BREAK_GLASS_ROLE, roles
from gpuyield.controller.manifests.settings import Settings

pytestmark = pytest.mark.controlplane

_NUMBERS = count(1)

Object = dict[str, Any]


@pytest.fixture
def stage(stack: ControlPlane) -> Iterator[Scenario]:
    """Four GPUs under a check of ours, and no controller."""
    stage = Scenario(stack.client(), f"broken-glass-{next(_NUMBERS)}")
    stage.set_up({stage.name: 4})
    try:
        yield stage
    finally:
        stage.tear_down()


def release(kubeconfig: Path, folder: Path, *arguments: str) -> tuple[int, Object]:
    return asked(kubeconfig, "controller", "release", *arguments, folder=folder)


def park(stage: Scenario, name: str) -> None:
    """As the controller does it: our annotations, and switched off under a Pending check."""
    stage.wait_checked(name)
    workload = stage.workload(name)["metadata"]["name"]
    marks = {"gpuyield.dev/parked": "2026-12-01T06:00:00Z", "gpuyield.dev/parked-because": "test"}
    stage.client.merge(WORKLOAD, workload, {"metadata": {"annotations": marks}, "spec": {"active": False}}, stage.name)
    wait_for("its quota to be free", lambda: not stage.has(name, "QuotaReserved"))


def test_all_that_is_held_starts_and_first_it_is_only_shown(
    stack: ControlPlane, stage: Scenario, tmp_path: Path
) -> None:
    stage.submit("parked", 1, seconds=1)
    park(stage, "parked")
    stage.submit("gated", 1, gated=True, seconds=1)
    stage.submit("asked", 1, seconds=1)
    stage.workload("gated")
    stage.wait_checked("asked")
    kubeconfig = stack.kubeconfig()

    shown_code, shown = release(kubeconfig, tmp_path, "--all")
    untouched = stage.job("gated")["metadata"]["annotations"][GATES]
    code, done = release(kubeconfig, tmp_path, "--all", "--apply")

    held = {one["job"]: (one["gated"], one["parked"], bool(one["checks"])) for one in shown["jobs"]}
    assert (shown_code, shown["applied"], untouched) == (0, False, "gpuyield.dev/plan")
    assert held == {
        f"{stage.name}/gated": (True, False, False),
        f"{stage.name}/parked": (False, True, False),
        f"{stage.name}/asked": (False, False, True),
    }
    assert (code, {one["state"] for one in done["jobs"]}) == (0, {"started"})
    for name in ("gated", "parked", "asked"):
        wait_for(f"{name} to end", lambda name=name: stage.is_complete(name))
    assert release(kubeconfig, tmp_path, "--all")[1]["jobs"] == []


def test_one_job_goes_and_the_others_and_other_gates_stay(stack: ControlPlane, stage: Scenario, tmp_path: Path) -> None:
    client = stage.client
    stage.submit("one", 1, gated=True, seconds=1)
    stage.submit("two", 1, gated=True)
    client.create(job_manifest("three", stage.name, 1, annotations={GATES: "x.dev/other,gpuyield.dev/plan"}))
    for name in ("one", "two", "three"):
        stage.workload(name)

    _, one = release(stack.kubeconfig(), tmp_path, "job/one", "--apply")
    _, three = release(stack.kubeconfig(), tmp_path, f"{stage.name}/three", "--apply")
    code, refused = release(stack.kubeconfig(), tmp_path, "nobody", "--apply")

    assert [(each["job"], each["state"]) for each in one["jobs"]] == [(f"{stage.name}/one", "started")]
    assert [each["state"] for each in three["jobs"]] == ["held by x.dev/other"]
    assert stage.job("three")["metadata"]["annotations"][GATES] == "x.dev/other"
    assert stage.job("two")["metadata"]["annotations"][GATES] == "gpuyield.dev/plan"
    assert (code, refused["errors"][0]["what"]) == (2, "nobody is not held by gpuyield.")


def test_what_has_no_quota_yet_is_told_and_answered_when_it_is_run_again(
    stack: ControlPlane, stage: Scenario, tmp_path: Path
) -> None:
    stage.submit("first", 4)
    stage.admit("first")
    stage.submit("later", 4, gated=True, seconds=1)
    stage.workload("later")
    _, waits = release(stack.kubeconfig(), tmp_path, "--all", "--apply")
    stage.cancel("first")
    stage.wait_checked("later")

    _, done = release(stack.kubeconfig(), tmp_path, "--all", "--apply")

    assert [one["state"] for one in waits["jobs"]] == ["waits for quota"]
    assert [one["state"] for one in done["jobs"]] == ["started"]


def test_under_the_guard_it_takes_the_group_and_the_role_and_says_so(
    stack: ControlPlane, stage: Scenario, tmp_path: Path
) -> None:
    client = stage.client
    settings = Settings(image="registry.example/gpuyield:1")
    role = next(one for one in roles(settings) if one["metadata"]["name"] == BREAK_GLASS_ROLE)
    group = "rbac.authorization.k8s.io"
    binding = {
        "apiVersion": f"{group}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": BREAK_GLASS_ROLE},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": BREAK_GLASS_ROLE},
        "subjects": [{"apiGroup": group, "kind": "Group", "name": "gpuyield:break-glass"}],
    }
    made = [*guarding(settings), role, binding]
    stage.submit("held", 1, gated=True, seconds=1)
    stage.workload("held")
    for one in made:
        client.apply(one)
    client.merge(NAMESPACE, stage.name, {"metadata": {"labels": {"gpuyield.dev/managed": "true"}}})
    try:
        wait_for("the guard", lambda: "plan says so" in _ungating(stage))

        refused_code, refused = release(stack.kubeconfig(), tmp_path, "held", "--apply")
        breaker = stack.kubeconfig("glass-breaker", groups=("gpuyield:break-glass",))
        code, done = release(breaker, tmp_path, "held", "--apply")
    finally:
        for one in reversed(made):
            client.delete_manifest(one)

    assert refused_code == 3
    assert "gpuyield:break-glass" in refused["errors"][0]["fix"]
    assert (code, [one["state"] for one in done["jobs"]]) == (0, ["started"])
    assert is_true(stage.workload("held"), "Admitted")


def _ungating(stage: Scenario) -> str:
    change = {"metadata": {"annotations": {GATES: None}}}
    return refusal(lambda: stage.client.merge(JOB, "held", change, stage.name, dry_run=True))
