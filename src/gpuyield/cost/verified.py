"""How many verified outcomes belong to a key of the cost rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from gpuyield.cost.pricing import KeyValues
from gpuyield.model.cells import Owner
from gpuyield.model.cost import Verified
from gpuyield.model.declaration import Declaration
from gpuyield.model.outcome import OutcomeResult, OutcomeStatus
from gpuyield.units import Window

_KNOWN = ("team", "namespace", "family", "workload")


def verified_by_key(
    results: Iterable[OutcomeResult],
    window: Window,
    by: Sequence[str],
    owners: Iterable[Owner],
    declaration: Declaration,
) -> Mapping[KeyValues, Verified] | None:
    """Verified units of outcomes that ended in the window, by key; None where an outcome does not have such a key.

    `hi` counts units that nobody has judged yet as if they were verified.
    """
    if any(dimension not in _KNOWN for dimension in by):
        return None
    known = {(one.namespace, one.workload): one for one in owners}
    units: dict[KeyValues, list[int]] = defaultdict(lambda: [0, 0])
    for one in results:
        if not window.from_ms <= one.ended_ms < window.to_ms:
            continue
        values = _place(one, known, declaration)
        pair = units[tuple(values[dimension] for dimension in by)]
        if one.status is OutcomeStatus.VERIFIED:
            pair[0] += one.units
        elif one.status is OutcomeStatus.UNVERIFIED:
            pair[1] += one.units
    return {key: Verified(units=sure, lo=sure, hi=sure + open_) for key, (sure, open_) in units.items()}


def _place(
    result: OutcomeResult, known: Mapping[tuple[str, str], Owner], declaration: Declaration
) -> dict[str, str | None]:
    service = next((one for one in declaration.services if one.name == result.service), None)
    namespace = result.namespace or (service.selector.namespace if service else None)
    owner = known.get((namespace or "", result.workload))
    team = (owner.team if owner else None) or (service.team if service else None)
    if team is None and namespace:
        team = declaration.teams.team_of(namespace)
    family = owner.family if owner else None
    return {"team": team, "namespace": namespace, "family": family, "workload": result.workload or None}
