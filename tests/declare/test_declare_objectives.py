"""Objectives on the command line."""

from __future__ import annotations

from decimal import Decimal

import pytest

from gpuyield.declare.objectives import parse_objective, parse_objectives
from gpuyield.errors import DeclarationError
from gpuyield.model.declaration import Metric, Objective


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("ttft p95 800ms", Objective(name="ttft", metric=Metric.TTFT, at_most_us=800_000, share=Decimal("0.95"))),
        ("ttft 800ms for 95%", Objective(name="ttft", metric=Metric.TTFT, at_most_us=800_000, share=Decimal("0.95"))),
        ("e2e P99.9 2s", Objective(name="e2e", metric=Metric.E2E, at_most_us=2_000_000, share=Decimal("0.999"))),
        ("tpot p50 12.5ms", Objective(name="tpot", metric=Metric.TPOT, at_most_us=12_500, share=Decimal("0.5"))),
        (
            "resolved 0.7 for 90%",
            Objective(name="resolved", check="resolved", score_at_least=Decimal("0.7"), share=Decimal("0.9")),
        ),
        ("exact for 95%", Objective(name="exact", check="exact", share=Decimal("0.95"))),
        ("error for 99.9%", Objective(name="error", metric=Metric.ERROR, share=Decimal("0.999"))),
    ],
)
def test_each_form_is_understood(text: str, meant: Objective) -> None:
    assert parse_objective(text) == meant


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ttft p95 800 msec", "'ttft p95 800 msec' is not an objective."),
        ("ttft p95 800msec", '"800msec" is not a duration. Write 800ms or 0.8s.'),
        ("ttft p95 800", 'limit "800" has no unit. Write 800ms or 800s.'),
        ("ttft 95 800ms", '"95" is not a percentile. Write p95.'),
        ("ttft p100 800ms", '"p100" is not a percentile. Write p95.'),
        ("ttft p0 800ms", '"p0" is not a percentile. Write p95.'),
        ("ttft for 95%", "ttft needs a limit. Write 'ttft p95 800ms'."),
        ("exact for 95", "share 95 has no %. Write 95%."),
        ("exact for 0.95", "share 0.95 has no %. Write 95%."),
        ("exact for 0%", "share 0% is not between 0% and 100%. Write 95%."),
        ("exact for 101%", "share 101% is not between 0% and 100%. Write 95%."),
        ("error 5 for 99%", "error takes no limit. Write 'error for 99.9%'."),
        ("resolved much for 90%", 'limit "much" is not a number. Write a plain number such as 8.'),
        ("", "'' is not an objective."),
    ],
)
def test_what_is_no_objective_is_said_with_the_right_spelling(text: str, message: str) -> None:
    with pytest.raises(DeclarationError) as caught:
        parse_objective(text)

    assert str(caught.value).startswith(f"--objective: {message}")


def test_repeated_objectives_get_names_that_differ() -> None:
    found = parse_objectives(["ttft p95 800ms", "ttft p99 2s", "exact for 95%"])

    assert [one.name for one in found] == ["ttft-1", "ttft-2", "exact"]


def test_all_wrong_objectives_are_said_at_once() -> None:
    with pytest.raises(DeclarationError) as caught:
        parse_objectives(["ttft p95 800", "exact for 95%", "x"])

    assert len(caught.value.mistakes) == 2
