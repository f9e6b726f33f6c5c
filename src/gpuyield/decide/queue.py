"""Why work waited: each waiting GPU-millisecond goes to the first cause that applies. No I/O here.

A sweep over all changes of waits, free and idle-held GPUs. At each instant the waiting pods are gone through in the
order in which they came, and a GPU that would have served one of them serves no other, so idle GPUs never explain
more waiting than they could have ended.
"""

from __future__ import annotations

from bisect import insort
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any  # a JSON document

from gpuyield.errors import DeclarationError
from gpuyield.model.document import gaps_document, schema_name, window_document
from gpuyield.model.evidence import Gap
from gpuyield.model.queue import Cause, Promise, Queue, QueueRow, Supply, TooWide, Wait
from gpuyield.units import Window, merge_windows

DIMENSIONS = ("team", "queue", "family", "workload", "flavor")


def explain_queue(
    waits: Iterable[Wait],
    supplies: Iterable[Supply],
    window: Window,
    *,
    on_time: Collection[str] | None,
    by: Sequence[str] = (),
    blind: Iterable[Window] = (),
) -> Queue:
    """Waiting GPU time of a window by cause, and by key.

    `on_time` are the jobs that our plan runs in time on the same GPUs (None: there is no such plan). `blind` is time
    in which nobody knows what was free.

    Raises:
        DeclarationError: `by` names what a wait does not have.
    """
    for dimension in by:
        if dimension not in DIMENSIONS:
            raise DeclarationError(
                f'"{dimension}" is nothing to split waiting by.', where="--by", fix=f"Use {', '.join(DIMENSIONS)}."
            )
    cut = [(one, here) for one in waits if (here := one.window.cut(window)) and one.gpus]
    sums: dict[tuple[str | None, ...], dict[Cause, int]] = defaultdict(lambda: dict.fromkeys(Cause, 0))
    open_waits: list[_Open] = []
    for at, (one, here) in enumerate(cut):
        settled = _SETTLED.get(one.promise)
        if settled:
            sums[_key(one, by)][settled] += one.gpus * here.length_ms
        else:
            open_waits.append(_Open(since_ms=one.window.from_ms, at=at, wait=one, window=here))
    free_ms = idle_ms = unplanned_ms = 0
    for moment in _moments(open_waits, supplies, merge_windows(blind)):
        length = moment.window.length_ms
        for one, place in moment.places():
            cause = _cause(one, place, on_time)
            sums[_key(one, by)][cause] += one.gpus * length
            unplanned_ms += one.gpus * length if one.promise is Promise.MISSED and on_time is None else 0
        free_ms += moment.free * length
        idle_ms += moment.idle * length
    rows = tuple(
        QueueRow(key=dict(zip(by, key, strict=True)), causes=found)
        for key, found in sorted(sums.items(), key=lambda one: tuple((part is None, part or "") for part in one[0]))
    )
    total = {cause: sum(row.causes[cause] for row in rows) for cause in Cause}
    return Queue(
        window=window,
        by=tuple(by),
        total=QueueRow(key={}, causes=total),
        rows=rows if by else (),
        free_gpu_ms=free_ms,
        idle_gpu_ms=idle_ms,
        gaps=_gaps(window, unplanned_ms),
        too_wide=_too_wide(one for one, _ in cut),
    )


def queue_document(queue: Queue) -> dict[str, Any]:
    """The document of a queue (contracts, section 4)."""
    return {
        "schema": schema_name("queue"),
        "window": window_document(queue.window),
        "by": list(queue.by),
        "waiting_gpu_ms": queue.total.gpu_ms,
        "causes": _causes(queue.total),
        "rows": [{"key": dict(row.key), "waiting_gpu_ms": row.gpu_ms, "causes": _causes(row)} for row in queue.rows],
        "meanwhile": {"free_gpu_ms": queue.free_gpu_ms, "idle_held_gpu_ms": queue.idle_gpu_ms},
        "too_wide": [{"job": one.job, "gpus": one.gpus, "widest_node": one.widest_node} for one in queue.too_wide],
        "gaps": gaps_document(queue.gaps),
    }


_SETTLED = {Promise.KEPT: Cause.NOT_DUE_YET, Promise.IMPOSSIBLE: Cause.IMPOSSIBLE}


@dataclass(frozen=True, slots=True, order=True)
class _Open:
    """A wait whose cause depends on what was free; in the order in which waits came."""

    since_ms: int
    at: int
    wait: Wait = field(compare=False)
    window: Window = field(compare=False)


