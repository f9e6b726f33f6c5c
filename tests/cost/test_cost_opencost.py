from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest

from gpuyield.cost.prices import price_book
from gpuyield.cost.sources import cost_in, node_costs
from gpuyield.model.cost import NodeCost
from gpuyield.model.declaration import Price, PriceBasis, RateRule
from gpuyield.units import Money, Window, day_window, parse_instant

FLAVORS = {"gpu-h100-a": "h100", "gpu-h100-b": "h100", "gpu-mig-a": "a100", "gpu-l4-shared": "l4"}


def stated(file: Path, currency: str = "EUR") -> tuple[NodeCost, ...]:
    assets = json.loads(file.read_text())["data"]
    nodes = [one for one in assets.values() if one["type"] == "Node"]
    columns: dict[str, list[object]] = {
        "source": ["opencost"] * len(nodes),
        "node": [one["properties"]["name"] for one in nodes],
        "flavor": [FLAVORS.get(one["properties"]["name"], "") for one in nodes],
        "from_ms": [parse_instant(one["window"]["start"]) for one in nodes],
        "to_ms": [parse_instant(one["window"]["end"]) for one in nodes],
        "gpu_hours": [float(one["GPUHours"]) for one in nodes],
        "gpu_cost": [str(one["gpuCost"]) for one in nodes],
        "total_cost": [str(one["totalCost"]) for one in nodes],
        "currency": [currency] * len(nodes),
        "basis": ["list"] * len(nodes),
    }
    return node_costs(columns)


@pytest.fixture
def day_one(shared_data: Path) -> tuple[NodeCost, ...]:
    return stated(shared_data / "opencost" / "live" / "assets-d1.json")


DAY = day_window("2026-11-26")


def test_the_recorded_node_gives_the_price_of_its_gpu_and_of_the_whole_node(day_one: tuple[NodeCost, ...]) -> None:
    by_gpu = price_book((), day_one, currency="EUR", rate=RateRule.GPU, window=DAY)
    by_node = price_book((), day_one, currency="EUR", window=DAY)

    # gpu-h100-a: 32 cores at 0.03, 256 GiB at 0.004 and four GPUs at 2.5 an hour
    assert by_gpu.flavor_price("h100", DAY.from_ms) == Fraction("2.5")
    assert by_node.flavor_price("h100", DAY.from_ms) == pytest.approx(Fraction("11.984") / 4, abs=1e-5)


def test_the_gpu_nodes_of_the_recorded_day_cost_what_the_truth_says(day_one: tuple[NodeCost, ...]) -> None:
    book = price_book((), day_one, currency="EUR", window=DAY)

    found = cost_in(book.nodes, DAY)

    # 287.616 + 23.808 + 23.232; cpu-a is no GPU node
    assert found is not None
    assert float(found[0]) == pytest.approx(334.656, abs=1e-4)


def test_a_mig_node_that_opencost_counts_without_gpus_has_no_price(day_one: tuple[NodeCost, ...]) -> None:
    book = price_book((), day_one, currency="EUR", window=DAY)

    assert book.price("a100", "gpu-mig-a", DAY.from_ms) is None
    assert [gap.reason for gap in book.gaps] == [
        "opencost counts no GPU on node gpu-mig-a, so it states no price for a100. Add it under prices."
    ]


def node(of_gpu: str) -> NodeCost:
    return NodeCost(
        source="opencost",
        node="n",
        flavor="h100",
        window=DAY,
        gpu_hours=Fraction(24),
        gpu_cost=24 * Fraction(Decimal(of_gpu)),
        total_cost=24 * Fraction(Decimal(of_gpu)) * 2,
        currency="",
        basis=PriceBasis.LIST,
    )


def test_the_price_that_opencost_writes_without_a_gpu_label_is_not_used() -> None:
    book = price_book((), [node("0.006258")], currency="EUR", window=DAY)

    assert book.price("h100", "n", DAY.from_ms) is None
    assert "0.0063 a GPU-hour, far below any card: it is not used" in book.gaps[0].reason


def test_the_default_price_of_opencost_is_used_and_called_doubtful() -> None:
    book = price_book((), [node("0.95")], currency="EUR", window=DAY)

    assert book.price("h100", "n", DAY.from_ms) is not None
    assert "which is its default and perhaps not your price" in book.gaps[0].reason


def test_a_declared_price_wins_and_the_source_is_held_against_it() -> None:
    declared = Price(flavor="h100", gpu_hour=Money(Decimal("2.5"), "EUR"), basis=PriceBasis.LIST)

    far = price_book([declared], [node("0.006258")], currency="EUR", window=DAY)
    near = price_book([declared], [node("2.50")], currency="EUR", window=DAY)

    assert far.flavor_price("h100", DAY.from_ms) == near.flavor_price("h100", DAY.from_ms) == Fraction("2.5")
    assert [gap.reason for gap in far.gaps] == [
        "opencost prices h100 on n at 0.0063 a GPU-hour, declared is 2.5; the declared price is used."
    ]
    assert near.gaps == ()


def test_a_node_is_known_by_its_name_whatever_the_source_takes_it_for() -> None:
    book = price_book((), [replace(node("2.5"), flavor="")], currency="EUR", rate=RateRule.GPU, window=DAY)

    found = book.price("h100", "n", DAY.from_ms)

    assert found is not None
    assert found.gpu_hour == Fraction("2.5")
    assert book.price("h100", "another", DAY.from_ms) is None


def test_the_same_doubt_of_several_days_is_one_gap() -> None:
    days = [day_window(name) for name in ("2026-11-26", "2026-11-27", "2026-11-28")]
    window = Window(days[0].from_ms, days[-1].to_ms)

    book = price_book((), [replace(node("0.95"), window=day) for day in days], currency="EUR", window=window)

    assert [gap.window for gap in book.gaps] == [window]


def test_a_source_that_leaves_out_time_gives_no_total(day_one: tuple[NodeCost, ...]) -> None:
    two_days = Window(DAY.from_ms, day_window("2026-11-27").to_ms)

    assert cost_in(day_one, two_days) is None


def test_a_price_holds_for_the_span_it_was_stated_for(day_one: tuple[NodeCost, ...]) -> None:
    book = price_book((), day_one, currency="EUR", window=Window(DAY.from_ms, DAY.to_ms + 1))

    assert book.price("h100", "gpu-h100-a", DAY.to_ms) is None
    assert book.edges(Window(DAY.from_ms, DAY.to_ms + 1)) == (DAY.to_ms,)
