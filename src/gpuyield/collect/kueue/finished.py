"""Finished Workloads in the ledger: written whenever they are seen, read for how long work runs.

Kueue may delete a Workload soon after it has finished; the ledger keeps what it was.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any  # Rows of a SQL engine have no narrower type.

from gpuyield.collect.kueue.remembered import MISSING, number, recalled, remember
from gpuyield.ledger import Ledger
from gpuyield.ledger.tables import WORKLOADS
from gpuyield.model.kueue import ClusterSnapshot, Work, WorkState

_SAID = {True: "yes", False: "no", None: ""}


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """A Workload that has finished; None is not known."""

    uid: str
    namespace: str
    name: str
    kind: str
    owner: str
    queue: str
    cluster_queue: str
    flavors: tuple[str, ...]
    gpus: int
    created_ms: int
    reserved_ms: int | None
    admitted_ms: int | None
    finished_ms: int
    run_ms: int | None
    succeeded: bool | None
    evictions: int


def finished_work(seen: ClusterSnapshot) -> tuple[Finished, ...]:
    """The Workloads of a snapshot that have finished."""
    return tuple(
        _finished(one, one.finished_ms)
        for one in seen.work
        if one.state is WorkState.FINISHED and one.finished_ms is not None
    )


def write_finished(ledger: Ledger, found: Iterable[Finished]) -> None:
    """Add them to the days on which they finished; the same ones again change nothing.

    Raises:
        SourceError: No room, no rights, or a damaged ledger.
    """
    remember(ledger, WORKLOADS, ((one.finished_ms, _row(one)) for one in found))


def read_finished(ledger: Ledger) -> tuple[Finished, ...]:
    """All that are remembered, in the order in which they finished.

    Raises:
        SourceError: The ledger is damaged, or cannot be read.
    """
    return tuple(_read(row) for row in recalled(ledger, WORKLOADS))


def _finished(one: Work, finished_ms: int) -> Finished:
    return Finished(
        uid=one.uid,
        namespace=one.namespace,
        name=one.name,
        kind=one.kind,
        owner=one.owner,
        queue=one.queue,
        cluster_queue=one.cluster_queue or "",
        flavors=one.ran_on,
        gpus=one.gpus,
        created_ms=one.created_ms,
        reserved_ms=one.reserved_ms,
        admitted_ms=one.admitted_ms,
        finished_ms=finished_ms,
        run_ms=one.run_ms,
        succeeded=one.succeeded,
        evictions=one.evictions,
    )


def _row(one: Finished) -> dict[str, object]:
    row = {name: getattr(one, name) for name in WORKLOADS.columns}
    row |= {"flavors": ",".join(one.flavors), "succeeded": _SAID[one.succeeded]}
    return {name: MISSING if value is None else value for name, value in row.items()}


def _read(row: dict[str, Any]) -> Finished:
    return Finished(
        **{name: str(row[name]) for name in ("uid", "namespace", "name", "kind", "owner", "queue", "cluster_queue")},
        flavors=tuple(one for one in str(row["flavors"]).split(",") if one),
        gpus=int(row["gpus"]),
        created_ms=int(row["created_ms"]),
        reserved_ms=number(row["reserved_ms"]),
        admitted_ms=number(row["admitted_ms"]),
        finished_ms=int(row["finished_ms"]),
        run_ms=number(row["run_ms"]),
        succeeded={"yes": True, "no": False}.get(str(row["succeeded"])),
        evictions=int(row["evictions"]),
    )
