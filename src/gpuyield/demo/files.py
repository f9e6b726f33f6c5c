"""What the made-up teams would have written: `gpuyield.yaml`, and their outcomes as JSON lines."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from gpuyield.demo.cluster import BatchJob, Scenario
from gpuyield.model.outcome import Outcome, Verdict
from gpuyield.units import MINUTE_MS, format_duration, format_instant

DECLARATION = "gpuyield.yaml"
OUTCOMES = "outcomes.jsonl"

_PRICES = {"h100": "2.49", "a100": "1.29"}
_CHECKS = {"nightly-eval": ("schema_valid", 3), "finetune-7b": ("loss_below_target", 1)}
"""Families with a check: its name, and what one on time is worth."""
_DEADLINES = {"nightly-eval": '"06:00 Europe/Berlin"', "finetune-7b": "within 48h"}


def write_files(scenario: Scenario, url: str, folder: Path) -> Path:
    """Put both files into the folder; returns the declaration's path."""
    path = folder / DECLARATION
    path.write_text(declaration_text(scenario, url), encoding="utf-8")
    (folder / OUTCOMES).write_text("".join(outcome_lines(scenario)), encoding="utf-8")
    return path


def declaration_text(scenario: Scenario, url: str) -> str:
    """A declaration of the cluster whose Prometheus is at `url`."""
    flavors = sorted({node.flavor for node in scenario.nodes})
    begin = format_instant(scenario.window.from_ms - 365 * 86_400_000)[:10]
    lines = [
        "# A made-up cluster. Change what you like and run gpuyield decide again.",
        "apiVersion: gpuyield.dev/v1alpha1",
        "kind: Cluster",
        "metadata: {name: demo}",
        "currency: EUR",
        "reporting_zone: Europe/Berlin",
        "sources:",
        f'  prometheus: {{url: "{url}"}}',
        f"  outcomes: [{{format: jsonl, path: {OUTCOMES}}}]",
        "teams: {label: team}",
        "prices:",
        *(
            f"  - {{flavor: {flavor}, gpu_hour: {_PRICES[flavor]}, basis: contracted, from: {begin}, to: null}}"
            for flavor in flavors
        ),
        "batch:",
        *(line for family in sorted(_CHECKS) for line in _batch(family, scenario)),
    ]
    return "\n".join(lines) + "\n"


def _batch(family: str, scenario: Scenario) -> Iterator[str]:
    jobs = [job for job in scenario.jobs if job.family == family]
    if not jobs:
        return
    check, weight = _CHECKS[family]
    yield f"  - name: {family}"
    yield f"    selector: {{namespace: {jobs[0].namespace}, labels: {{job: {family}}}}}"
    yield f"    team: {jobs[0].team}"
    yield f"    gpus: {jobs[0].gpus}"
    yield f"    flavors: {{{', '.join(_durations(jobs, scenario))}}}"
    yield f"    deadline: {_DEADLINES[family]}"
    yield f"    weight: {weight}"
    yield f"    outcome: {{unit: job, require: [{check}]}}"


def _durations(jobs: list[BatchJob], scenario: Scenario) -> Iterator[str]:
    longest_ms = max(job.duration_ms for job in jobs)
    duration = format_duration(longest_ms + -longest_ms % MINUTE_MS)
    widest = dict.fromkeys(sorted({node.flavor for node in scenario.nodes}), 0)
    for node in scenario.nodes:
        widest[node.flavor] = max(widest[node.flavor], len(node.cards))
    for flavor, gpus in widest.items():
        if gpus >= jobs[0].gpus:
            yield f"{flavor}: {{duration: {duration}}}"


def outcome_lines(scenario: Scenario) -> Iterator[str]:
    """Outcomes and verdicts, one JSON object a line, in the order of time."""
    for outcome in sorted(scenario.outcomes, key=lambda one: (one.ended_us, one.outcome_id)):
        yield _line(_outcome(outcome))
    for verdict in sorted(scenario.verdicts, key=lambda one: (one.decided_us, one.outcome_id)):
        yield _line(_verdict(verdict))


def _line(fields: dict[str, object]) -> str:
    return json.dumps(fields, separators=(",", ":")) + "\n"


def _outcome(one: Outcome) -> dict[str, object]:
    fields: dict[str, object] = {
        "outcome_id": one.outcome_id,
        "attempt": one.attempt,
        "kind": one.kind.value,
        "started_at": one.started_us,
        "ended_at": one.ended_us,
        "exec_status": one.exec_status.value,
        "namespace": one.namespace,
        "workload_kind": one.workload_kind,
        "workload": one.workload,
        "pod_uid": one.pod_uid,
        "node": one.node,
    }
    return fields | ({"error_type": one.error_type} if one.error_type else {})


def _verdict(one: Verdict) -> dict[str, object]:
    return {
        "verdict_id": one.verdict_id,
        "outcome_id": one.outcome_id,
        "attempt": one.attempt,
        "check": one.check,
        "evaluator_kind": one.evaluator_kind.value,
        "evaluator": one.evaluator,
        "score": one.score,
        "result": one.result.value,
        "decided_at": one.decided_us,
    }
