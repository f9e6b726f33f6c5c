"""What declared services say of their settings, remembered with each collection: a measurement holds for them only."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any  # rows of a SQL engine have no narrower type

import numpy.typing as npt

from gpuyield.collect.endpoint import endpoint
from gpuyield.errors import DeclarationError
from gpuyield.ledger import Columns, Ledger
from gpuyield.ledger.tables import CONFIGS
from gpuyield.model.declaration import Declaration
from gpuyield.model.service_capacity import ServiceCapacity
from gpuyield.steps.measure_service import look_at
from gpuyield.units import day_name


def remember_configs(declared: Declaration, ledger: Ledger, *, now_ms: int) -> None:
    """Ask every declared endpoint what it is; one that does not answer, or not in whole, is not known.

    Raises:
        SourceError: No room, no rights, or a damaged ledger.
    """
    told: dict[tuple[str, str], dict[str, str | int]] = {}
    for service in declared.services:
        if service.endpoint is None:
            continue
        try:
            where = endpoint(product="the model server", url=service.endpoint, declared_at="services.endpoint")
        except DeclarationError:
            continue
        served = look_at(where)()
        if served.engine is None or not served.models:
            # Without a key some servers tell a part only: that would look like a change.
            continue
        told[service.name, served.digest] = {
            "service": service.name,
            "digest": served.digest,
            "ts_ms": now_ms,
            "engine": served.engine,
        }
    if told:
        ledger.update_day(CONFIGS, day_name(now_ms), partial(_united, told))


def digests_now(ledger: Ledger, capacities: Mapping[str, ServiceCapacity]) -> dict[str, str]:
    """The settings' digest that each service told last, if it was after its measurement; others are not known."""
    if not capacities:
        return {}
    first = day_name(min(one.started_ms for one in capacities.values()))
    rows = ledger.read(CONFIGS, days=[day for day in ledger.days(CONFIGS) if day >= first])
    told = zip(*(rows[name].tolist() for name in ("ts_ms", "digest", "service")), strict=True)
    return {
        name: digest
        for at_ms, digest, name in sorted(told)
        if name in capacities and at_ms > capacities[name].started_ms
    }


def _united(told: Mapping[tuple[str, str], Mapping[str, str | int]], old: dict[str, npt.NDArray[Any]]) -> Columns:
    """One row for each service and digest of a day: the last time that it was told."""
    pairs = zip(old["service"], old["digest"], strict=True)
    kept = [at for at, pair in enumerate(pairs) if pair not in told]
    return {name: [*(old[name][at] for at in kept), *(row[name] for row in told.values())] for name in CONFIGS.columns}
