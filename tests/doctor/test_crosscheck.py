"""Differences between OpenCost and us that the recordings do not show, one by one."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuyield.account.lives import Ending
from gpuyield.account.nodes import Nodes, NodeState
from gpuyield.account.pods import Holding
from gpuyield.collect.opencost import AllocationRow, NodeAsset
from gpuyield.cost.prices import price_book
from gpuyield.model.cells import Owner
from gpuyield.model.declaration import Price
from gpuyield.steps.crosscheck import Cause, Crosscheck, crosscheck, seen_on_grid
from gpuyield.steps.crosscheck_prices import node_prices
from gpuyield.units import DAY_MS, HOUR_MS, MINUTE_MS, Money, Window, day_window

DAY = day_window("2026-11-20")
STEP_MS = 5 * MINUTE_MS
NODES = Nodes(states={"n": (NodeState(from_ms=DAY.from_ms, to_ms=DAY.to_ms, cards=4, flavor="h100"),)}, present=(DAY,))


def holding(from_h: float, to_h: float, *, runs_from_h: float | None = None, uid: str = "u", gpus: int = 1) -> Holding:
    """A hold of hours of the day; it runs from the beginning unless told (negative: never)."""
    begin = DAY.from_ms + round(from_h * HOUR_MS)
    runs = from_h if runs_from_h is None else runs_from_h
    return Holding(
        pod_key=uid,
        namespace="team",
        pod="p",
        uid=uid,
        node="n",
        owner=Owner("team", "p", "team"),
        job=None,
        resource="nvidia_com_gpu",
        devices=gpus,
        may_hold=0,
        from_ms=begin,
        to_ms=DAY.from_ms + round(to_h * HOUR_MS),
        running_ms=None if runs < 0 else DAY.from_ms + round(runs * HOUR_MS),
        ending=Ending.TIME,
    )


def row(hours: float) -> AllocationRow:
    return AllocationRow(
        name="p",
        namespace="team",
        pod="p",
        node="n",
        window=DAY,
        minutes=Decimal(60),
        gpu_hours=Decimal(str(hours)),
        gpu_cost=None,
        total_cost=None,
    )


def compared(theirs: float | None, *held: Holding, silent: tuple[Window, ...] = ()) -> Crosscheck:
    rows = [] if theirs is None else [row(theirs)]
    return crosscheck(window=DAY, rows=rows, assets=[], holdings=held, nodes=NODES, silent=silent)


def differences(theirs: float | None, *held: Holding, silent: tuple[Window, ...] = ()) -> dict[Cause, float]:
    return dict(compared(theirs, *held, silent=silent).pods[0].differences)


def test_a_pod_that_waits_for_its_image_is_free_to_opencost() -> None:
    assert differences(None, holding(13, 15, runs_from_h=-1)) == {Cause.NOT_STARTED: pytest.approx(-2)}


def test_starting_and_the_end_are_two_differences() -> None:
    # Held from 1:00, running from 2:00 to 4:00, seen until 3:55.
    found = differences(23 / 12, holding(1, 4, runs_from_h=2))

    assert found == {Cause.NOT_STARTED: pytest.approx(-1), Cause.RESOLUTION: pytest.approx(-1 / 12)}


def test_hours_over_a_gap_in_the_samples_are_named_so() -> None:
    gap = Window(DAY.from_ms + 6 * HOUR_MS, DAY.from_ms + 8 * HOUR_MS)

    found = differences(11.9167, holding(0, 6), holding(8, 10), silent=(gap,))

    assert set(found) == {Cause.SILENCE}


def test_what_no_rule_gives_is_unexplained_with_its_size() -> None:
    assert differences(9.0, holding(1, 4)) == {Cause.UNEXPLAINED: pytest.approx(6)}


def test_a_pod_that_only_opencost_knows_is_unexplained() -> None:
    found = compared(3.0)

    assert found.pods[0].held == 0
    assert found.pods[0].differences == {Cause.UNEXPLAINED: 3}


def test_the_same_hours_are_no_difference() -> None:
    found = compared(2.0, holding(1, 3 + 1 / 12))

    assert found.pods[0].differences == {Cause.RESOLUTION: pytest.approx(-1 / 12)}
    assert compared(24.0, holding(-1, 25)).differing == ()


spans = st.lists(
    st.tuples(st.integers(0, 1440), st.integers(1, 400)).map(
        lambda pair: Window(DAY.from_ms + pair[0] * MINUTE_MS, DAY.from_ms + sum(pair) * MINUTE_MS)
    ),
    min_size=1,
    max_size=3,
)


@given(spans, st.sampled_from([MINUTE_MS, STEP_MS]))
def test_the_rule_of_looks_is_looking_at_every_step(runs: list[Window], step_ms: int) -> None:
    looks = range(DAY.from_ms, DAY.to_ms + 1, step_ms)
    seen = [at for at in looks if any(run.from_ms <= at < run.to_ms for run in runs)]

    found = seen_on_grid(runs, DAY, step_ms)

    if not seen:
        assert found is None
    elif len(seen) == 1:
        assert found == min(step_ms, DAY.to_ms - seen[0])
    else:
        assert found == seen[-1] - seen[0]


def asset(node: str, hours: float, cost: float) -> NodeAsset:
    return NodeAsset(
        node=node,
        window=DAY,
        labels={},
        gpu_count=None,
        gpu_hours=Decimal(str(hours)),
        gpu_cost=Decimal(str(cost)),
        adjustment=None,
        total_cost=None,
    )


def doubts(*assets: NodeAsset, flavors: dict[str, str | None], declared: dict[str, str]) -> dict[str, str | None]:
    prices = [Price(flavor=flavor, gpu_hour=Money(Decimal(text), "EUR")) for flavor, text in declared.items()]
    book = price_book(prices, currency="EUR", window=DAY)
    return {one.node: one.doubt for one in node_prices(assets, flavors, book, DAY)}


def test_a_card_priced_like_a_core_is_named() -> None:
    found = doubts(asset("n", 96, 96 * 0.006258), flavors={"n": "h100"}, declared={"h100": "2.5"})

    assert "no gpuLabel is set" in (found["n"] or "")


def test_opencosts_default_price_is_named_where_none_is_declared() -> None:
    assert "OpenCost's default" in (doubts(asset("n", 24, 24 * 0.95), flavors={"n": "t4"}, declared={})["n"] or "")
    assert doubts(asset("n", 24, 24 * 0.95), flavors={"n": "t4"}, declared={"t4": "0.95"}) == {"n": None}


def test_one_price_for_all_flavors_is_named() -> None:
    found = doubts(asset("a", 24, 60), asset("b", 24, 60), flavors={"a": "h100", "b": "l4"}, declared={})

    assert all("Every flavor has the same price" in (one or "") for one in found.values())


def test_the_declared_price_stands_beside_opencosts_and_neither_is_changed() -> None:
    prices = [Price(flavor="h100", gpu_hour=Money(Decimal("2.49"), "EUR"))]
    book = price_book(prices, currency="EUR", window=DAY)

    (found,) = node_prices([asset("n", 24, 60)], {"n": "h100"}, book, Window(DAY.from_ms, DAY.from_ms + DAY_MS))

    assert (found.opencost, found.declared) == (Fraction(5, 2), Fraction(249, 100))
    assert found.doubt == "The declared price is 2.49; ours is used."
