"""A plan with objective cheapest: its money, what that is in, and the prices it rests on."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest

from gpuyield.model.document import canonical_bytes
from gpuyield.model.job import Capacity, PlanJob, PlanObjective, Problem, Shape
from gpuyield.plan import make_plan, plan_document, plan_inputs
from gpuyield.verify import check
from verify.problems import seal

HOUR_MS = 3_600_000
PRICES = {"gpu/h100": Decimal(4), "gpu/a100": Decimal("1.5")}
SHAPES = (
    Shape(flavor="h100", demand={"gpu/h100": 2}, duration_ms=HOUR_MS),
    Shape(flavor="a100", demand={"gpu/a100": 2}, duration_ms=2 * HOUR_MS),
)


def cheapest() -> tuple[dict[str, Any], dict[str, Any]]:
    """The planner's document for a job that is cheaper on the slower flavor, and its inputs, as read from files."""
    problem = Problem(
        origin_ms=0,
        jobs=(PlanJob(id="a", shapes=SHAPES, deadline_ms=3 * HOUR_MS),),
        capacity=Capacity(steps={"gpu/h100": ((0, 2),), "gpu/a100": ((0, 2),)}),
        objective=PlanObjective.CHEAPEST,
    )
    plan = make_plan(problem, prices=PRICES)
    document = plan_document(problem, plan, prices=PRICES, currency="EUR")
    inputs = canonical_bytes(plan_inputs(problem, prices=PRICES, currency="EUR"))
    return json.loads(json.dumps(document)), json.loads(inputs)


def test_the_money_of_a_plan_and_what_it_is_in_are_vouched_for() -> None:
    document, inputs = cheapest()

    report = check(*seal(document, inputs))

    assert document["objective"] == {"name": "cheapest", "value": "6", "bound": "6", "gap": 0.0, "currency": "EUR"}
    assert report.accepted
    assert {"objective.value", "objective.bound", "objective.currency"} <= set(report.vouched)


@pytest.mark.parametrize("stated", ["USD", "eur", None, 1, ["EUR"]])
def test_another_currency_than_that_of_the_prices_is_refused(stated: object) -> None:
    document, inputs = cheapest()
    document["objective"]["currency"] = stated

    report = check(*seal(document, inputs))

    assert [str(one) for one in report.refused] == [
        "objective.currency: objective.currency is not EUR, as in the inputs."
    ]


def test_a_document_that_names_no_currency_is_refused_where_the_inputs_do() -> None:
    document, inputs = cheapest()
    del document["objective"]["currency"]

    report = check(*seal(document, inputs))

    assert [one.claim for one in report.refused] == ["objective.currency"]


def test_a_plan_without_prices_has_no_currency() -> None:
    document, inputs = cheapest()
    document["objective"] = {"name": "on-time", "value": 1.0, "bound": 1.0, "gap": 0.0, "currency": "EUR"}
    inputs["objective"] = "on-time"
    del inputs["prices"], inputs["currency"]

    report = check(*seal(document, inputs))

    assert [one.claim for one in report.refused] == ["objective.currency"]


@pytest.mark.parametrize(
    ("price", "reason"), [("-1", "is negative"), (4, "not a decimal string"), (None, "not a decimal string")]
)
def test_a_price_that_can_be_none_is_refused(price: object, reason: str) -> None:
    document, inputs = cheapest()
    inputs["prices"]["gpu/h100"] = price

    report = check(*seal(document, inputs))

    assert [one.claim for one in report.refused] == ["the document and its inputs"]
    assert reason in report.refused[0].reason


def test_a_currency_that_is_no_code_is_refused() -> None:
    document, inputs = cheapest()
    inputs["currency"] = "euros"

    report = check(*seal(document, inputs))

    assert "inputs.currency is no ISO 4217 code." in str(report.refused[0])
