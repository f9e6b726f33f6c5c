"""What happens to a plan in force: jobs come, end, take longer or go, and capacity changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from gpuyield.model.job import Capacity, PlanJob


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrived:
    """A new job; it may wait for jobs that are there already."""

    job: PlanJob


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """A job has ended, early or not."""

    job: str
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Prolonged:
    """A running job takes longer: it is now expected to end at an instant."""

    job: str
    end_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancelled:
    """A job is no longer wanted; who waits for it no longer does."""

    job: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityChanged:
    """From now on this is what exists; it names the same resources as before."""

    capacity: Capacity


Event: TypeAlias = Arrived | Finished | Prolonged | Cancelled | CapacityChanged
