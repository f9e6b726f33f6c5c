"""What the made-up teams wrote is valid, and says what the scenario holds."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuyield.declare.yaml_file import load_declaration
from gpuyield.demo.files import declaration_text, outcome_lines
from gpuyield.demo.scenario import make_scenario
from gpuyield.outcomes.jsonl import parse_jsonl

END_MS = 1_750_032_000_000


@pytest.mark.parametrize("gpus", [1, 4, 32])
def test_the_declaration_is_valid(tmp_path: Path, gpus: int) -> None:
    scenario = make_scenario(gpus=gpus, days=3, end_ms=END_MS)
    path = tmp_path / "gpuyield.yaml"
    path.write_text(declaration_text(scenario))

    declared = load_declaration(path)

    assert declared.currency == "EUR"
    assert {family.name for family in declared.batch} <= {job.family for job in scenario.jobs}
    assert {service.name for service in declared.services} == {service.name for service in scenario.services}


def test_the_outcomes_are_those_of_the_scenario() -> None:
    scenario = make_scenario(days=3, end_ms=END_MS)

    imported = parse_jsonl(outcome_lines(scenario).splitlines())

    assert {(one.outcome_id, one.attempt, one.exec_status) for one in imported.outcomes} == {
        (one.outcome_id, one.attempt, one.exec_status) for one in scenario.outcomes
    }
    assert {one.verdict_id for one in imported.verdicts} == {one.verdict_id for one in scenario.verdicts}