@dataclass(frozen=True, slots=True)
class _Place:
    """What a waiting pod would have found."""

    fits_free: bool = False
    is_fragmented: bool = False
    fits_idle: bool = False
    is_blind: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Moment:
    """A stretch in which nothing changes: who waits, and `(flavor, free, idle)` of the nodes that have any."""

    window: Window
    waiting: Sequence[Wait]
    nodes: Sequence[tuple[str | None, int, int]]
    is_blind: bool

    @property
    def free(self) -> int:
        """GPUs that stood free."""
        return sum(free for _, free, _ in self.nodes)

    @property
    def idle(self) -> int:
        """GPUs that were held idle."""
        return sum(idle for _, _, idle in self.nodes)

    def places(self) -> Iterator[tuple[Wait, _Place]]:
        """What each would have found, first come first served."""
        left = [[flavor, free, idle] for flavor, free, idle in self.nodes]
        unplaced: dict[tuple[int, tuple[str, ...]], _Place] = {}
        for one in self.waiting:
            kind = (one.gpus, one.flavors)
            place = _Place(is_blind=True) if self.is_blind else unplaced.get(kind) or _place(one, left)
            if place.fits_free or place.fits_idle:
                unplaced.clear()
            else:
                # Until somebody takes GPUs, the next of the same kind finds the same.
                unplaced[kind] = place
            yield one, place


def _place(wait: Wait, left: list[list[Any]]) -> _Place:
    """Where a pod would have gone: to the node it fills best. What it takes is taken out of `left`."""
    room = reclaimed = None
    together = 0
    for node in left:
        flavor, free, idle = node
        if wait.flavors and flavor not in wait.flavors:
            continue
        together += free
        if free >= wait.gpus:
            room = node if room is None or free < room[1] else room
        elif free + idle >= wait.gpus and (reclaimed is None or free + idle < reclaimed[1] + reclaimed[2]):
            reclaimed = node
    if room is not None:
        room[1] -= wait.gpus
        return _Place(fits_free=True)
    if together >= wait.gpus:
        return _Place(is_fragmented=True)
    if reclaimed is None:
        return _Place()
    reclaimed[2] -= wait.gpus - reclaimed[1]
    reclaimed[1] = 0
    return _Place(fits_idle=True)


def _cause(wait: Wait, place: _Place, on_time: Collection[str] | None) -> Cause:
    if place.is_fragmented:
        return Cause.FRAGMENTED
    if place.fits_idle:
        return Cause.HELD_IDLE
    if wait.promise is Promise.NONE:
        return Cause.UNDECLARED
    if on_time is not None and wait.job in on_time:
        return Cause.ORDER
    # GPUs were there, or nobody knows: then a lack of GPUs is not what the evidence says.
    if place.fits_free or place.is_blind or on_time is None:
        return Cause.UNEXPLAINED
    return Cause.CAPACITY


def _moments(waits: Sequence[_Open], supplies: Iterable[Supply], blind: Sequence[Window]) -> Iterator[_Moment]:
    changes: dict[int, list[tuple[str, str | None, int, int]]] = defaultdict(list)
    for supply in supplies:
        for from_ms, free, idle in supply.steps:
            changes[from_ms].append((supply.node, supply.flavor, free, idle))
    coming: dict[int, list[_Open]] = defaultdict(list)
    going: dict[int, list[_Open]] = defaultdict(list)
    for one in waits:
        coming[one.window.from_ms].append(one)
        going[one.window.to_ms].append(one)
    shades = {edge for one in blind for edge in (one.from_ms, one.to_ms)}
    edges = sorted({*changes, *coming, *going, *shades})
    waiting: list[_Open] = []
    nodes: dict[str, tuple[str | None, int, int]] = {}
    names: list[str] = []
    for low, high in pairwise(edges):
        for node, flavor, free, idle in changes.get(low, ()):
            if nodes.pop(node, None) is not None:
                names.remove(node)
            if free or idle:
                nodes[node] = (flavor, free, idle)
                insort(names, node)
        for one in going.get(low, ()):
            waiting.remove(one)
        for one in coming.get(low, ()):
            insort(waiting, one)
        if waiting:
            yield _Moment(
                window=Window(low, high),
                waiting=[one.wait for one in waiting],
                nodes=[nodes[name] for name in names],
                is_blind=any(one.from_ms <= low < one.to_ms for one in blind),
            )


def _key(wait: Wait, by: Sequence[str]) -> tuple[str | None, ...]:
    values = {
        "team": wait.team,
        "queue": wait.queue,
        "family": wait.family,
        "workload": wait.workload,
        "flavor": ",".join(wait.flavors) or None,
    }
    return tuple(values[dimension] for dimension in by)


def _causes(row: QueueRow) -> list[dict[str, Any]]:
    return [{"cause": str(cause), "gpu_ms": row.causes[cause]} for cause in Cause]


def _too_wide(waits: Iterable[Wait]) -> tuple[TooWide, ...]:
    found = {
        TooWide(job=one.job, gpus=one.gpus, widest_node=one.widest_node) for one in waits if one.widest_node is not None
    }
    return tuple(sorted(found))


def _gaps(window: Window, unplanned_ms: int) -> tuple[Gap, ...]:
    if not unplanned_ms:
        return ()
    reason = (
        "There is no plan of the jobs that missed their deadline, so nobody can say whether order or capacity lacked."
    )
    return (Gap(reason=reason, where="queue", window=window, gpu_ms=unplanned_ms),)
