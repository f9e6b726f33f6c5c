"""A large true document without a planner: every job starts at its release, and capacity is what that takes."""

from __future__ import annotations

from random import Random
from typing import Any

from verify.documents import moment

MINUTE_MS = 60_000
BUCKET_MS = 16 * MINUTE_MS
DAYS = 14


def large_document(jobs: int, seed: int = 0) -> tuple[dict[str, Any], dict[str, Any]]:
    """The document and its inputs; its bound is proven by prices, its floor by an interval over everything."""
    rng = Random(seed)
    listed = [_job(rng, at) for at in range(jobs)]
    changes: dict[int, int] = {}
    for job in listed:
        for at, sign in ((job["release_ms"], 1), (job["release_ms"] + _length(job), -1)):
            changes[at] = changes.get(at, 0) + sign * _gpus(job)
    load = peak = 0
    for at in sorted(changes):
        load += changes[at]
        peak = max(peak, load)
    inputs = {
        "schema": "gpuyield/plan-inputs/v1alpha1",
        "origin_ms": 1_796_072_400_000,
        "objective": "on-time",
        "resource": None,
        "jobs": listed,
        "capacity": {"gpu": [[0, peak]]},
        "sources": [],
    }
    end = max(job["deadline_ms"] for job in listed)
    work = sum(_gpus(job) * _length(job) for job in listed)
    interval = {
        "kind": "interval",
        "resource": "gpu",
        "from_ms": 0,
        "to_ms": end,
        "capacity_gpu_ms": peak * end,
        "required_gpu_ms": work,
        "extra_gpus": max(0, -((peak * end - work) // end)),
        "jobs": [{"id": job["id"], "forced_gpu_ms": _gpus(job) * _length(job)} for job in listed],
    }
    prices = {
        "kind": "prices",
        "bucket_ms": BUCKET_MS,
        "scale": 10**12,
        "prices": {"gpu": [rng.randint(0, 3) for _ in range(end // BUCKET_MS)]},
        "bound": str(jobs),
    }
    document: dict[str, Any] = {
        "schema": "gpuyield/plan/v1alpha1",
        "status": "optimal",
        "origin": moment(inputs, 0),
        "objective": {"name": "on-time", "value": 1.0, "bound": 1.0, "gap": 0.0},
        "gpus": {"gpu": {"available": peak, "needed": peak, "lower_bound": -(-work // end)}},
        "on_time": {"weighted": 1.0, "jobs": 1.0, "gpu_time": 1.0},
        "jobs": [_planned(inputs, job) for job in listed],
        "certificate": None,
        "bounds": [
            {"claim": "gpus.gpu.lower_bound", "certificate": interval},
            {"claim": "objective.bound", "certificate": prices},
        ],
        "witness": {"needed": {}},
        "proof": None,
        "explanation": [],
        "relaxations": [],
        "seed": 0,
        "stopped_because": "proven",
        "engine": {"name": "none", "version": "1"},
    }
    return document, inputs


def _job(rng: Random, at: int) -> dict[str, Any]:
    length = rng.randint(5, 1440) * MINUTE_MS
    release = rng.randint(0, DAYS * 1440) * MINUTE_MS
    return {
        "id": f"job-{at}",
        "shapes": [{"flavor": None, "demand": {"gpu": rng.choice([1, 1, 2, 4, 8])}, "duration_ms": length}],
        "release_ms": release,
        "deadline_ms": release + length * rng.randint(11, 50) // 10 // MINUTE_MS * MINUTE_MS + MINUTE_MS,
        "due_ms": None,
        "weight": "1",
        "after": [],
        "restart_ms": None,
        "started_ms": None,
        "pinned_ms": None,
    }


def _gpus(job: dict[str, Any]) -> int:
    return int(job["shapes"][0]["demand"]["gpu"])


def _length(job: dict[str, Any]) -> int:
    return int(job["shapes"][0]["duration_ms"])


def _planned(inputs: dict[str, Any], job: dict[str, Any]) -> dict[str, Any]:
    start, end = job["release_ms"], job["release_ms"] + _length(job)
    return {
        "id": job["id"],
        "flavor": None,
        "gpus": _gpus(job),
        "segments": [[moment(inputs, start), moment(inputs, end)]],
        "deadline": moment(inputs, job["deadline_ms"]),
        "slack_s": (job["deadline_ms"] - end) // 1000,
        "late_s": 0,
        "p_late": None,
        "status": "planned",
        "why": "",
        "moved_because": None,
    }
