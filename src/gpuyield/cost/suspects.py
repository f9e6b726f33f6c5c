"""Prices of a cost source that cannot be meant: its defaults, and what is far from the declared price.

OpenCost without a `gpuLabel` shares the price of one core out over a whole node (a GPU-hour then costs 0.004 to
0.006), and its default price file says 0.95 for every card.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from gpuyield.model.cost import GpuPrice, NodeCost
from gpuyield.model.evidence import Gap

DEFAULT_PRICE = Fraction(95, 100)
LEAST_PRICE = Fraction(2, 100)
_ROUNDING = Fraction(1, 10_000)
_FAR = Fraction(3, 2)


def suspicious(cost: NodeCost, of_gpu: Fraction, declared: Sequence[GpuPrice]) -> tuple[bool, list[Gap]]:
    """Whether a stated price of a GPU-hour may be used, and what is doubtful about it."""
    ours = next((one.gpu_hour for one in declared if _same(one, cost)), None)
    where = f"{cost.source} {cost.node}"
    says = f"{cost.source} prices {cost.flavor or 'a GPU'} on {cost.node} at {_short(of_gpu)} a GPU-hour"
    if ours is not None:
        if ours and (of_gpu * _FAR < ours or of_gpu > ours * _FAR):
            return True, [_gap(f"{says}, declared is {_short(ours)}; the declared price is used.", where, cost)]
        return True, []
    if of_gpu < LEAST_PRICE:
        return False, [
            _gap(
                f"{says}, far below any card: it is not used. Most often no gpuLabel is set there; "
                f"add {cost.flavor or 'the flavor'} under prices.",
                where,
                cost,
            )
        ]
    if abs(of_gpu - DEFAULT_PRICE) <= _ROUNDING:
        return True, [_gap(f"{says}, which is its default and perhaps not your price.", where, cost)]
    return True, []


def _same(price: GpuPrice, cost: NodeCost) -> bool:
    return price.flavor == cost.flavor and price.holds_at(cost.window.from_ms)


def _gap(reason: str, where: str, cost: NodeCost) -> Gap:
    return Gap(reason=reason, where=where, window=cost.window)


def _short(price: Fraction) -> str:
    return f"{float(price):.4f}".rstrip("0").rstrip(".")
