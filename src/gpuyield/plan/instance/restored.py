"""The problem that canonical inputs state, to look at it again."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any  # JSON has no narrower type than this.

from gpuyield.model.job import (
    Amounts,
    Capacity,
    PlanJob,
    PlanObjective,
    Problem,
    QueueQuota,
    ResourceQuota,
    Shape,
)

_SAME = ("release_ms", "deadline_ms", "due_ms", "restart_ms", "started_ms", "pinned_ms", "queue", "team", "family")


def problem_of(inputs: Mapping[str, Any]) -> Problem:
    """The problem that these canonical inputs of a plan were written from, without its sources and nodes."""
    return Problem(
        origin_ms=int(inputs["origin_ms"]),
        jobs=tuple(_job(one) for one in inputs["jobs"]),
        capacity=Capacity(steps={name: _steps(steps) for name, steps in inputs["capacity"].items()}),
        objective=PlanObjective(inputs.get("objective", "on-time")),
        resource=inputs.get("resource"),
        quotas=tuple(_quota(one) for one in inputs.get("quotas") or ()),
    )


def _job(one: Mapping[str, Any]) -> PlanJob:
    return PlanJob(
        id=str(one["id"]),
        shapes=tuple(
            Shape(flavor=shape.get("flavor"), demand=dict(shape["demand"]), duration_ms=int(shape["duration_ms"]))
            for shape in one["shapes"]
        ),
        weight=Decimal(one.get("weight", "1")),
        after=tuple(one.get("after") or ()),
        spread_ms=tuple(one.get("spread_ms") or ()),
        **{name: one[name] for name in _SAME if name in one},
    )


def _steps(steps: Any) -> tuple[tuple[int, int], ...]:
    return tuple((int(at), int(amount)) for at, amount in steps)


def _quota(one: Mapping[str, Any]) -> QueueQuota:
    return QueueQuota(
        queue=str(one["queue"]),
        cohort=one["cohort"],
        resources={
            name: ResourceQuota(
                nominal=_amounts(quota["nominal"]) or 0, borrow=_amounts(quota["borrow"]), lend=_amounts(quota["lend"])
            )
            for name, quota in one["resources"].items()
        },
    )


def _amounts(said: Any) -> Amounts | None:
    return said if said is None or isinstance(said, int) else _steps(said)
