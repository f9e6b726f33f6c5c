"""What only the double of the API server can do to a controller, and what is seen best without a real one's delays."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime

import pytest
from enforcement import Planned
from kube import Client
from on_double import double_client

from doubles.cluster.objects import ApiObjects

pytestmark = pytest.mark.controlplane
FOUR = ("q1", "q2", "q3", "q4")


@pytest.fixture(scope="module")
def objects() -> ApiObjects:
    """What is in the cluster."""
    return ApiObjects()


@pytest.fixture(scope="module")
def client(objects: ApiObjects, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """The double in the place of the control plane."""
    with double_client(objects, tmp_path_factory.mktemp("double")) as made:
        yield made


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
