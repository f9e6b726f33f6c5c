from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest

from doubles.cells import Cell, cells_of
from gpuyield.cost.compute import compute_cost
from gpuyield.cost.document import cost_document
from gpuyield.cost.prices import price_book
from gpuyield.errors import DeclarationError
from gpuyield.model.cost import Cost, CostForm, NodeCost
from gpuyield.model.declaration import (
    Declaration,
    ExchangeRate,
    Price,
    PriceBasis,
    RateRule,
    Sharing,
    SharingRule,
)
from gpuyield.model.outcome import OutcomeResult, OutcomeStatus
from gpuyield.model.waterfall import GpuClass
from gpuyield.units import DAY_MS, HOUR_MS, Money, Window

DAY = Window(0, DAY_MS)
BY_NODE = Sharing()
EVALS = "evals/evals/nightly"
CHAT = "support/support/chat"


def euro(amount: str) -> Money:
    return Money(Decimal(amount), "EUR")


def price(flavor: str, amount: str, from_ms: int | None = None, to_ms: int | None = None) -> Price:
    return Price(flavor=flavor, gpu_hour=euro(amount), basis=PriceBasis.CONTRACTED, from_ms=from_ms, to_ms=to_ms)


H100 = price("h100", "2.49")


def result(status: OutcomeStatus, units: int = 1, ended_ms: int = HOUR_MS) -> OutcomeResult:
    return OutcomeResult(
        source="s",
        outcome_id=f"{status}-{units}-{ended_ms}",
        status=status,
        service="",
        namespace="evals",
        workload="nightly",
        ended_ms=ended_ms,
        units=units,
        attempts=1,
    )


def cost_of(
    *cells: Cell,
    prices: tuple[Price, ...] = (H100,),
    by: tuple[str, ...] = ("team",),
    results: list[OutcomeResult] | None = None,
    nodes: tuple[NodeCost, ...] = (),
    sharing: Sharing = BY_NODE,
    quotas: dict[str, int] | None = None,
    basis: PriceBasis | None = None,
    rates: tuple[ExchangeRate, ...] = (),
) -> Cost:
    book = price_book(prices, nodes, currency="EUR", rate=sharing.rate, window=DAY, basis=basis, rates=rates)
    declaration = Declaration(currency="EUR", sharing=sharing)
    return compute_cost(
        cells_of(cells), window=DAY, by=by, book=book, declaration=declaration, results=results, quotas=quotas
    )


# One day of two H100 at 2.49, worked by hand:
#   evals:   10 GPU-h productive 24.90, 3 h failed 7.47, 2 h 20 min underused 5.81       -> 38.18
#   support:  1 h starting 2.49, 40 min idle_held 1.66                                  -> 4.15
#   nobody:  30 h free 74.70, 1 h unavailable 2.49                                      -> 77.19
#   all 48 GPU-h x 2.49 = 119.52
BY_HAND = (
    Cell(owner=EVALS, flavor="h100", gpu_class=GpuClass.PRODUCTIVE, gpu_ms=10 * HOUR_MS),
    Cell(owner=EVALS, flavor="h100", gpu_class=GpuClass.FAILED, gpu_ms=3 * HOUR_MS),
    Cell(owner=EVALS, flavor="h100", gpu_class=GpuClass.UNDERUSED, gpu_ms=140 * 60_000),
    Cell(owner=CHAT, flavor="h100", gpu_class=GpuClass.STARTING, gpu_ms=HOUR_MS),
    Cell(owner=CHAT, flavor="h100", gpu_class=GpuClass.IDLE_HELD, gpu_ms=40 * 60_000),
    Cell(owner=None, flavor="h100", gpu_class=GpuClass.NO_DEMAND, gpu_ms=30 * HOUR_MS),
    Cell(owner=None, flavor="h100", gpu_class=GpuClass.UNAVAILABLE, gpu_ms=HOUR_MS),
)


