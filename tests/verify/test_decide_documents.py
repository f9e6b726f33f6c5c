"""Decisions are re-checked: the plan they rest on, status rules, sums and money."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from gpuyield.decide.decide import decide
from gpuyield.decide.document import decision_document, decision_inputs
from gpuyield.model.decision import Coverage, DecideInputs, GpuRate, Offer, ServiceHolding
from gpuyield.model.document import canonical_bytes
from gpuyield.model.job import Capacity, PlanJob, Problem, Shape
from gpuyield.model.waterfall import Holder
from gpuyield.units import DAY_MS, HOUR_MS, Money, Window
from gpuyield.verify import check
from verify.problems import ORIGIN_MS, seal

Made = tuple[dict[str, Any], dict[str, Any]]
EUR = GpuRate(gpu_hour=Money(Decimal("2.49"), "EUR"), source="declared")


def decided(deadline_h: int, *, width: int = 2, **more: Any) -> Made:
    """The decision on four jobs of so many GPUs x 2 h on 4 GPUs."""
    shape = Shape(demand={"gpu": width}, duration_ms=2 * HOUR_MS)
    jobs = tuple(PlanJob(id=name, shapes=(shape,), deadline_ms=deadline_h * HOUR_MS) for name in "abcd")
    problem = Problem(origin_ms=ORIGIN_MS, jobs=jobs, capacity=Capacity(steps={"gpu": ((0, 4),)}))
    decision = decide(DecideInputs(now_ms=ORIGIN_MS, problem=problem, **more))
    inputs = json.loads(canonical_bytes(decision_inputs(decision)))
    return json.loads(json.dumps(decision_document(decision))), inputs


def needed(deadline_h: int = 3, width: int = 2) -> Made:
    offer = Offer(kind="reserved_1y", gpu_hour=Money(Decimal("1.60"), "EUR"), min_gpus=8, lead_time_ms=DAY_MS)
    return decided(
        deadline_h,
        width=width,
        prices={"gpu": EUR},
        offers={"gpu": (offer,)},
        coverage=Coverage(declared_gpu_ms=1, total_gpu_ms=4),
    )


def not_needed() -> Made:
    holder = Holder(
        namespace="research",
        workload="notebook",
        team="research",
        flavor="h100",
        gpus=4,
        idle_gpu_ms=48 * HOUR_MS,
        since_ms=ORIGIN_MS - DAY_MS,
        gpus_now=2,
        open_start=False,
        longest=Window(ORIGIN_MS - DAY_MS, ORIGIN_MS),
    )
    window = Window(ORIGIN_MS - 14 * DAY_MS, ORIGIN_MS)
    return decided(4, prices={"gpu/h100": EUR}, holders=(holder,), window=window)


def unpriced() -> Made:
    return decided(3)


@pytest.mark.parametrize("make", [needed, not_needed, unpriced])
def test_a_decision_is_accepted_with_the_plan_it_rests_on(make: Callable[[], Made]) -> None:
    report = check(*seal(*make()))

    assert report.refused == ()
    assert {"status", "scope", "levers: cumulative", "certificate.plan.status"} <= set(report.vouched)


def _status(document: dict[str, Any], inputs: dict[str, Any]) -> None:
    document["status"] = "not_needed"


def _claim(document: dict[str, Any], inputs: dict[str, Any]) -> None:
    document["certificate"]["claim"] = "met"


def _no_proof(document: dict[str, Any], inputs: dict[str, Any]) -> None:
    document["certificate"] = None


def _false_plan(document: dict[str, Any], inputs: dict[str, Any]) -> None:
    document["certificate"]["plan"]["certificate"]["extra_gpus"] = 5


def _other_plan_inputs(document: dict[str, Any], inputs: dict[str, Any]) -> None:
    inputs["plan"]["capacity"]["gpu"][0][1] = 8


def _no_price(document: dict[str, Any], inputs: dict[str, Any]) -> None:
    inputs.update(prices={}, offers={})


def _a_service_on_the_same_gpus(document: dict[str, Any], inputs: dict[str, Any]) -> None:
    chat = ServiceHolding(name="chat", gpus={"gpu": 2})
    inputs["services"] = [{"name": chat.name, "gpus": {"gpu": 2}, "measured": False, "has_objective": True}]
    document["scope"]["services"] = "held_at_observed"


def _more_missing(document: dict[str, Any], inputs: dict[str, Any]) -> None:
    document["shortage"].update(at_least=5, sufficient=None)


def _fewer_suffice(document: dict[str, Any], inputs: dict[str, Any]) -> None:
    document["shortage"].update(at_least=1, sufficient=3)


def _coverage(document: dict[str, Any], inputs: dict[str, Any]) -> None:
    document["coverage"] = 0.3


def _cheaper(document: dict[str, Any], inputs: dict[str, Any]) -> None:
    document["levers"][-1]["money_per_month"]["amount"] = "-9000.00"


def _sums(document: dict[str, Any], inputs: dict[str, Any]) -> None:
    document["levers"][-1]["cumulative"]["money_per_month"] = {"amount": "0.00", "currency": "EUR"}


def _other_currency(document: dict[str, Any], inputs: dict[str, Any]) -> None:
    document["levers"][-1]["money_per_month"]["currency"] = "USD"


def _ordered_later(document: dict[str, Any], inputs: dict[str, Any]) -> None:
    document["order_by"] = document["shortage"]["from"]


def _scope(document: dict[str, Any], inputs: dict[str, Any]) -> None:
    document["scope"]["batch"] = "observed"


def _buys_nothing(document: dict[str, Any], inputs: dict[str, Any]) -> None:
    document["levers"] = [one for one in document["levers"] if one["lever"] != "buy"]


@pytest.mark.parametrize(
    ("change", "claim"),
    [
        (_status, "status"),
        (_claim, "status"),
        (_no_proof, "status"),
        (_false_plan, "certificate.plan.status"),
        (_other_plan_inputs, "certificate"),
        (_no_price, "status"),
        (_a_service_on_the_same_gpus, "status"),
        (_more_missing, "shortage"),
        (_fewer_suffice, "shortage"),
        (_coverage, "coverage"),
        (_cheaper, "levers.buy"),
        (_sums, "levers: cumulative"),
        (_other_currency, "levers.buy"),
        (_ordered_later, "order_by"),
        (_scope, "scope"),
        (_buys_nothing, "levers"),
    ],
)
def test_a_false_change_of_a_needed_purchase_is_refused(
    change: Callable[[dict[str, Any], dict[str, Any]], None], claim: str
) -> None:
    document, inputs = copy.deepcopy(needed())
    change(document, inputs)

    report = check(*seal(document, inputs))

    assert claim in [one.claim for one in report.refused]


def test_figures_that_a_certificate_of_its_kind_does_not_have_prove_no_shortage() -> None:
    document, inputs = needed(7, width=3)  # No span is overloaded; no two of the jobs fit side by side.
    certificate = document["certificate"]["plan"]["certificate"]
    assert certificate["kind"] == "wide-gangs"
    certificate["extra_gpus"] = 5
    document["shortage"].update(at_least=5, sufficient=None)

    report = check(*seal(document, inputs))

    assert "shortage" in [one.claim for one in report.refused]


def test_what_is_freed_and_its_money_come_from_holders_and_prices() -> None:
    document, inputs = not_needed()
    reclaim = next(one for one in document["levers"] if one["lever"] == "reclaim")
    reclaim["gpus_freed"] = {"h100": 3}

    freed = check(*seal(document, inputs))
    document, inputs = not_needed()
    inputs["holders"][0]["idle_gpu_ms"] *= 2
    money = check(*seal(document, inputs))

    assert "levers.reclaim" in [one.claim for one in freed.refused]
    assert [one.claim for one in money.refused] == ["levers.reclaim"]
