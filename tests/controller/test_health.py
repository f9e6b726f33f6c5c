"""The pages that probes and Prometheus read."""

from __future__ import annotations

from collections.abc import Iterator
from http.client import HTTPConnection

import pytest

from doubles.exposition_text import read_rows
from gpuyield.controller.health import Health
from gpuyield.controller.metrics import Metrics
from gpuyield.errors import SourceError


@pytest.fixture
def trouble() -> dict[str, str]:
    return {"alive": "", "ready": ""}


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


@pytest.fixture
def health(trouble: dict[str, str], metrics: Metrics) -> Iterator[Health]:
    serving = Health(
        "127.0.0.1", 0, not_alive=lambda: trouble["alive"], not_ready=lambda: trouble["ready"], metrics=metrics
    )
    yield serving
    serving.close()


def asked(health: Health, path: str) -> tuple[int, str]:
    line = HTTPConnection("127.0.0.1", health.port, timeout=10)
    try:
        line.request("GET", path)
        answer = line.getresponse()
        return answer.status, answer.read().decode()
    finally:
        line.close()


def test_it_is_well_while_nothing_is_wrong(health: Health) -> None:
    assert asked(health, "/healthz") == asked(health, "/readyz") == (200, "ok\n")


def test_what_is_wrong_is_told_as_a_sentence(health: Health, trouble: dict[str, str]) -> None:
    trouble["ready"] = "it stands by: pod-b leads"

    assert asked(health, "/healthz")[0] == 200
    assert asked(health, "/readyz") == (503, "it stands by: pod-b leads\n")


def test_other_pages_are_not_found(health: Health) -> None:
    assert asked(health, "/")[0] == 404


def test_metrics_count_what_was_done(health: Health, metrics: Metrics) -> None:
    metrics.count("releases", 2)
    metrics.took(0.03)
    metrics.took(3.0)
    metrics.plan_status = "feasible"
    metrics.slack_s = {("evals", 'odd"name'): 12.5}

    rows = {
        (labels.pop("__name__"), *labels.values()): value for labels, value in read_rows(asked(health, "/metrics")[1])
    }

    assert rows["gpuyield_controller_releases_total",] == 2
    assert rows["gpuyield_controller_early_stops_total",] == 0
    assert rows["gpuyield_controller_decision_seconds_bucket", "0.025"] == 0
    assert rows["gpuyield_controller_decision_seconds_bucket", "0.05"] == 1
    assert rows["gpuyield_controller_decision_seconds_bucket", "+Inf"] == 2
    assert rows["gpuyield_controller_decision_seconds_sum",] == pytest.approx(3.03)
    assert rows["gpuyield_plan_status", "feasible"] == 1
    assert rows["gpuyield_deadline_slack_seconds", "evals", 'odd"name'] == 12.5


def test_a_port_that_is_taken_is_a_clear_mistake(health: Health) -> None:
    with pytest.raises(SourceError, match="--port"):
        Health("127.0.0.1", health.port, not_alive=str, not_ready=str, metrics=Metrics())
