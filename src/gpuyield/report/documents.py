"""Documents that no other room writes: the account as JSON (contracts, section 4), and the way gaps are written."""

from __future__ import annotations

from typing import Any  # JSON has no narrower type than this.

from gpuyield.model.document import gaps_document, schema_name, window_document
from gpuyield.model.waterfall import Account, Holder, Leaf, Waterfall
from gpuyield.units import format_instant


def account_document(account: Account) -> dict[str, Any]:
    """The `account` document."""
    return {
        "schema": schema_name("account"),
        "window": window_document(account.window),
        "by": list(account.by),
        "capacity_gpu_ms": account.waterfall.capacity_gpu_ms,
        "waterfall": waterfall_document(account.waterfall),
        "rows": [
            {
                "key": dict(row.key),
                "capacity_gpu_ms": row.waterfall.capacity_gpu_ms,
                "waterfall": waterfall_document(row.waterfall),
            }
            for row in account.rows
        ],
        "holders": [_holder(one) for one in account.holders],
        "gaps": gaps_document(account.gaps),
    }


def waterfall_document(waterfall: Waterfall) -> list[dict[str, Any]]:
    """The leaves in order."""
    return [_leaf(leaf) for leaf in waterfall.leaves]


def _leaf(leaf: Leaf) -> dict[str, Any]:
    money = None
    if leaf.money is not None:
        money = {"amount": f"{leaf.money.amount:f}", "currency": leaf.money.currency}
    return {
        "class": str(leaf.gpu_class),
        "gpu_ms": leaf.gpu_ms,
        "lo": leaf.lo,
        "hi": leaf.hi,
        "evidence": str(leaf.evidence),
        "money": money,
    }


def _holder(holder: Holder) -> dict[str, Any]:
    return {
        "namespace": holder.namespace,
        "workload": holder.workload,
        "team": holder.team,
        "flavor": holder.flavor,
        "gpus": holder.gpus,
        "gpus_now": holder.gpus_now,
        "idle_gpu_ms": holder.idle_gpu_ms,
        "since": None if holder.since_ms is None else format_instant(holder.since_ms),
        "open_start": holder.open_start,
        "longest": window_document(holder.longest),
    }
