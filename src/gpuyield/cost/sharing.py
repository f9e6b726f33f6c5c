"""Who bears the cost of time that nobody held, by the declared rule.

`unallocated` governs cards that were free, `idle` those that could serve nobody (unavailable). By allocated: in
proportion to the GPU time that each key held. By quota: in proportion to the GPUs that a team's quota names; needs
rows by team. Nobody: it stays a row of its own, and no key bears any of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from gpuyield.cost.pricing import KeyValues
from gpuyield.model.cost import CostLeaf
from gpuyield.model.declaration import Sharing, SharingRule
from gpuyield.model.evidence import Gap
from gpuyield.model.waterfall import ALLOCATED, UNALLOCATED, GpuClass


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """Each key's part of nobody's cost; None where it is not known."""

    by_key: Mapping[KeyValues, Fraction | None]
    gaps: tuple[Gap, ...]


def shares(
    leaves_by_key: Mapping[KeyValues, Sequence[CostLeaf]],
    by: Sequence[str],
    sharing: Sharing,
    quotas: Mapping[str, int] | None,
) -> Shares:
    """How the cost of unallocated and unavailable time falls on the keys."""
    totals: dict[KeyValues, Fraction | None] = dict.fromkeys(leaves_by_key, Fraction(0))
    gaps: list[Gap] = []
    for classes, rule in (((GpuClass.UNAVAILABLE,), sharing.idle), (UNALLOCATED, sharing.unallocated)):
        if rule is SharingRule.NOBODY:
            continue
        pool = _money(leaves_by_key, classes)
        weights = _weights(leaves_by_key, by, rule, quotas)
        if pool is None or weights is None or not sum(weights.values()):
            gaps.append(Gap(reason=_why_not(pool, rule, by, quotas), where="sharing"))
            totals = dict.fromkeys(totals)
            continue
        whole = sum(weights.values())
        for key, so_far in totals.items():
            totals[key] = None if so_far is None else so_far + pool * weights[key] / whole
    return Shares(by_key=totals, gaps=tuple(dict.fromkeys(gaps)))


def _weights(
    leaves_by_key: Mapping[KeyValues, Sequence[CostLeaf]],
    by: Sequence[str],
    rule: SharingRule,
    quotas: Mapping[str, int] | None,
) -> dict[KeyValues, int] | None:
    if rule is SharingRule.BY_ALLOCATED:
        return {
            key: sum(leaf.gpu_ms for leaf in leaves if leaf.gpu_class in ALLOCATED)
            for key, leaves in leaves_by_key.items()
        }
    if tuple(by) != ("team",) or quotas is None:
        return None
    return {key: quotas.get(key[0], 0) if key[0] is not None else 0 for key in leaves_by_key}


def _why_not(pool: Fraction | None, rule: SharingRule, by: Sequence[str], quotas: Mapping[str, int] | None) -> str:
    if pool is None:
        return "Nobody's cost cannot be shared: a price is missing."
    if rule is SharingRule.BY_QUOTA and quotas is None:
        return "Nobody's cost cannot be shared by_quota: this version reads no quotas. Write by_allocated."
    if rule is SharingRule.BY_QUOTA and tuple(by) != ("team",):
        return "Nobody's cost cannot be shared by_quota: quotas are of teams, and the rows are not. Use --by team."
    return f"Nobody's cost cannot be shared {rule}: nothing was held in this window."


def _money(leaves_by_key: Mapping[KeyValues, Sequence[CostLeaf]], classes: Sequence[GpuClass]) -> Fraction | None:
    total = Fraction(0)
    for leaves in leaves_by_key.values():
        for leaf in leaves:
            if leaf.gpu_class in classes:
                if leaf.money is None:
                    return None
                total += leaf.money
    return total
