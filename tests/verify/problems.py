"""Small random planning problems as decoded canonical inputs, and their seal."""

from __future__ import annotations

import hashlib
import json
from random import Random
from typing import Any

from verify.brute import UNIT_MS

ORIGIN_MS = 1_796_072_400_000
OBJECTIVES = ("on-time", "on-time", "on-time", "fewest-gpus", "makespan")


def seal(document: dict[str, Any], inputs: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    """The document with the digest of these inputs, and the inputs' canonical bytes."""
    data = json.dumps(inputs, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    return {**document, "inputs_digest": f"sha256:{hashlib.sha256(data).hexdigest()}"}, data


def make_inputs(rng: Random) -> dict[str, Any]:
    """Two to four jobs on one or two resources; every feature now and then."""
    flavored = rng.random() < 0.3
    resources = ["gpu/a", "gpu/b"] if flavored else ["gpu"]
    capacity = {name: _steps(rng) for name in resources}
    jobs = [_job(rng, chr(ord("a") + at), resources) for at in range(rng.choice([2, 3, 3, 4, 4]))]
    _chain(rng, jobs)
    return {
        "schema": "gpuyield/plan-inputs/v1alpha1",
        "origin_ms": ORIGIN_MS + rng.choice([0, 0, 1, 1500]),
        "objective": rng.choice(OBJECTIVES if not flavored else OBJECTIVES[:3]),
        "resource": None if not flavored else "gpu/a",
        "jobs": jobs,
        "capacity": capacity,
        "sources": [{"path": "jobs.yaml", "sha256": "0" * 64, "rows": len(jobs)}],
    }


def _steps(rng: Random) -> list[list[int]]:
    steps = [[0, rng.randint(2, 5)]]
    if rng.random() < 0.25:
        steps.append([rng.randint(1, 4) * UNIT_MS, rng.randint(1, 6)])
    return steps


def _job(rng: Random, name: str, resources: list[str]) -> dict[str, Any]:
    job: dict[str, Any] = {
        "id": name,
        "shapes": _shapes(rng, resources),
        "release_ms": rng.choice([0, 0, 0, 1, 2]) * UNIT_MS,
        "deadline_ms": None,
        "due_ms": None,
        "weight": rng.choice(["1", "1", "2", "0.5", "3"]),
        "after": [],
        "restart_ms": None,
        "started_ms": None,
        "pinned_ms": None,
        "queue": None,
        "team": rng.choice([None, "evals"]),
        "family": None,
    }
    if rng.random() < 0.85:
        shortest = min(shape["duration_ms"] for shape in job["shapes"])
        job["deadline_ms"] = job["release_ms"] + shortest + rng.choice([-1, 0, 0, 1, 1, 1, 2, 2, 3, 4]) * UNIT_MS
    if rng.random() < 0.25:
        job["due_ms"] = rng.randint(2, 5) * UNIT_MS + job["release_ms"]
    special = rng.random()
    if special < 0.1:
        job["restart_ms"] = rng.choice([0, 1]) * UNIT_MS
    elif special < 0.15:
        job["started_ms"] = -rng.randint(0, 1) * UNIT_MS
    elif special < 0.2:
        job["pinned_ms"] = rng.randint(0, 2) * UNIT_MS
    return job


def _shapes(rng: Random, resources: list[str]) -> list[dict[str, Any]]:
    if len(resources) == 1:
        shapes = [_shape(None, {"gpu": rng.randint(1, 3)}, rng.randint(1, 3))]
        if rng.random() < 0.1:
            shapes.append(_shape(None, {"gpu": shapes[0]["demand"]["gpu"] + 1}, rng.randint(1, 3)))
        return shapes
    gpus = rng.randint(1, 3)
    named = resources if rng.random() < 0.5 else [rng.choice(resources)]
    return [_shape(name.removeprefix("gpu/"), {name: gpus}, rng.randint(1, 3)) for name in named]


def _shape(flavor: str | None, demand: dict[str, int], length: int) -> dict[str, Any]:
    return {"flavor": flavor, "demand": demand, "duration_ms": length * UNIT_MS}


def _chain(rng: Random, jobs: list[dict[str, Any]]) -> None:
    if len(jobs) > 2 and rng.random() < 0.25:
        first, second = sorted(rng.sample(range(len(jobs)), 2))
        jobs[second]["after"] = [jobs[first]["id"]]
