"""The waterfall as people read it: a tree from capacity down, rounded so that every split adds up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from gpuyield.model.waterfall import ALLOCATED, BUSY, LOST, UNALLOCATED, UNJUDGED, GpuClass, Waterfall
from gpuyield.report.sentences import CLASS_MEANING, CLASS_WORDS
from gpuyield.report.tables import Cell, Column, Kind, Table
from gpuyield.units import HOUR_MS, largest_remainder, round_parts

TREE: tuple[tuple[str, int, tuple[GpuClass, ...]], ...] = (
    ("capacity", 0, tuple(GpuClass)),
    ("unavailable", 1, (GpuClass.UNAVAILABLE,)),
    ("unallocated", 1, UNALLOCATED),
    *((str(leaf), 2, (leaf,)) for leaf in UNALLOCATED),
    ("allocated", 1, ALLOCATED),
    ("starting", 2, (GpuClass.STARTING,)),
    ("idle_held", 2, (GpuClass.IDLE_HELD,)),
    ("underused", 2, (GpuClass.UNDERUSED,)),
    ("unobserved", 2, (GpuClass.UNOBSERVED,)),
    ("busy", 2, BUSY),
    ("productive", 3, (GpuClass.PRODUCTIVE,)),
    ("lost", 3, LOST),
    *((str(leaf), 4, (leaf,)) for leaf in LOST),
    ("unjudged", 3, UNJUDGED),
    *((str(leaf), 4, (leaf,)) for leaf in UNJUDGED),
)
"""Every line of the waterfall: its name, its depth, and the leaves that it adds up."""

_NEVER_DROPPED = ("capacity", "unavailable", "unallocated", "allocated", "idle_held", "underused", "unobserved", "busy")


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A line of the waterfall: exact GPU time, and hours and share rounded together with their siblings.

    `money` is None where a part of it has no price.
    """

    name: str
    depth: int
    gpu_ms: int
    hours: Decimal
    ratio: Decimal
    money: Decimal | None = None


def lines(fall: Waterfall) -> list[Line]:
    """The lines with GPU time, capacity first; printed hours and percentages of parts sum to their parent's.

    Hours have one decimal below 1,000 GPU-hours of capacity, shares one decimal of a percent.
    """
    capacity = fall.capacity_gpu_ms
    places = 1 if capacity < 1000 * HOUR_MS else 0
    amounts = [leaf.gpu_ms for leaf in fall.leaves]
    hour_parts = round_parts([Decimal(amount) / HOUR_MS for amount in amounts], places=places)
    ratio_parts = [Decimal(part).scaleb(-3) for part in largest_remainder(amounts, 1000 if capacity else 0)]
    by_hours = {leaf.gpu_class: part for leaf, part in zip(fall.leaves, hour_parts, strict=True)}
    by_ratio = {leaf.gpu_class: part for leaf, part in zip(fall.leaves, ratio_parts, strict=True)}
    shown = []
    for name, depth, classes in TREE:
        gpu_ms = fall.gpu_ms(*classes)
        if gpu_ms or name in _NEVER_DROPPED:
            shown.append(
                Line(
                    name=name,
                    depth=depth,
                    gpu_ms=gpu_ms,
                    hours=sum((by_hours[one] for one in classes), Decimal(0)),
                    ratio=sum((by_ratio[one] for one in classes), Decimal(0)),
                    money=_money(fall, classes),
                )
            )
    return shown


def waterfall_table(fall: Waterfall, *, title: str, remarks: Mapping[str, str] | None = None) -> Table:
    """The waterfall as a table, with money where prices are known; `remarks` replace the meaning beside a class."""
    shown = lines(fall)
    texts = {**CLASS_MEANING, **(remarks or {})}
    currency = next((leaf.money.currency for leaf in fall.leaves if leaf.money is not None), None)
    money = () if currency is None else (Column("money", currency, Kind.MONEY),)
    rows: list[tuple[Cell, ...]] = []
    for one in shown:
        spent = () if currency is None else (one.money,)
        rows.append((CLASS_WORDS[one.name], one.hours, one.ratio, *spent, texts.get(one.name, "")))
    return Table(
        title=title,
        columns=(
            Column("class", "GPU time"),
            Column("gpu_h", "GPU-hours", Kind.HOURS),
            Column("of_capacity", "of capacity", Kind.RATIO),
            *money,
            Column("meaning", ""),
        ),
        rows=tuple(rows),
        indent=tuple(one.depth for one in shown),
    )


def _money(fall: Waterfall, classes: tuple[GpuClass, ...]) -> Decimal | None:
    total = Decimal(0)
    for leaf in fall.leaves:
        if leaf.gpu_class in classes and (leaf.gpu_ms or leaf.money is not None):
            if leaf.money is None:
                return None
            total += leaf.money.amount
    return total
