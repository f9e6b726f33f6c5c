"""A small cluster's facts, written by hand: what a page is drawn from in these tests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from zoneinfo import ZoneInfo

from gpuyield.model.evidence import Evidence, Gap
from gpuyield.model.waterfall import Account, AccountRow, GpuClass, Holder, Leaf, Waterfall
from gpuyield.report.facts import Facts, SourceRead
from gpuyield.units import DAY_MS, HOUR_MS, Window, parse_instant

BERLIN = ZoneInfo("Europe/Berlin")
FROM_MS = parse_instant("2026-11-15T23:00:00Z")
WINDOW = Window(FROM_MS, FROM_MS + 14 * DAY_MS)

HOURS = {
    GpuClass.UNAVAILABLE: 96,
    GpuClass.NO_DEMAND: 1000,
    GpuClass.FRAGMENTED: 200,
    GpuClass.UNEXPLAINED: 138,
    GpuClass.STARTING: 142,
    GpuClass.IDLE_HELD: 2150,
    GpuClass.UNDERUSED: 2410,
    GpuClass.UNOBSERVED: 214,
    GpuClass.PRODUCTIVE: 3102,
    GpuClass.FAILED: 310,
    GpuClass.LATE: 221,
    GpuClass.UNVERIFIED: 769,
}


def waterfall(hours: Mapping[GpuClass, float]) -> Waterfall:
    leaves = []
    for one in GpuClass:
        gpu_ms = round(hours.get(one, 0) * HOUR_MS)
        evidence = Evidence.UNKNOWN if one is GpuClass.UNOBSERVED and gpu_ms else Evidence.MEASURED
        leaves.append(Leaf(gpu_class=one, gpu_ms=gpu_ms, lo=gpu_ms, hi=gpu_ms, evidence=evidence))
    return Waterfall(leaves=tuple(leaves))


TEAM_HOURS = {
    "search": {GpuClass.IDLE_HELD: 806, GpuClass.UNDERUSED: 353, GpuClass.PRODUCTIVE: 1500, GpuClass.FAILED: 52},
    "vision": {GpuClass.IDLE_HELD: 1344, GpuClass.UNDERUSED: 900, GpuClass.PRODUCTIVE: 602, GpuClass.UNVERIFIED: 769},
    "evals": {GpuClass.STARTING: 142, GpuClass.UNDERUSED: 557, GpuClass.PRODUCTIVE: 600, GpuClass.LATE: 221},
    "support": {GpuClass.UNDERUSED: 600, GpuClass.UNOBSERVED: 214, GpuClass.PRODUCTIVE: 400, GpuClass.FAILED: 258},
}

NOBODY_HOURS = {one: HOURS[one] for one in list(HOURS)[:4]}


def account(by: tuple[str, ...] = ()) -> Account:
    rows: tuple[AccountRow, ...] = ()
    if by == ("team",):
        rows = (
            *(AccountRow(key={"team": team}, waterfall=waterfall(dict(hours))) for team, hours in TEAM_HOURS.items()),
            AccountRow(key={"team": None}, waterfall=waterfall(dict(NOBODY_HOURS))),
        )
    return Account(
        window=WINDOW,
        by=by,
        waterfall=waterfall(HOURS),
        rows=rows,
        holders=(
            Holder(
                namespace="vision",
                workload="label-studio",
                team="vision",
                flavor="h100",
                gpus=4,
                idle_gpu_ms=4 * 336 * HOUR_MS,
                since_ms=FROM_MS,
                gpus_now=4,
                open_start=True,
                longest=WINDOW,
            ),
            Holder(
                namespace="search",
                workload="notebooks",
                team="search",
                flavor="h100",
                gpus=3,
                idle_gpu_ms=806 * HOUR_MS,
                since_ms=FROM_MS + 2 * DAY_MS,
                gpus_now=3,
                open_start=False,
                longest=Window(FROM_MS + 2 * DAY_MS, WINDOW.to_ms),
            ),
        ),
        gaps=GAPS,
    )


GAPS = (
    Gap(
        reason="no DCGM data",
        where="node gpu-17",
        window=Window(FROM_MS + 5 * DAY_MS, FROM_MS + 5 * DAY_MS + 6 * HOUR_MS + 30 * 60_000),
        gpu_ms=8 * 23_400_000,
    ),
    Gap(reason="no price for flavor h200", where="gpuyield.yaml prices"),
)


def queue() -> dict[str, Any]:
    hours = {
        "not_due_yet": 610,
        "impossible": 0,
        "fragmented": 90,
        "held_idle": 520,
        "undeclared": 0,
        "order": 432,
        "capacity": 40,
        "unexplained": 0,
    }
    return {
        "schema": "gpuyield/queue/v1alpha1",
        "total_gpu_ms": sum(hours.values()) * HOUR_MS,
        "causes": [{"cause": cause, "gpu_ms": value * HOUR_MS} for cause, value in hours.items()],
        "rows": [],
        "gaps": [],
    }


def cost() -> dict[str, Any]:
    def row(key: str | None, spent: str, verified: int, value: str | None, reason: str | None = None) -> dict[str, Any]:
        cell: dict[str, Any] = {"value": value, "lo": value, "hi": value}
        if reason:
            cell = {"value": None, "lo": None, "hi": None, "reason": reason}
        return {
            "key": {"team": key},
            "cost": {"productive": spent},
            "verified": verified,
            "cost_per_verified_outcome": {"fully_loaded": cell, "allocated": cell, "busy": cell},
        }

    return {
        "schema": "gpuyield/cost/v1alpha1",
        "basis": "contracted",
        "currency": "EUR",
        "bill": {
            "source_total": None,
            "attributed": "23202.00",
            "residual": None,
            "tolerance": None,
            "reconciled": None,
        },
        "rows": [
            row("support", "2104.20", 501_000, "0.0042"),
            row("search", "7220.10", 34, "212.35"),
            row("evals", "1204.10", 0, None, "no verified outcome, 1,204.10 EUR spent"),
        ],
        "gaps": [],
    }


NIGHT = parse_instant("2026-11-30T21:00:00Z")


def plan() -> dict[str, Any]:
    starts = {"a": 21, "b": 21, "c": 23, "d": 23}
    return {
        "schema": "gpuyield/plan/v1alpha1",
        "status": "optimal",
        "origin": "2026-11-30T21:00:00Z",
        "gpus": {"gpu": {"available": 4, "needed": 4, "lower_bound": 4}},
        "jobs": [
            {
                "id": name,
                "flavor": None,
                "gpus": 2,
                "segments": [
                    [f"2026-11-30T{hour}:00:00Z", "2026-12-01T01:00:00Z" if hour == 23 else "2026-11-30T23:00:00Z"]
                ],
                "deadline": "2026-12-01T01:00:00Z",
                "slack_s": 0 if hour == 23 else 7200,
                "late_s": 0,
                "status": "planned",
                "why": "starts when 2 GPUs come free" if hour == 23 else "starts at once",
            }
            for name, hour in starts.items()
        ],
        "explanation": ["All four jobs end by 02:00 on 4 GPUs; starting all at once would take 8."],
        "inputs_digest": "sha256:00",
    }


def plan_inputs() -> dict[str, Any]:
    return {
        "schema": "gpuyield/plan-inputs/v1alpha1",
        "origin_ms": NIGHT,
        "jobs": [
            {
                "id": name,
                "shapes": [{"flavor": None, "demand": {"gpu": 2}, "duration_ms": 2 * HOUR_MS}],
                "release_ms": 0,
                "deadline_ms": 4 * HOUR_MS,
                "started_ms": None,
                "pinned_ms": None,
            }
            for name in "abcd"
        ],
        "capacity": {"gpu": [[0, 4]]},
    }


def decision() -> dict[str, Any]:
    return {
        "schema": "gpuyield/decide/v1alpha1",
        "status": "not_needed",
        "headline": (
            "For the declared batch work, with services as they are today: no GPU purchase needed. "
            "First start 3 jobs later and free 7 GPUs."
        ),
        "scope": {"batch": "declared", "services": "held_at_observed"},
        "coverage": 0.71,
        "levers": [
            {
                "id": "reschedule",
                "lever": "reschedule",
                "change": "eval-suite and 2 more start after 23:00",
                "gpus_freed": {},
                "money_per_month": None,
                "deadlines_saved": 3,
                "risk": "none found",
                "undo": "move them back",
                "provenance": "here",
            },
            {
                "id": "reclaim",
                "lever": "reclaim",
                "change": "vision/label-studio 4 GPUs, search/notebooks 3 GPUs",
                "gpus_freed": {"h100": 7},
                "money_per_month": {"amount": "12723.90", "currency": "EUR"},
                "deadlines_saved": 0,
                "risk": "holders lose their session",
                "undo": "start the notebooks again",
                "provenance": "here",
            },
        ],
        "conditional": [],
        "flip_points": [
            {"what": "gpus", "sentence": "The answer holds down to 4 GPUs; with fewer it is proven not to."}
        ],
        "next_experiment": {"sentence": "Measure support-chat.", "command": "gpuyield measure --service support-chat"},
        "inputs_digest": "sha256:5f1c",
    }


def facts() -> Facts:
    return Facts(
        cluster="demo",
        zone=BERLIN,
        version="0.1.0",
        account=account(),
        by_team=account(("team",)),
        queue=queue(),
        cost=cost(),
        plan=plan(),
        plan_inputs=plan_inputs(),
        decision=decision(),
        gaps=GAPS,
        sources=(SourceRead(name="prometheus", what="14 days read, 12 metrics"),),
        decision_path="demo/decide.json",
    )