def test_a_day_comes_out_at_the_cents_worked_by_hand() -> None:
    results = [result(OutcomeStatus.VERIFIED, 800), result(OutcomeStatus.UNVERIFIED, 200)]

    document = cost_document(cost_of(*BY_HAND, results=results))

    rows = {row["key"]["team"]: row for row in document["rows"]}
    assert {team: row["total"] for team, row in rows.items()} == {"evals": "38.18", "support": "4.15", None: "77.19"}
    assert rows["evals"]["cost"] == {"underused": "5.81", "productive": "24.90", "lost.failed": "7.47"}
    assert document["bill"]["attributed"] == "119.52"
    assert (rows["evals"]["verified"], rows["evals"]["verified_bounds"]) == (800, {"lo": 800, "hi": 1000})
    # busy 32.37, allocated 38.18, divided by 800; by 1,000 if all the rest is verified too
    forms = rows["evals"]["cost_per_verified_outcome"]
    assert (forms["busy"]["value"], forms["busy"]["lo"], forms["busy"]["hi"]) == ("0.040462", "0.032370", "0.040462")
    assert (forms["allocated"]["value"], forms["allocated"]["lo"]) == ("0.047725", "0.038180")
    # the cluster's outcomes bear everything: 119.52 / 800
    assert document["cost_per_verified_outcome"]["fully_loaded"]["value"] == "0.149400"


def test_a_flavor_without_a_price_is_not_known_and_named_never_zero() -> None:
    cells = (*BY_HAND, Cell(owner=CHAT, flavor="h200", gpu_class=GpuClass.UNVERIFIED, gpu_ms=HOUR_MS))

    document = cost_document(cost_of(*cells))

    rows = {row["key"]["team"]: row for row in document["rows"]}
    assert (rows["support"]["total"], rows["support"]["cost"]["unjudged.unverified"]) == (None, None)
    assert (rows["support"]["cost"]["starting"], rows["evals"]["total"]) == ("2.49", "38.18")
    assert document["bill"]["attributed"] is None
    assert document["gaps"][0]["reason"] == (
        "No price for flavor h200: its cost is shown as not known, not as 0. Add it under prices."
    )
    assert document["gaps"][0]["gpu_ms"] == HOUR_MS


def test_no_verified_outcome_says_what_was_spent() -> None:
    rejected = cost_of(*BY_HAND, results=[result(OutcomeStatus.REJECTED), result(OutcomeStatus.UNVERIFIED, 7)])
    unknown = cost_of(*BY_HAND, results=None)

    forms = cost_document(rejected)["rows"][0]["cost_per_verified_outcome"]
    assert (forms["allocated"]["value"], forms["allocated"]["reason"]) == (
        None,
        "no verified outcome, 38.18 EUR spent, 7 not judged yet",
    )
    assert cost_document(unknown)["cost_per_verified_outcome"]["busy"]["reason"] == "no outcome source"


def test_a_price_change_within_an_hour_is_priced_to_the_millisecond() -> None:
    half = HOUR_MS // 2
    prices = (price("h100", "2.00", None, half), price("h100", "3.00", half, None))
    cells = (
        Cell(owner=EVALS, flavor="h100", gpu_class=GpuClass.PRODUCTIVE, gpu_ms=half, from_ms=0),
        Cell(owner=EVALS, flavor="h100", gpu_class=GpuClass.PRODUCTIVE, gpu_ms=half, from_ms=half),
    )

    cost = cost_of(*cells, prices=prices)

    assert cost.total.total == Fraction(5, 2)


def node(
    total: str, gpu: str, gpu_hours: int = 24, name: str = "n1", flavor: str = "h100", currency: str = "EUR"
) -> NodeCost:
    return NodeCost(
        source="opencost",
        node=name,
        flavor=flavor,
        window=DAY,
        gpu_hours=Fraction(gpu_hours),
        gpu_cost=Fraction(Decimal(gpu)),
        total_cost=Fraction(Decimal(total)),
        currency=currency,
        basis=PriceBasis.LIST,
    )


