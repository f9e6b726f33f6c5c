"""What lies in deploy/ beside the chart: alerts and dashboard ask for what exists, the image runs without rights."""

from __future__ import annotations

import json
import re
from pathlib import Path

import yaml

from gpuyield.controller.metrics import Metrics

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
OF_REPORTS = {
    "gpuyield_gpu_hours",
    "gpuyield_cost",
    "gpuyield_verified_outcomes",
    "gpuyield_cost_per_verified_outcome",
    "gpuyield_queue_gpu_hours",
    "gpuyield_certified_rps",
    "gpuyield_headroom_rps",
    "gpuyield_decision_status",
    "gpuyield_data_age_seconds",
}
"""Gauges of closed days and of now that are no matter of the controller."""


def of_controller() -> set[str]:
    """Names on the controller's own page, with what a histogram makes of its name."""
    page = Metrics(plan_status="optimal").text()
    return set(re.findall(r"^# TYPE (\S+)", page, re.MULTILINE)) | set(
        re.findall(r"^(gpuyield_\w+)", page, re.MULTILINE)
    )


def asked(text: str) -> set[str]:
    return set(re.findall(r"\bgpuyield_\w+", text))


def test_alerts_ask_for_metrics_of_the_controller() -> None:
    rules = yaml.safe_load((DEPLOY / "prometheus" / "rules.yaml").read_text())
    alerts = [rule for group in rules["groups"] for rule in group["rules"]]

    for alert in alerts:
        assert asked(alert["expr"]), alert["alert"]
        assert asked(alert["expr"]) <= of_controller(), alert["alert"]
        assert {"summary", "description"} <= set(alert["annotations"])
    assert len({alert["alert"] for alert in alerts}) == len(alerts)


def test_each_alert_has_a_case_in_which_it_keeps_quiet() -> None:
    rules = yaml.safe_load((DEPLOY / "prometheus" / "rules.yaml").read_text())
    cases = yaml.safe_load((DEPLOY / "prometheus" / "rules.test.yaml").read_text())["tests"]

    quiet = {one["alertname"] for case in cases for one in case["alert_rule_test"] if not one["exp_alerts"]}
    assert quiet == {rule["alert"] for group in rules["groups"] for rule in group["rules"]}


def test_the_dashboard_asks_for_metrics_that_exist() -> None:
    dashboard = json.loads((DEPLOY / "grafana" / "gpuyield.json").read_text())
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]

    assert {name for one in queries for name in asked(one)} <= of_controller() | OF_REPORTS
    assert all(asked(one) for one in queries)
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])


def test_panels_of_the_dashboard_do_not_overlap() -> None:
    dashboard = json.loads((DEPLOY / "grafana" / "gpuyield.json").read_text())
    taken: set[tuple[int, int]] = set()

    for panel in dashboard["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        assert max(x for x, _ in cells) < 24
        taken |= cells


def test_the_image_takes_the_locked_packages_and_runs_as_nobody() -> None:
    lines = (DEPLOY / "Containerfile").read_text().splitlines()

    assert any("--require-hashes -r requirements.lock" in line for line in lines)
    assert "USER 65532:65532" in lines
    assert lines[-1] == 'ENTRYPOINT ["gpuyield"]'
    assert not any(line.startswith(("ADD", "EXPOSE")) for line in lines)
