"""Two measurements side by side: what is proven of them, what is not, and why some cannot be compared at all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from doubles.command import Command
from gpuyield.measure.compare import ratio_at, reach_of
from gpuyield.measure.document import Subject, measure_document, measure_inputs
from gpuyield.measure.search import Settings, search
from gpuyield.measure.shapes import Shape, shapes
from gpuyield.model.document import canonical_bytes, inputs_digest
from gpuyield.model.measure import Level

_LOAD = {"requests": "8 of r.jsonl", "requests_sha256": "sha256:1", "protocol": "chat", "streams": True}


def probe(phase: str, rate: str, misses: int, *, valid: bool = True) -> dict[str, Any]:
    """A probe of 20 batches of 400 requests; in each so many miss, give or take one."""
    counts = {
        "attempts": [400] * 20,
        "misses": [max(0, misses + (at % 3 - 1)) for at in range(20)],
        "pending": [0] * 20,
    }
    return {
        "phase": phase,
        "rate_rps": rate,
        "valid": valid,
        "attainment": {"ttft": counts},
        "in_flight": [8, 9] * 10 + [8],
        "late_arrivals": 4000,
        "late_completions": 4000,
    }


def inputs(holds: str, breaks: str, *, service: str = "chat", **changed: Any) -> dict[str, Any]:
    """Canonical inputs of a search that confirmed one rate and refuted another one."""
    return {
        "schema": "gpuyield/measure-inputs/v1alpha1",
        "service": service,
        "tries": ["0.5", "0.25", "0.25"],
        "refutes": 3,
        "objectives": [{"name": "ttft", "metric": "ttft", "at_most_us": 800_000, "share": "0.95"}],
        "probes": [probe("confirm", holds, 8), probe("refute", breaks, 60)],
    } | changed


def kept(folder: Path, name: str, given: dict[str, Any], **changed: Any) -> str:
    """A measurement with its inputs, as --out keeps it."""
    shape, settings = _slots(), _settings(_slots())
    found = measure_document(
        Subject(service=given["service"], arrival="poisson", started_at_ms=1_700_000_000_000),
        settings,
        search(shape.bench(), shape.schedule().arrivals, settings),
    )
    data = canonical_bytes(given)
    digest = inputs_digest(data)
    document = found | {"inputs_digest": digest, "load": dict(_LOAD)} | changed
    (folder / f"{name}.json").write_text(json.dumps(document))
    (folder / f"{name}.inputs.json").write_bytes(data)
    return str(folder / f"{name}.json")


def _slots() -> Shape:
    return next(one for one in shapes() if one.name == "slots")


def _settings(shape: Shape, seed: int = 0, level: Level = Level.QUICK) -> Settings:
    return Settings(objectives=(shape.objective,), level=level, seed=seed, max_rps=shape.guess_rps)


def test_what_one_sustains_more_is_the_ratio_of_what_holds_to_what_breaks() -> None:
    found = ratio_at(inputs("10", "12"), inputs("18", "24"), confidence=0.95)

    assert found.lo == pytest.approx(18 / 12)
    assert found.hi == pytest.approx(24 / 10)


def test_a_rate_that_was_barely_certified_does_not_hold_at_a_quarter_of_its_alpha() -> None:
    counts = inputs("10", "12")
    counts["probes"][0] = probe("confirm", "10", 18)
    for at in range(20):
        counts["probes"][0]["attainment"]["ttft"]["misses"][at] = 18 + (5 if at % 4 == 0 else -2)

    stated, quarter = reach_of(counts, alpha=0.05), reach_of(counts, alpha=0.00005)

    assert stated.holds_rps == 10
    assert quarter.holds_rps is None


def test_a_rate_whose_probe_was_invalid_or_whose_backlog_grows_bounds_nothing() -> None:
    growing = probe("confirm", "10", 0) | {"in_flight": [10 * at for at in range(21)], "late_completions": 3000}
    starved = inputs("10", "12", probes=[probe("confirm", "10", 0, valid=False), probe("refute", "12", 60)])

    assert reach_of(inputs("10", "12", probes=[growing]), alpha=0.05).holds_rps is None
    assert reach_of(starved, alpha=0.05).holds_rps is None
    assert reach_of(starved, alpha=0.05).breaks_rps == 12


def test_the_command_says_how_much_more_is_proven_and_no_more(command: Command, tmp_path: Path) -> None:
    slow = kept(tmp_path, "a", inputs("10", "12"))
    fast = kept(tmp_path, "b", inputs("18.7", "24"))

    done = command("measure", "--compare", slow, fast)
    as_json = command("measure", "--compare", fast, slow, "--out", str(tmp_path / "c.json"), "-o", "json")

    said = " ".join(done.out.split())
    assert done.code == 0, done.err
    assert f"{fast} sustains at least 55.8 % more than {slow}, at 95 %." in said
    assert as_json.code == 0
    assert as_json.document["schema"] == "gpuyield/measure-comparison/v1alpha1"
    assert as_json.document["proven"]["more"] == "first"
    assert as_json.document["proven"]["at_least"] == pytest.approx(18.7 / 12 - 1)
    assert json.loads((tmp_path / "c.json").read_text()) == as_json.document


def test_intervals_that_overlap_prove_nothing(command: Command, tmp_path: Path) -> None:
    done = command(
        *("measure", "--compare", kept(tmp_path, "a", inputs("10", "12")), kept(tmp_path, "b", inputs("11", "14")))
    )

    assert done.code == 4
    assert "Neither is shown to sustain more than the other, at 95 %." in done.out


@pytest.mark.parametrize(
    ("given", "document", "what"),
    [
        (
            {"objectives": [{"name": "ttft", "metric": "ttft", "at_most_us": 1, "share": "0.95"}]},
            {},
            "other objectives",
        ),
        ({}, {"arrival": "gamma:2"}, "arrived as poisson in the first and as gamma:2"),
        ({}, {"load": _LOAD | {"requests_sha256": "sha256:2"}}, "other requests were sent"),
        ({}, {"load": _LOAD | {"streams": False}}, "another protocol"),
        ({}, {"judge": {"model": "m"}}, "another model judged"),
        ({}, {"schema": "gpuyield/plan/v1alpha1"}, "no measurement"),
        ({}, {"inputs_digest": "sha256:0"}, "inputs are missing"),
    ],
)
def test_other_loads_and_objectives_are_not_compared_and_the_reason_is_said(
    command: Command, tmp_path: Path, given: dict[str, Any], document: dict[str, Any], what: str
) -> None:
    first = kept(tmp_path, "a", inputs("10", "12"))
    second = kept(tmp_path, "b", inputs("18", "24", **given), **document)

    done = command("measure", "--compare", first, second)

    assert done.code == 2
    assert what in " ".join(done.err.split())


def test_answers_that_a_judge_was_asked_about_in_other_words_are_not_compared(command: Command, tmp_path: Path) -> None:
    first, second, same = (
        kept(tmp_path, name, inputs("10", "12"), judge={"model": "m", "prompt_sha256": prompt})
        for name, prompt in (("a", "1"), ("b", "2"), ("c", "1"))
    )

    refused, compared = command("measure", "--compare", first, second), command("measure", "--compare", first, same)

    assert refused.code == 2
    assert "judged their answers was asked something else" in " ".join(refused.err.split())
    assert compared.code == 4


def test_real_searches_of_one_server_never_prove_a_difference_and_cover_the_ratio() -> None:
    shape = _slots()
    found = []
    for seed in range(8):
        settings = _settings(shape, seed, Level.STANDARD)
        measured = search(shape.bench(), shape.schedule().arrivals, settings)
        found.append(measure_inputs(Subject(service="a", arrival="poisson", started_at_ms=0), settings, measured))

    ratios = [ratio_at(one, other, confidence=0.95) for one, other in zip(found[::2], found[1::2], strict=True)]

    assert all(one.lo is None or one.lo <= 1 for one in ratios)
    assert all(one.hi is None or one.hi >= 1 for one in ratios)
    assert any(one.lo is not None and one.hi is not None for one in ratios)