WHOLE_DAY = (
    Cell(owner=EVALS, flavor="h100", gpu_class=GpuClass.UNVERIFIED, gpu_ms=18 * HOUR_MS, node="n1"),
    Cell(owner=None, flavor="h100", gpu_class=GpuClass.NO_DEMAND, gpu_ms=6 * HOUR_MS, node="n1"),
)


def test_by_node_the_whole_node_is_in_the_price_and_the_bill_closes() -> None:
    document = cost_document(cost_of(*WHOLE_DAY, prices=(), nodes=(node("72.00", "60.00"),)))

    assert [row["total"] for row in document["rows"]] == ["54.00", "18.00"]
    assert document["bill"] == {
        "source": "opencost",
        "source_total": "72.00",
        "attributed": "72.00",
        "residual": "0.00",
        "tolerance": "0.01",
        "reconciled": True,
    }


def test_by_gpu_the_rest_of_the_node_is_a_row_of_its_own() -> None:
    sharing = Sharing(rate=RateRule.GPU)

    document = cost_document(cost_of(*WHOLE_DAY, prices=(), nodes=(node("72.00", "60.00"),), sharing=sharing))

    assert [row["total"] for row in document["rows"]] == ["45.00", "15.00", "12.00"]
    assert document["rows"][-1]["part"] == "rest_of_gpu_nodes"
    assert (document["bill"]["attributed"], document["bill"]["residual"]) == ("72.00", "0.00")


def test_a_residual_beyond_the_tolerance_is_not_reconciled() -> None:
    # OpenCost counts 25 hours where we count 24: 3 of 75 are missing, 4 %.
    document = cost_document(cost_of(*WHOLE_DAY, prices=(), nodes=(node("75.00", "62.50", gpu_hours=25),)))

    assert (document["bill"]["residual"], document["bill"]["reconciled"]) == ("3.00", False)


def test_bases_never_mix() -> None:
    cost = cost_of(*WHOLE_DAY, nodes=(node("72.00", "60.00"),), basis=PriceBasis.LIST)
    contracted = cost_of(*WHOLE_DAY, nodes=(node("72.00", "60.00"),))

    assert (cost.basis, cost.total.total) == (PriceBasis.LIST, Fraction(72))
    assert (contracted.basis, contracted.bill.source_total) == (PriceBasis.CONTRACTED, None)
    assert contracted.total.total == Fraction("59.76")


def test_unallocated_cost_is_shared_by_what_each_held() -> None:
    sharing = Sharing(unallocated=SharingRule.BY_ALLOCATED)

    rows = {row.key["team"]: row for row in cost_of(*BY_HAND, sharing=sharing).rows}

    # 74.70 over 15 h 20 min and 1 h 40 min of 17 h
    assert (rows["evals"].shared, rows["support"].shared) == (
        Fraction("74.70") * Fraction(46, 51),
        Fraction("74.70") * Fraction(5, 51),
    )
    assert rows[None].shared == 0


def test_by_quota_needs_a_quota() -> None:
    sharing = Sharing(unallocated=SharingRule.BY_QUOTA)

    with_quota = cost_of(*BY_HAND, sharing=sharing, quotas={"evals": 1, "support": 3})
    without = cost_of(*BY_HAND, sharing=sharing, results=[result(OutcomeStatus.VERIFIED)])

    assert [row.shared for row in with_quota.rows] == [Fraction("74.70") / 4, Fraction("74.70") * 3 / 4, 0]
    assert [row.shared for row in without.rows] == [None, None, None]
    assert without.rows[0].per_outcome[CostForm.FULLY_LOADED].value is None


def test_a_price_in_another_currency_needs_a_dated_rate() -> None:
    dollars = Price(flavor="h100", gpu_hour=Money(Decimal("2"), "USD"), basis=PriceBasis.CONTRACTED)

    with pytest.raises(DeclarationError) as caught:
        cost_of(*WHOLE_DAY, prices=(dollars,))

    assert str(caught.value) == (
        "rates: The price of h100 is in USD, the ledger is in EUR, and rates has no USD/EUR for 1970-01. "
        "Add {pair: USD/EUR, rate: ..., at: 1970-01-01, source: ...}."
    )


