"""The scenarios of the real control plane on the double of its API: the same file, and the double tells the same."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime

import pytest
from enforcement import HOME, Enforcer, Planned
from kube import Client
from test_controller_scenarios import *  # noqa: F403  (the same tests, with the fixtures below)
from test_controller_scenarios import FOUR

from doubles.cluster.kueue import KueueDouble, kueue_running
from doubles.cluster.objects import ApiObjects
from doubles.cluster.serving import serving_objects
from gpuyield.collect.kubernetes import NODE

pytestmark = pytest.mark.controlplane
_SIZE = {"nvidia.com/gpu": "4", "cpu": "64"}


@pytest.fixture(scope="module")
def objects() -> ApiObjects:
    """What is in the cluster."""
    return ApiObjects()


@pytest.fixture(scope="module")
def client(objects: ApiObjects, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """A cluster of one node with 4 GPUs, of which nothing is real but the HTTP."""
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
    node = {"metadata": {"name": "n1", "labels": {}}, "spec": {}}
    objects.put(NODE, {**node, "status": {"allocatable": _SIZE, "capacity": _SIZE, "conditions": [ready]}})
    folder = tmp_path_factory.mktemp("double")
    with serving_objects(objects, folder) as kubeconfig, kueue_running(KueueDouble(objects)):
        made = Client(kubeconfig)
        made.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": HOME}})
        yield made
        made.close()


@pytest.fixture(scope="module")
def enforcer(client: Client, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Enforcer]:
    """One replica of the controller."""
    replica = Enforcer(client.kubeconfig, tmp_path_factory.mktemp("enforcer"), "replica-a")
    replica.start()
    yield replica
    replica.stop()
    print(replica.said()[-8000:])


def test_watches_that_break_and_are_too_old_all_the_time_harm_no_plan(stage: Planned, objects: ApiObjects) -> None:
    for name in FOUR:
        stage.ask(name, seconds=3, expected="6s", deadline="within 90s")

    until_s = time.monotonic() + 6
    while time.monotonic() < until_s:
        objects.compact()
        objects.break_watches()
        time.sleep(0.3)

    stage.wait_complete(*FOUR)
    assert stage.witness.peak <= 4
    assert stage.evictions() == 0
    stage.expect_nothing_stopped()


def test_what_was_planned_is_marked_on_the_workload(stage: Planned) -> None:
    stage.ask("runs", 4, seconds=2, expected="4s", deadline="within 60s")
    stage.wait_running("runs")
    stage.ask("next", 4, seconds=1, expected="3s", deadline="within 60s")

    stage.wait_complete("runs", "next")

    marks = stage.workload("next")["metadata"]["annotations"]
    began = datetime.fromisoformat(stage.started_at("next"))
    planned, first = (
        datetime.fromisoformat(marks[f"gpuyield.dev/{name}"]) for name in ("planned-start", "first-planned-start")
    )
    assert abs((began - planned).total_seconds()) <= 3
    assert abs((began - first).total_seconds()) <= 6
    assert marks["gpuyield.dev/started-because"]
