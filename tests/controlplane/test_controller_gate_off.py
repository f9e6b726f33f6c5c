"""Where Kueue ignores the gate (its feature is off) the canary finds it out, and the check alone keeps the plan."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from command_line import asked
from enforcement import Enforcer, Planned, planned
from kube import CLUSTER_QUEUE, Client, wait_for

from controlplane import ControlPlane

pytestmark = pytest.mark.controlplane

_NUMBERS = count(1)
"""A name that is used again meets what is still being deleted."""


@pytest.fixture(scope="module")
def gate_off(stack: ControlPlane) -> Iterator[None]:
    """Kueue without AdmissionGatedBy, as it is by default before 0.19."""
    _restart_kueue(stack, gated=False)
    yield
    _restart_kueue(stack, gated=True)


@pytest.fixture
def stage_without_gate(gate_off: None, client: Client, enforcer: Enforcer) -> Iterator[Planned]:
    with planned(client, f"gate-off-{next(_NUMBERS)}") as made:
        yield made


def _restart_kueue(stack: ControlPlane, *, gated: bool) -> None:
    stack.gates["AdmissionGatedBy"] = gated
    stack.kill("kueue")
    stack.start("kueue")


def dry_run(stack: ControlPlane, folder: Path) -> dict[str, object]:
    code, found = asked(stack.kubeconfig(), "controller", "run", "--dry-run", folder=folder)
    assert code == 0, found
    return found


def test_without_the_gate_the_check_alone_keeps_the_plan_and_nothing_is_stopped(
    stack: ControlPlane, stage_without_gate: Planned, tmp_path: Path
) -> None:
    stage = stage_without_gate
    stage.ask("runs", 4, seconds=4, expected="7s", deadline="within 60s")
    stage.wait_running("runs")
    stage.ask("late", 4, seconds=1, expected="20s", deadline="within 5m")
    stage.ask("first", 4, seconds=1, expected="5s", deadline="within 25s")
    found = dry_run(stack, tmp_path)

    stage.wait_complete("runs", "first", "late")

    assert (found["gate"], found["enforces"]) == ("ignored", True)
    assert stage.witness.order == ["runs", "first", "late"]
    stage.expect_nothing_stopped()


def test_without_the_gate_a_queue_that_preempts_is_refused_and_nothing_starts(
    stack: ControlPlane, stage_without_gate: Planned, client: Client, tmp_path: Path
) -> None:
    stage = stage_without_gate
    preempting = stage.cluster_queue(
        stage.name, {stage.name: 4}, preemption={"withinClusterQueue": "LowerPriority", "reclaimWithinCohort": "Never"}
    )

    client.apply(preempting)
    found = dry_run(stack, tmp_path)

    assert found["enforces"] is False
    assert "preempts" in str(found["refusal"])
    client.apply(stage.cluster_queue(stage.name, {stage.name: 4}, preemption={"withinClusterQueue": "Never"}))
    wait_for("the queue", lambda: client.get(CLUSTER_QUEUE, stage.name)["spec"]["preemption"])


def test_a_job_in_a_queue_on_hold_is_moved_into_its_own_when_its_time_has_come(stage_without_gate: Planned) -> None:
    stage = stage_without_gate
    stage.add_local_queue("held", stage.name)
    stage.stop_local_queue("Hold", "held")
    stage.ask("runs", 4, seconds=4, expected="7s", deadline="within 60s")
    stage.wait_running("runs")

    wish = {"gpuyield.dev/queue": "main", "gpuyield.dev/expected-duration": "4s", "gpuyield.dev/deadline": "within 60s"}
    stage.submit("moved", 4, seconds=1, queue="held", annotations=wish)

    stage.wait_complete("runs", "moved")
    assert stage.started_at("moved") >= stage.completed_at("runs")
    assert not stage.was_evicted("moved")
    stage.expect_nothing_stopped()
