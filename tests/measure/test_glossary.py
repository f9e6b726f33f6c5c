"""Each metric is defined once, in the docs, and named there as in the document, with its unit."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from gpuyield.measure.document import Subject, measure_document
from gpuyield.measure.search import Settings, search
from gpuyield.measure.shapes import shapes
from gpuyield.model.declaration import Metric
from gpuyield.model.measure import Level

_DOCS = Path(__file__).parents[2] / "docs" / "explanation" / "measuring.md"
_ENDINGS = {"s": "_s", "1/s": "_rps"}


@pytest.fixture(scope="module")
def probe() -> dict[str, Any]:
    """A steady probe of a document."""
    shape = shapes()[0]
    settings = Settings(objectives=(shape.objective,), level=Level.QUICK, seed=1, max_rps=float(shape.guess_rps))
    found = search(shape.bench(), shape.schedule().arrivals, settings)
    subject = Subject(service="s", arrival="poisson", started_at_ms=0, config={}, config_digest="sha256:0")
    probes: list[dict[str, Any]] = measure_document(subject, settings, found)["probes"]
    return next(one for one in probes if one["phase"] == "search")


def defined(heading: str) -> list[tuple[str, str]]:
    """The names of a table of the docs with their units."""
    text = _DOCS.read_text().partition(f"| {heading} | formula | unit |\n")[2].partition("\n\n")[0]
    rows = [[cell.strip() for cell in row.strip("|").split(" | ")] for row in text.splitlines()[1:]]
    return [(name, row[-1]) for row in rows for name in row[0].split(", ")]


def test_every_metric_is_defined_once_and_named_with_its_unit_in_the_document(probe: dict[str, Any]) -> None:
    found = defined("metric")

    names = [name for name, _ in found]
    assert sorted(names) == sorted({*map(str, set(Metric) - {Metric.QUEUE}), "check", "goodput"})
    for name, unit in found:
        if unit in _ENDINGS:
            assert f"{name}{_ENDINGS[unit]}" in probe, name


def test_the_other_numbers_are_named_as_in_the_document(probe: dict[str, Any]) -> None:
    (attainment,) = probe["attainment"].values()

    for name, unit in defined("number"):
        holder, _, key = name.rpartition(".")
        place = probe[holder] if holder else attainment if name in attainment else probe
        assert key in place, name
        if re.search(r"_(s|rps)$", key):
            assert key.endswith(_ENDINGS[unit]), name


def test_every_number_of_a_probe_with_a_unit_says_which(probe: dict[str, Any]) -> None:
    times = {"duration", "warmup", "measured", "drain", "ttft", "tpot", "itl", "e2e", "ttft_sent", "e2e_sent"}

    assert {key.removesuffix("_s") for key in probe if key.endswith("_s")} == times
    assert {key for key in probe if key.endswith("_rps")} == {"rate_rps", "achieved_rps", "goodput_rps"}
