"""The seed example by hand: 4 GPUs from 22:00 Berlin, four jobs of 2 GPUs x 2 h; one document for each deadline."""

from __future__ import annotations

from typing import Any

from verify.brute import UNIT_MS as HOUR_MS
from verify.documents import moment

ORIGIN_MS = 1_796_072_400_000  # 2026-11-30T21:00:00Z


def seed_inputs(deadline_h: int, *, names: str = "abcd", hours: int = 2, **more: Any) -> dict[str, Any]:
    """Canonical inputs; `more` replaces fields of every job."""
    job = {
        "shapes": [{"flavor": None, "demand": {"gpu": 2}, "duration_ms": hours * HOUR_MS}],
        "release_ms": 0,
        "deadline_ms": deadline_h * HOUR_MS,
        "due_ms": None,
        "weight": "1",
        "after": [],
        "restart_ms": None,
        "started_ms": None,
        "pinned_ms": None,
        "queue": None,
        "team": None,
        "family": None,
        **more,
    }
    return {
        "schema": "gpuyield/plan-inputs/v1alpha1",
        "origin_ms": ORIGIN_MS,
        "objective": "on-time",
        "resource": None,
        "jobs": [{"id": name, **job} for name in names],
        "capacity": {"gpu": [[0, 4]]},
        "sources": [],
    }


def planned(
    inputs: dict[str, Any], name: str, *segments: tuple[float, float], status: str = "planned"
) -> dict[str, Any]:
    """A job as the document lists it; without segments it is given up."""
    job = next(job for job in inputs["jobs"] if job["id"] == name)
    deadline = job["deadline_ms"]
    slack_s = int(deadline - segments[-1][1] * HOUR_MS) // 1000 if segments and deadline is not None else None
    return {
        "id": name,
        "flavor": None,
        "gpus": job["shapes"][0]["demand"]["gpu"],
        "segments": [
            [moment(inputs, int(low * HOUR_MS)), moment(inputs, int(high * HOUR_MS))] for low, high in segments
        ],
        "deadline": None if deadline is None else moment(inputs, deadline),
        "slack_s": slack_s,
        "late_s": 0,
        "p_late": None,
        "status": status,
        "why": "a sentence",
        "moved_because": None,
    }


def plan(inputs: dict[str, Any], jobs: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    """A document for these runs that claims no bound; `more` replaces fields."""
    met = sum(job["status"] == "planned" for job in jobs) / len(jobs)
    return {
        "schema": "gpuyield/plan/v1alpha1",
        "status": "feasible",
        "origin": moment(inputs, 0),
        "objective": {"name": inputs["objective"], "value": met, "bound": None, "gap": None},
        "gpus": {"gpu": {"available": 4, "needed": None, "lower_bound": None}},
        "on_time": {"weighted": met, "jobs": met, "gpu_time": met},
        "jobs": jobs,
        "certificate": None,
        "bounds": [],
        "witness": None,
        "proof": None,
        "explanation": [],
        "relaxations": [],
        "seed": 0,
        "stopped_because": "budget",
        "engine": {"name": "hand", "version": "1"},
        **more,
    }


def overload(names: str, forced_h: int = 2, capacity_h: int = 4) -> dict[str, Any]:
    """The interval 23:00 to 00:00, into which each job forces 2 GPUs x 1 h."""
    required = forced_h * len(names)
    return {
        "kind": "interval",
        "resource": "gpu",
        "from_ms": HOUR_MS,
        "to_ms": 2 * HOUR_MS,
        "capacity_gpu_ms": capacity_h * HOUR_MS,
        "required_gpu_ms": required * HOUR_MS,
        "extra_gpus": max(0, required - capacity_h),
        "jobs": [{"id": name, "forced_gpu_ms": forced_h * HOUR_MS} for name in names],
    }


def due_at_two() -> tuple[dict[str, Any], dict[str, Any]]:
    """Deadline 02:00: all met on 4 GPUs, and fewer do not do."""
    inputs = seed_inputs(4)
    jobs = [planned(inputs, name, (start, start + 2)) for name, start in zip("abcd", (0, 0, 2, 2), strict=True)]
    whole = {**overload("abcd", forced_h=4, capacity_h=16), "from_ms": 0, "to_ms": 4 * HOUR_MS}
    document = plan(
        inputs,
        jobs,
        status="optimal",
        stopped_because="proven",
        objective={"name": "on-time", "value": 1.0, "bound": 1.0, "gap": 0.0},
        gpus={"gpu": {"available": 4, "needed": 4, "lower_bound": 4}},
        bounds=[{"claim": "gpus.gpu.lower_bound", "certificate": whole}],
        witness={"needed": {}},
    )
    return document, inputs


def due_at_one() -> tuple[dict[str, Any], dict[str, Any]]:
    """Deadline 01:00: infeasible by the interval 23:00 to 00:00, with three ways out."""
    inputs = seed_inputs(3)
    jobs = [
        planned(inputs, "a", (0, 2)),
        planned(inputs, "b", (0, 2)),
        planned(inputs, "c", status="dropped"),
        planned(inputs, "d", status="dropped"),
    ]
    document = plan(
        inputs,
        jobs,
        status="infeasible",
        stopped_because="proven",
        certificate=overload("abcd"),
        gpus={"gpu": {"available": 4, "needed": 8, "lower_bound": 8}},
        bounds=[{"claim": "gpus.gpu.lower_bound", "certificate": overload("abcd")}],
        witness={"needed": {"c": moment(inputs, 0), "d": moment(inputs, 0)}},
        relaxations=[
            {
                "kind": "add-gpus",
                "resource": "gpu",
                "amount": 4,
                "from": moment(inputs, HOUR_MS),
                "to": moment(inputs, 2 * HOUR_MS),
                "witness": {"c": moment(inputs, HOUR_MS), "d": moment(inputs, HOUR_MS)},
                "irreducible": True,
                "certificates": [overload("abcd")],
            },
            {
                "kind": "move-deadline",
                "jobs": [{"id": "c", "by_s": 3600}, {"id": "d", "by_s": 3600}],
                "witness": {"c": moment(inputs, 2 * HOUR_MS), "d": moment(inputs, 2 * HOUR_MS)},
                "irreducible": None,
            },
            {
                "kind": "drop",
                "jobs": ["c", "d"],
                "witness": {},
                "irreducible": True,
                "certificates": [overload("abc"), overload("abd")],
            },
        ],
    )
    return document, inputs


def five_hours() -> tuple[dict[str, Any], dict[str, Any]]:
    """One job of 5 h due 01:00."""
    inputs = seed_inputs(3, names="a", hours=5)
    jobs = [planned(inputs, "a", status="impossible")]
    certificate = {"kind": "impossible", "jobs": [{"id": "a", "reason": "too-long", "need": 18000, "have": 10800}]}
    return plan(inputs, jobs, status="infeasible", stopped_because="proven", certificate=certificate), inputs