def test_a_rate_holds_from_its_date_until_the_next() -> None:
    dollars = Price(flavor="h100", gpu_hour=Money(Decimal("2"), "USD"), basis=PriceBasis.CONTRACTED)
    rates = tuple(
        ExchangeRate(base="USD", quote="EUR", rate=Decimal(rate), at_ms=at_ms)
        for rate, at_ms in (("0.90", 0), ("0.80", 12 * HOUR_MS))
    )
    cells = (
        Cell(owner=EVALS, flavor="h100", gpu_class=GpuClass.UNVERIFIED, gpu_ms=HOUR_MS, from_ms=0),
        Cell(owner=EVALS, flavor="h100", gpu_class=GpuClass.UNVERIFIED, gpu_ms=HOUR_MS, from_ms=13 * HOUR_MS),
    )

    cost = cost_of(*cells, prices=(dollars,), rates=rates)

    assert cost.total.total == Fraction("1.80") + Fraction("1.60")


def test_another_dimension_is_refused() -> None:
    with pytest.raises(DeclarationError, match='"colour" is nothing to split cost by'):
        cost_of(*BY_HAND, by=("colour",))


def test_outcomes_have_no_flavor_so_a_row_by_flavor_has_no_cost_per_outcome() -> None:
    cost = cost_of(*BY_HAND, by=("team", "flavor"), results=[result(OutcomeStatus.VERIFIED)])

    assert {row.verified for row in cost.rows} == {None}
    assert cost_document(cost)["rows"][0]["cost_per_verified_outcome"]["busy"]["reason"] == (
        "outcomes are not known by this key"
    )


# 1/3 cent and 2/3 cent do not round alike alone and together.
THIRDS = (
    Cell(owner=EVALS, flavor="h100", gpu_class=GpuClass.PRODUCTIVE, gpu_ms=HOUR_MS),
    Cell(owner=CHAT, flavor="h100", gpu_class=GpuClass.STARTING, gpu_ms=HOUR_MS),
    Cell(owner=CHAT, flavor="h100", gpu_class=GpuClass.IDLE_HELD, gpu_ms=HOUR_MS),
    Cell(owner=None, flavor="h100", gpu_class=GpuClass.NO_DEMAND, gpu_ms=HOUR_MS),
    Cell(owner=None, flavor="h100", gpu_class=GpuClass.UNAVAILABLE, gpu_ms=HOUR_MS),
)


@pytest.mark.parametrize("amount", ["0.00333", "0.00334", "0.00666", "0.00667", "0.005", "0.0149"])
def test_tables_of_other_grain_print_the_same_total_of_what_was_held_and_what_nobody_held(amount: str) -> None:
    documents = [
        cost_document(cost_of(*THIRDS, prices=(price("h100", amount),), by=by))
        for by in ((), ("team",), ("team", "namespace"), ("workload",))
    ]

    held, nobodys = set(), set()
    for document in documents:
        classes = {name: Decimal(money) for name, money in document["total"]["cost"].items()}
        assert sum(classes.values()) == Decimal(document["total"]["total"])
        nobodys.add(sum(classes[name] for name in ("unavailable", "unallocated.no_demand")))
        held.add(sum(classes[name] for name in ("starting", "idle_held", "productive")))
        for row in document["rows"] if document["by"] else []:
            assert sum(Decimal(money) for money in row["cost"].values()) == Decimal(row["total"])
        if document["by"]:
            by_key = {next(iter(row["key"].values())): Decimal(row["total"]) for row in document["rows"]}
            nobodys.add(by_key.pop(None))
            held.add(sum(by_key.values()))
    assert (len(held), len(nobodys)) == (1, 1)
