"""The seed example decided. Golden documents are written by `python tests/decide/test_decide_seed.py`."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from gpuyield.decide.decide import decide
from gpuyield.decide.document import decision_document, decision_inputs
from gpuyield.declare.problem import read_problem
from gpuyield.model.decision import DecideInputs, Decision, GpuRate
from gpuyield.model.document import canonical_bytes
from gpuyield.units import Money, parse_instant
from gpuyield.verify import check

SEED = Path(__file__).parents[2] / "examples" / "seed"
STATUS = {"jobs-0200": "not_needed", "jobs-0100": "needed", "jobs-5h": "not_needed"}


def seed_decision(name: str) -> Decision:
    problem = read_problem(
        SEED / f"{name}.yaml",
        capacity=SEED / "capacity.json",
        now_ms=parse_instant("2026-11-30T20:00:00Z"),
        zone=ZoneInfo("Europe/Berlin"),
    )
    sources = tuple(replace(one, path=Path(one.path).name) for one in problem.sources)
    price = GpuRate(gpu_hour=Money(Decimal("2.49"), "EUR"), source="declared")
    return decide(
        DecideInputs(
            now_ms=problem.origin_ms,
            cluster="seed",
            zone="Europe/Berlin",
            problem=replace(problem, sources=sources),
            prices={"gpu": price},
            sources=sources,
        )
    )


def texts(name: str) -> tuple[str, bytes]:
    decision = seed_decision(name)
    document = json.dumps(decision_document(decision), indent=2, ensure_ascii=False) + "\n"
    return document, canonical_bytes(decision_inputs(decision))


@pytest.mark.parametrize("name", STATUS)
def test_the_seed_gives_the_golden_decision(name: str) -> None:
    document, inputs = texts(name)

    assert inputs == (SEED / f"{name}.decide.inputs.json").read_bytes()
    # The plan inside is held to its own golden document; here it only has to be one that verify accepts.
    assert without_plan(json.loads(document)) == without_plan(json.loads((SEED / f"{name}.decide.json").read_text()))


def without_plan(document: dict[str, Any]) -> dict[str, Any]:
    return document | {"certificate": document["certificate"] | {"plan": None}}


@pytest.mark.parametrize("name", STATUS)
def test_the_golden_decision_has_its_status_and_a_certificate_that_verify_accepts(name: str) -> None:
    document = json.loads((SEED / f"{name}.decide.json").read_text())
    inputs = json.loads((SEED / f"{name}.decide.inputs.json").read_bytes())

    report = check(document, canonical_bytes(inputs))

    assert document["status"] == STATUS[name]
    assert report.accepted, report.refused


if __name__ == "__main__":
    for golden in STATUS:
        written, raw = texts(golden)
        (SEED / f"{golden}.decide.json").write_text(written)
        (SEED / f"{golden}.decide.inputs.json").write_bytes(raw)
