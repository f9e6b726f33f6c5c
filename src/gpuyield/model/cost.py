"""Money of GPU time: prices, the bill, rows by class, and cost per verified outcome.

Inside, amounts are exact fractions of one currency: GPU time is counted in milliseconds and prices are per hour, so
a cell's money seldom ends within cents. It is divided and rounded only where it is printed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction

from gpuyield.model.declaration import PriceBasis, Sharing
from gpuyield.model.evidence import Gap
from gpuyield.model.waterfall import ALLOCATED, BUSY, GpuClass
from gpuyield.units import Window

Key = Mapping[str, str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuPrice:
    """What one GPU-hour costs in `[from_ms, to_ms)` (None: open) on a node, or on any node of the flavor."""

    flavor: str
    node: str | None = None
    from_ms: int | None = None
    to_ms: int | None = None
    gpu_hour: Fraction
    source: str

    def holds_at(self, at_ms: int) -> bool:
        """Whether it is the price at this instant."""
        return (self.from_ms is None or self.from_ms <= at_ms) and (self.to_ms is None or at_ms < self.to_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCost:
    """What a cost source states for a node over a span; `gpu_hours` are the source's, not ours."""

    source: str
    node: str
    flavor: str
    window: Window
    gpu_hours: Fraction
    gpu_cost: Fraction
    total_cost: Fraction
    currency: str
    basis: PriceBasis


@dataclass(frozen=True, slots=True, kw_only=True)
class Charge:
    """A row of a provider's bill: its period, and its amount on every price basis."""

    window: Window
    amounts: Mapping[PriceBasis, Fraction]
    currency: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CostLeaf:
    """GPU time of one class and its money; None where a price is missing."""

    gpu_class: GpuClass
    gpu_ms: int
    money: Fraction | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """Verified units, and between which numbers the truth lies once all is judged."""

    units: int
    lo: int
    hi: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitCost:
    """Money per verified outcome; None with the reason why there is none."""

    value: Fraction | None
    lo: Fraction | None = None
    hi: Fraction | None = None
    reason: str | None = None


class CostForm(StrEnum):
    """What is divided by the verified outcomes."""

    FULLY_LOADED = "fully_loaded"
    ALLOCATED = "allocated"
    BUSY = "busy"


@dataclass(frozen=True, slots=True, kw_only=True)
class CostRow:
    """The money of one key; `key` None: of all. `shared` is its part of nobody's cost by the sharing rule."""

    key: Key
    leaves: tuple[CostLeaf, ...]
    shared: Fraction | None
    verified: Verified | None
    per_outcome: Mapping[CostForm, UnitCost]

    @property
    def total(self) -> Fraction | None:
        """All classes together."""
        return self.money(*GpuClass)

    @property
    def allocated(self) -> Fraction | None:
        """What was held."""
        return self.money(*ALLOCATED)

    @property
    def busy(self) -> Fraction | None:
        """What was busy, lost included."""
        return self.money(*BUSY)

    def money(self, *classes: GpuClass) -> Fraction | None:
        """Money of these classes; None where a part of it is not known."""
        total = Fraction(0)
        for leaf in self.leaves:
            if leaf.gpu_class in classes:
                if leaf.money is None:
                    return None
                total += leaf.money
        return total

    def gpu_ms(self, *classes: GpuClass) -> int:
        """GPU time of these classes."""
        return sum(leaf.gpu_ms for leaf in self.leaves if leaf.gpu_class in classes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """What the cost source says in total and what our rows account for; None where it is not known.

    `rest` is what GPU nodes cost beyond their GPUs, where the rate is of the GPU alone.
    """

    source: str | None
    source_total: Fraction | None
    attributed: Fraction | None
    rest: Fraction
    tolerance: Decimal

    @property
    def residual(self) -> Fraction | None:
        """What the bill has and our rows have not."""
        if self.source_total is None or self.attributed is None:
            return None
        return self.source_total - self.attributed

    @property
    def is_reconciled(self) -> bool | None:
        """Whether the residual lies within the tolerance, a share of the source's total."""
        if self.residual is None or self.source_total is None:
            return None
        return abs(self.residual) <= Fraction(self.tolerance) * abs(self.source_total)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """The money of a window."""

    window: Window
    by: tuple[str, ...]
    basis: PriceBasis
    currency: str | None
    sharing: Sharing
    bill: Bill
    total: CostRow
    rows: tuple[CostRow, ...]
    gaps: tuple[Gap, ...]
