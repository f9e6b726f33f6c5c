"""Searches over real sockets against a double whose capacity a long simulation knows, one for each kind of limit.

A machine that is too busy cannot measure: the sender says so, and the test is skipped with its reason.
"""

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
from gpuyield.measure.simulator import Engine, EngineKind, RequestSet
from gpuyield.model.declaration import Declaration
from gpuyield.model.measure import Stop
from gpuyield.steps.measure import find
from gpuyield.steps.measure_asked import Question, read_question

_MS = 1_000_000
_TOKENS = 10
_SEEDS = (1, 2) if os.environ.get("GPUYIELD_LAWS", "sample") == "full" else (1,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A double, the same engine in virtual time, and the objective that binds."""

    served: EngineSettings
    simulated: Engine
    objective: str
    max_rps: int


_SLOTS = EngineSettings(slots=8, step_s=0.005)
_CASES = {
    "ttft": Case(
        served=_SLOTS,
        simulated=Engine(kind=EngineKind.SLOTS, slots=8, step_ns=5 * _MS),
        objective="ttft p95 200ms",
        max_rps=320,
    ),
    "tpot": Case(
        served=EngineSettings(slots=64, step_s=0.004, sequence_s=0.0005),
        simulated=Engine(kind=EngineKind.BATCHING, slots=64, step_ns=4 * _MS, per_sequence_ns=_MS // 2),
        objective="tpot p95 12ms",
        max_rps=320,
    ),
    "quality": Case(
        served=EngineSettings(slots=8, step_s=0.005, good=0.97, good_rushed=0.6, rushed_s=0.1),
        simulated=Engine(
            kind=EngineKind.SLOTS, slots=8, step_ns=5 * _MS, checks={"contains": (0.97, 0.6)}, rushed_ns=100 * _MS
        ),
        objective="contains for 92%",
        max_rps=320,
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
        engine=case.simulated,
        requests=RequestSet(prompt_tokens=one, output_tokens=one * _TOKENS),
        objective=parse_objective(case.objective),
        guess_rps=case.max_rps,
    )
    truth = true_capacity(shape, seconds=400, seeds=(1, 2, 3))

    with running_double(engine=case.served) as server:
        asked = read_question(
            Question(
                url=server.url,
                model="double",
                objectives=(case.objective,),
                requests=path,
                max_rate=str(case.max_rps),
                seed=seed,
            ),
            Declaration(),
        )
        found = find(asked, folder=tmp_path / "kept", say=lambda line: None, tell=lambda line: None).measurement
    if found.stop is Stop.INVALID:
        pytest.skip(f"this machine is too busy to measure on: {found.probes[-1].reason}")

    assert found.certified_rps is None or found.certified_rps <= 1.05 * truth
    assert found.refuted_rps is None or found.refuted_rps >= 0.95 * truth
    assert (found.certified_rps, found.refuted_rps) != (None, None)
