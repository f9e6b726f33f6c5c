"""What a service was measured to sustain: evidence with an age, which ends."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum


class Provenance(StrEnum):
    """Where a curve comes from."""

    HERE = "here"
    ELSEWHERE = "elsewhere"
    MODELLED = "modelled"


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvePoint:
    """A steady probe: of each objective the share that kept it, with its bounds."""

    rate_rps: Decimal
    status: str
    kept: tuple[tuple[str, Decimal, Decimal, Decimal], ...]
    """Name of the objective, share, lower and upper bound."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceCapacity:
    """One measurement. `certified_rps` is of all `replicas` together (None: how many there were is not known)."""

    service: str
    started_ms: int
    expires_ms: int | None
    model: str
    config_digest: str
    provenance: Provenance
    level: str
    confidence: Decimal
    certified_rps: Decimal | None
    refuted_rps: Decimal | None
    estimate_rps: Decimal | None
    limited_by: str | None
    replicas: int | None
    gpus_per_replica: int | None
    objectives: str
    """Canonical JSON of what had to be kept."""
    curve: tuple[CurvePoint, ...]
    inputs_digest: str

    def is_expired(self, now_ms: int) -> bool:
        """Whether it is too old to rest anything on."""
        return self.expires_ms is not None and self.expires_ms <= now_ms

    @property
    def certified_rps_per_replica(self) -> Decimal | None:
        """What one replica sustains; None where that does not follow."""
        if self.certified_rps is None or not self.replicas:
            return None
        return self.certified_rps / self.replicas
