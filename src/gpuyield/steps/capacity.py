"""Measured capacity in the ledger: written when a search ends, read by whatever rests on it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any  # Documents are JSON, rows of a SQL engine have no narrower type.

import numpy.typing as npt

from gpuyield.ledger import Columns, Ledger
from gpuyield.ledger.tables import CAPACITY
from gpuyield.model.document import canonical_bytes
from gpuyield.model.service_capacity import CurvePoint, Provenance, ServiceCapacity
from gpuyield.units import day_name, parse_instant

_MISSING = -1


def capacity_of(document: Mapping[str, Any], inputs: Mapping[str, Any]) -> ServiceCapacity:
    """What a measure document is as evidence; `inputs` are its canonical inputs."""
    result, config = document["result"], document["config"]
    expires = result["expires_at"]
    return ServiceCapacity(
        service=str(document["service"]),
        started_ms=parse_instant(document["started_at"]),
        expires_ms=None if expires is None else parse_instant(expires),
        model=str(config.get("model") or ""),
        config_digest=str(config.get("digest") or ""),
        provenance=Provenance.HERE,
        level=str(document["level"]),
        confidence=_exact(result["confidence"]) or Decimal(0),
        certified_rps=_exact(result["certified_rps"]),
        refuted_rps=_exact(result["refuted_rps"]),
        estimate_rps=_exact(result["estimate_rps"]),
        limited_by=result["limited_by"],
        replicas=result["replicas"],
        gpus_per_replica=result["gpus_per_replica"],
        objectives=canonical_bytes({"objectives": inputs["objectives"]}).decode(),
        curve=tuple(_points(document["probes"])),
        inputs_digest=str(document["inputs_digest"]),
    )


def record_capacity(ledger: Ledger, found: ServiceCapacity) -> None:
    """Add it to the day it was measured; the same one again changes nothing.

    Raises:
        SourceError: No room, no rights, or a damaged ledger.
    """
    row = _row(found)

    def united(old: dict[str, npt.NDArray[Any]]) -> Columns:
        kept = [at for at, digest in enumerate(old["inputs_digest"]) if digest != found.inputs_digest]
        return {name: [*(old[name][at] for at in kept), row[name]] for name in CAPACITY.columns}

    ledger.update_day(CAPACITY, day_name(found.started_ms), united)


def read_capacity(ledger: Ledger) -> tuple[ServiceCapacity, ...]:
    """Every measurement, by service, the newest last.

    Raises:
        SourceError: The ledger is damaged, or cannot be read.
    """
    rows = ledger.read(CAPACITY)
    found = [_capacity({name: rows[name][at] for name in CAPACITY.columns}) for at in range(len(rows["service"]))]
    return tuple(sorted(found, key=lambda one: (one.service, one.started_ms)))


def newest(found: Iterable[ServiceCapacity]) -> dict[str, ServiceCapacity]:
    """The newest measurement of each service."""
    return {one.service: one for one in sorted(found, key=lambda one: one.started_ms)}


def _points(probes: Iterable[Mapping[str, Any]]) -> Iterable[CurvePoint]:
    for probe in probes:
        if probe["phase"] == "ceiling" or probe["status"] == "invalid":
            continue
        kept = tuple(
            (name, _share(one["met"] / one["n"] if one["n"] else 0.0), _share(one["lo"]), _share(one["hi"]))
            for name, one in probe["attainment"].items()
        )
        yield CurvePoint(rate_rps=Decimal(repr(float(probe["rate_rps"]))), status=str(probe["status"]), kept=kept)


def _share(value: float) -> Decimal:
    return round(Decimal(repr(value)), 6)


def _exact(value: float | None) -> Decimal | None:
    return None if value is None else Decimal(repr(value))


def _text(value: Decimal | None) -> str:
    return "" if value is None else format(value, "f")


def _row(found: ServiceCapacity) -> dict[str, str | int]:
    curve = [
        {
            "rate_rps": _text(one.rate_rps),
            "status": one.status,
            "kept": {name: [_text(share), _text(lo), _text(hi)] for name, share, lo, hi in one.kept},
        }
        for one in found.curve
    ]
    return {
        "service": found.service,
        "started_ms": found.started_ms,
        "expires_ms": _MISSING if found.expires_ms is None else found.expires_ms,
        "model": found.model,
        "config_digest": found.config_digest,
        "provenance": str(found.provenance),
        "level": found.level,
        "confidence": _text(found.confidence),
        "certified_rps": _text(found.certified_rps),
        "refuted_rps": _text(found.refuted_rps),
        "estimate_rps": _text(found.estimate_rps),
        "limited_by": found.limited_by or "",
        "replicas": _MISSING if found.replicas is None else found.replicas,
        "gpus_per_replica": _MISSING if found.gpus_per_replica is None else found.gpus_per_replica,
        "objectives": found.objectives,
        "curve": json.dumps(curve, separators=(",", ":")),
        "inputs_digest": found.inputs_digest,
    }


def _capacity(row: Mapping[str, Any]) -> ServiceCapacity:
    curve = tuple(
        CurvePoint(
            rate_rps=Decimal(one["rate_rps"]),
            status=one["status"],
            kept=tuple((name, *map(Decimal, values)) for name, values in one["kept"].items()),
        )
        for one in json.loads(row["curve"])
    )
    return ServiceCapacity(
        service=str(row["service"]),
        started_ms=int(row["started_ms"]),
        expires_ms=_known(row["expires_ms"]),
        model=str(row["model"]),
        config_digest=str(row["config_digest"]),
        provenance=Provenance(row["provenance"]),
        level=str(row["level"]),
        confidence=Decimal(row["confidence"]),
        certified_rps=_rate(row["certified_rps"]),
        refuted_rps=_rate(row["refuted_rps"]),
        estimate_rps=_rate(row["estimate_rps"]),
        limited_by=str(row["limited_by"]) or None,
        replicas=_known(row["replicas"]),
        gpus_per_replica=_known(row["gpus_per_replica"]),
        objectives=str(row["objectives"]),
        curve=curve,
        inputs_digest=str(row["inputs_digest"]),
    )


def _rate(text: str) -> Decimal | None:
    return Decimal(text) if text else None


def _known(value: int) -> int | None:
    return None if int(value) == _MISSING else int(value)
