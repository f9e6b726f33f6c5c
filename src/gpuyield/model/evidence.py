"""How sure a figure is, and what is missing."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from gpuyield.units import Window


class Evidence(StrEnum):
    """How sure a cell is: read, between two bounds, or not known at all."""

    MEASURED = "measured"
    BOUNDED = "bounded"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """Something that is not known: why, where, when, and how much GPU time it concerns (None: not known)."""

    reason: str
    where: str
    window: Window | None = None
    gpu_ms: int | None = None
