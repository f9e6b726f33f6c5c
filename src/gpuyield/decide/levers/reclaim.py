"""Reclaim: take back whole, unshared GPUs that are held and idle. `underused` GPUs are never reclaimed."""

from __future__ import annotations

from collections import defaultdict
from decimal import ROUND_HALF_EVEN, Decimal
from typing import Any  # details are JSON

from gpuyield.decide.case import Case
from gpuyield.decide.levers.reschedule import on_time_jobs
from gpuyield.decide.money import monthly
from gpuyield.decide.words import counted, gpus_by_flavor, named
from gpuyield.model.decision import Lever, LeverKind
from gpuyield.model.waterfall import Holder
from gpuyield.units import format_instant


def reclaim(case: Case) -> Lever | None:
    """Who holds idle GPUs, how many, and what they cost in a month like the window; None where nobody does.

    GPUs freed are those that are idle at the end of the window; the money is that of all time that they were idle.
    """
    holders = [one for one in case.inputs.holders if one.idle_gpu_ms > 0]
    window = case.inputs.window
    if not holders or window is None or not window.length_ms:
        return None
    now: dict[str, int] = defaultdict(int)
    mean: dict[str | None, Decimal] = defaultdict(Decimal)
    for one in holders:
        if one.gpus_now:
            now[one.flavor or "unknown"] += one.gpus_now
        mean[one.flavor] += Decimal(one.idle_gpu_ms) / Decimal(window.length_ms)
    return Lever(
        kind=LeverKind.RECLAIM,
        change=_change(holders, now),
        gpus_freed=dict(now),
        money_per_month=monthly(case.inputs, mean),
        deadlines_saved=_saved(case),
        risk="Who gets idle GPUs taken back has to wait for them when work comes again.",
        undo="Start the workload again: gpuyield deletes nothing.",
        details=tuple(_detail(one) for one in holders),
    )


def _saved(case: Case) -> int | None:
    if case.plan is None or case.as_is is None:
        return None
    if not case.reclaimed:
        return 0
    return len(on_time_jobs(case, case.plan)) - len(on_time_jobs(case, case.as_is))


def _change(holders: list[Holder], now: dict[str, int]) -> str:
    still = [one for one in holders if one.gpus_now]
    if not still:
        names = [f"{one.namespace}/{one.workload}" for one in holders]
        return f"Let go of GPUs when they fall idle: {named(names)} held some idle, none at the end of the window."
    names = [f"{one.namespace}/{one.workload} ({one.gpus_now})" for one in still]
    return f"Take back {gpus_by_flavor(now)} that {counted(len(still), 'workload')} hold idle: {named(names)}."


def _detail(holder: Holder) -> dict[str, Any]:
    idle_h = (Decimal(holder.idle_gpu_ms) / 3_600_000).quantize(Decimal("0.01"), ROUND_HALF_EVEN)
    return {
        "namespace": holder.namespace,
        "workload": holder.workload,
        "team": holder.team,
        "flavor": holder.flavor,
        "gpus": holder.gpus_now,
        "since": None if holder.since_ms is None else format_instant(holder.since_ms),
        "idle_gpu_h": float(idle_h),
        "longest_s": holder.longest.length_ms // 1000,
    }
