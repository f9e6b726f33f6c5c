"""What the teams of a made-up cluster wrote: `gpuyield.yaml`, and the outcomes of their jobs as JSON lines."""

from __future__ import annotations

import json
from typing import Any  # JSON has no narrower type than this.

from gpuyield.demo.cluster import Scenario
from gpuyield.model.outcome import Outcome, Verdict
from gpuyield.units import format_instant

_PRICES = {"h100": "2.49", "a100": "1.29"}
_OFFERS = {"h100": "1.60", "a100": "0.85"}


def declaration_text(scenario: Scenario, *, url: str = "http://127.0.0.1:9090") -> str:
    """The `gpuyield.yaml` of the cluster; `url` is where `gpuyield demo serve` answers."""
    flavors = list(dict.fromkeys(node.flavor for node in scenario.nodes))
    families = {job.family for job in scenario.jobs}
    lines = [
        "# A cluster made up by gpuyield demo. Its API: gpuyield demo serve",
        "apiVersion: gpuyield.dev/v1alpha1",
        "kind: Cluster",
        "metadata: {name: demo}",
        "currency: EUR",
        "reporting_zone: Europe/Berlin",
        "sources:",
        f'  prometheus: {{url: "{url}"}}',
        '  outcomes: [{format: jsonl, path: "outcomes/*.jsonl"}]',
        "teams: {label: team}",
        "prices:",
        *(f"  - {{flavor: {one}, gpu_hour: {_PRICES[one]}, basis: contracted, from: 2026-01-01}}" for one in flavors),
        "purchase:",
        *(f"  - {{flavor: {one}, kind: reserved_1y, price: {_OFFERS[one]}, min: 8, lead_time: 6w}}" for one in flavors),
        "services:",
    ]
    for service in scenario.services:
        lines += [
            f"  - name: {service.name}",
            f"    selector: {{namespace: {service.namespace}, labels: {{app: {service.app}}}}}",
            f"    team: {service.team}",
            "    objectives:",
            "      - {name: ttft, metric: ttft, at_most: 800ms, share: 0.95, window: 28d}",
        ]
    lines += ["batch:"] + [line for family in _FAMILIES if family in families for line in _FAMILIES[family]]
    return "\n".join(lines) + "\n"


_FAMILIES = {
    "nightly-eval": (
        "  - name: nightly-eval",
        "    selector: {namespace: evals, labels: {job: nightly-eval}}",
        "    team: evals",
        '    deadline: "06:00 Europe/Berlin"',
        "    weight: 3",
        "    outcome: {unit: job, require: [schema_valid], policy: all}",
    ),
    "finetune-7b": (
        "  - name: finetune-7b",
        "    selector: {namespace: search, labels: {job: finetune-7b}}",
        "    team: search",
        "    deadline: within 48h",
        "    outcome: {unit: job, require: [loss_below_target], policy: all}",
    ),
}


def outcome_lines(scenario: Scenario) -> str:
    """Outcomes and verdicts, one JSON object a line, in the order in which they became known."""
    rows = [
        *((one.ended_us, _outcome(one)) for one in scenario.outcomes),
        *((one.decided_us, _verdict(one)) for one in scenario.verdicts),
    ]
    ordered = sorted(rows, key=lambda row: (row[0], row[1]["outcome_id"]))
    return "".join(json.dumps(row, separators=(",", ":")) + "\n" for _, row in ordered)


def _outcome(one: Outcome) -> dict[str, Any]:
    row = {
        "outcome_id": one.outcome_id,
        "attempt": one.attempt,
        "kind": str(one.kind),
        "started_at": format_instant(one.started_us // 1000),
        "ended_at": format_instant(one.ended_us // 1000),
        "exec_status": str(one.exec_status),
        "namespace": one.namespace,
        "workload_kind": one.workload_kind,
        "workload": one.workload,
        "pod_uid": one.pod_uid,
        "node": one.node,
        "error_type": one.error_type,
    }
    return {key: value for key, value in row.items() if value != ""}


def _verdict(one: Verdict) -> dict[str, Any]:
    return {
        "verdict_id": one.verdict_id,
        "outcome_id": one.outcome_id,
        "attempt": one.attempt,
        "check": one.check,
        "evaluator_kind": str(one.evaluator_kind),
        "evaluator": one.evaluator,
        "score": one.score,
        "result": str(one.result),
        "decided_at": format_instant(one.decided_us // 1000),
    }
