"""The waterfall as printed: every split adds up, whatever the rounding."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

from hypothesis import example, given
from hypothesis import strategies as st

from gpuyield.model.waterfall import GpuClass, Leaf, Waterfall
from gpuyield.report.waterfall import TREE, lines, waterfall_table
from gpuyield.units import Money
from report.samples import HOURS, waterfall

amounts = st.lists(st.integers(0, 10**11), min_size=len(GpuClass), max_size=len(GpuClass))


def fall(found: list[int]) -> Waterfall:
    pairs = zip(GpuClass, found, strict=True)
    return Waterfall(leaves=tuple(Leaf(gpu_class=one, gpu_ms=ms, lo=ms, hi=ms) for one, ms in pairs))


@given(amounts)
def test_printed_parts_sum_to_their_whole(found: list[int]) -> None:
    shown = lines(fall(found))

    by_name = {line.name: line for line in shown}
    for name, depth, classes in TREE:
        children = [child for child, deep, inside in TREE if deep == depth + 1 and set(inside) < set(classes)]
        if len(children) > 1 and name in by_name:
            parts = [by_name[child] for child in children if child in by_name]
            assert sum((part.hours for part in parts), Decimal(0)) == by_name[name].hours
            assert sum((part.ratio for part in parts), Decimal(0)) == by_name[name].ratio


@given(amounts)
@example([0] * (len(GpuClass) - 3) + [1549, 1_798_452, 4_186_799_999])
def test_a_printed_figure_is_within_one_unit_of_the_truth(found: list[int]) -> None:
    whole = fall(found)
    capacity = whole.capacity_gpu_ms
    unit = Decimal("0.1") if capacity < 1000 * 3_600_000 else Decimal(1)

    for line in lines(whole):
        if len(next(one for one in TREE if one[0] == line.name)[2]) == 1:
            assert abs(line.hours - Decimal(line.gpu_ms) / 3_600_000) <= unit


def test_classes_without_time_are_left_out_except_the_main_ones() -> None:
    names = [line.name for line in lines(waterfall(HOURS))]

    assert "unallocated.quota_blocked" not in names
    assert {"capacity", "unavailable", "unallocated", "allocated", "idle_held", "busy"} <= set(names)
    assert next(line.name for line in lines(waterfall({}))) == "capacity"


def test_money_stands_beside_the_hours_where_prices_are_known_and_adds_up() -> None:
    priced = Waterfall(
        leaves=tuple(
            replace(leaf, money=Money(Decimal(leaf.gpu_ms) / 3_600_000 * 2, "EUR")) for leaf in waterfall(HOURS).leaves
        )
    )
    without_one = Waterfall(
        leaves=tuple(replace(leaf, money=None) if leaf.gpu_class is GpuClass.LATE else leaf for leaf in priced.leaves)
    )

    by_name = {line.name: line.money for line in lines(priced)}
    missing = {line.name: line.money for line in lines(without_one)}
    assert by_name["capacity"] == 2 * 10_752
    assert by_name["lost"] == 2 * 531
    assert [column.title for column in waterfall_table(priced, title="").columns][3] == "EUR"
    assert (missing["lost.late"], missing["lost"], missing["capacity"]) == (None, None, None)
    assert missing["productive"] == by_name["productive"]
    assert "EUR" not in [column.title for column in waterfall_table(waterfall(HOURS), title="").columns]
