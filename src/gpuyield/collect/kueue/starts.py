"""Starts in the ledger: what was planned for a job, from the marks on its Workload, beside when it really began."""

from __future__ import annotations

from collections.abc import Iterable

from gpuyield.collect.kueue.remembered import MISSING, number, recalled, remember
from gpuyield.collect.kueue.shapes import instant
from gpuyield.errors import DeclarationError
from gpuyield.ledger import Ledger
from gpuyield.ledger.tables import STARTS
from gpuyield.model.kueue import ClusterSnapshot, Work
from gpuyield.model.marks import FIRST_PLANNED_START, PLAN, PLANNED_START, START_WHY
from gpuyield.model.starts import Started


def started_work(seen: ClusterSnapshot) -> tuple[Started, ...]:
    """The Workloads of planned queues that have begun."""
    ours = {one.name for one in seen.checks if one.controller == PLAN}
    return tuple(
        started(one, one.admitted_ms)
        for one in seen.work
        if one.admitted_ms is not None and (START_WHY in one.marks or any(check.name in ours for check in one.checks))
    )


def write_starts(ledger: Ledger, found: Iterable[Started]) -> None:
    """Add them to the days on which they began; the same ones again change nothing.

    Raises:
        SourceError: No room, no rights, or a damaged ledger.
    """
    remember(ledger, STARTS, ((one.started_ms, _row(one)) for one in found))


def read_starts(ledger: Ledger, *, days: Iterable[str] | None = None) -> tuple[Started, ...]:
    """Those of these days (None: all), in the order in which they began.

    Raises:
        SourceError: The ledger is damaged, or cannot be read.
    """
    return tuple(
        Started(
            **{name: str(row[name]) for name in ("uid", "namespace", "name", "queue", "because")},
            gpus=int(row["gpus"]),
            planned_ms=number(row["planned_ms"]),
            first_ms=number(row["first_ms"]),
            started_ms=int(row["started_ms"]),
        )
        for row in recalled(ledger, STARTS, days=days)
    )


def started(one: Work, started_ms: int) -> Started:
    """What the marks of a Workload that began then say of its start."""
    return Started(
        uid=one.uid,
        namespace=one.namespace,
        name=one.name,
        queue=one.cluster_queue or "",
        gpus=one.gpus,
        planned_ms=_time(one, PLANNED_START),
        first_ms=_time(one, FIRST_PLANNED_START),
        started_ms=started_ms,
        because=one.marks.get(START_WHY, ""),
    )


def _time(one: Work, mark: str) -> int | None:
    """When a mark says; None where there is none, or somebody wrote something else into it."""
    try:
        return instant(one.marks.get(mark))
    except DeclarationError:
        return None


def _row(one: Started) -> dict[str, object]:
    found: dict[str, object] = {name: getattr(one, name) for name in STARTS.columns}
    return {name: MISSING if value is None else value for name, value in found.items()}
