"""Searches over real sockets against a double whose capacity a long simulation knows, one for each kind of limit."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from doubles.model_server import running_double
from gpuyield.declare.objectives import parse_objective
from gpuyield.demo.engine import EngineSettings
from gpuyield.measure.shapes import Shape, true_capacity
from gpuyield.measure.simulator import RequestSet
from gpuyield.model.declaration import Declaration
from gpuyield.model.measure import Stop
from gpuyield.steps.measure import find
from gpuyield.steps.measure_asked import read_question
from gpuyield.steps.measure_question import Question
from measure.busy import measured_when_quiet
from measure.same_engine import simulated

_TOKENS = 10
_MAX_RPS = 320
_SEEDS = (1, 2) if os.environ.get("GPUYIELD_LAWS", "sample") == "full" else (1,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A double, and the objective that binds; `check` names what grades its answers."""

    served: EngineSettings
    objective: str
    check: str | None = None


_CASES = {
    "ttft": Case(served=EngineSettings(slots=8, step_s=0.005), objective="ttft p95 200ms"),
    "tpot": Case(served=EngineSettings(slots=64, step_s=0.004, sequence_s=0.0005), objective="tpot p95 12ms"),
    "quality": Case(
        served=EngineSettings(slots=8, step_s=0.005, good=0.97, good_rushed=0.6, rushed_s=0.1),
        objective="contains for 92%",
        check="contains",
    ),
}


@pytest.mark.live_measuring
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", _SEEDS)
@pytest.mark.parametrize("name", sorted(_CASES))
def test_what_is_certified_and_refuted_lies_around_the_truth(name: str, seed: int, tmp_path: Path) -> None:
    case = _CASES[name]
    path = tmp_path / "requests.jsonl"
    row = {"prompt": "[[answer:yes]]", "max_tokens": _TOKENS, "expected": "yes"}
    path.write_text("".join(json.dumps(row) + "\n" for _ in range(40)))
    one = np.ones(1, np.int64)
    shape = Shape(
        name=name,
        engine=simulated(case.served, check=case.check),
        requests=RequestSet(prompt_tokens=one, output_tokens=one * _TOKENS),
        objective=parse_objective(case.objective),
        guess_rps=_MAX_RPS,
    )
    truth = true_capacity(shape, seconds=400, seeds=(1, 2, 3))

    with running_double(engine=case.served) as server:
        asked = read_question(
            Question(
                url=server.url,
                model="double",
                objectives=(case.objective,),
                requests=path,
                max_rate=str(_MAX_RPS),
                seed=seed,
            ),
            Declaration(),
        )
        found = measured_when_quiet(
            lambda attempt: (
                find(
                    asked, folder=tmp_path / f"kept-{attempt}", say=lambda line: None, tell=lambda line: None
                ).measurement
            ),
            why_invalid=lambda found: found.probes[-1].reason if found.stop is Stop.INVALID else "",
        )

    assert found.certified_rps is None or found.certified_rps <= 1.05 * truth
    assert found.refuted_rps is None or found.refuted_rps >= 0.95 * truth
    assert (found.certified_rps, found.refuted_rps) != (None, None)
