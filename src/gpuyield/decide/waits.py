"""Waits and supplies of the queue, out of what the accounting found."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gpuyield.account import Accounting
from gpuyield.model.gpu import DeviceKind, device_kind
from gpuyield.model.queue import Promise, Supply, Wait
from gpuyield.units import Window


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFacts:
    """What is known of a job that waited; None: not known. `due_ms` is its deadline, else its due time."""

    due_ms: int | None = None
    created_ms: int | None = None
    finished_ms: int | None = None
    shortest_ms: int | None = None
    queue: str | None = None
    family: str | None = None
    flavors: tuple[str, ...] = ()


FactsOf = Callable[[str, str], JobFacts | None]


def promise_of(facts: JobFacts | None, now_ms: int) -> Promise:
    """Whether a job's deadline is kept, missed, out of reach, or not known.

    Of a job that has not finished, a deadline ahead counts as kept while its shortest run still fits before it.
    """
    if facts is None or facts.due_ms is None:
        return Promise.NONE
    shortest = facts.shortest_ms or 0
    if facts.created_ms is not None and facts.created_ms + shortest > facts.due_ms:
        return Promise.IMPOSSIBLE
    if facts.finished_ms is not None:
        return Promise.KEPT if facts.finished_ms <= facts.due_ms else Promise.MISSED
    return Promise.KEPT if now_ms + shortest <= facts.due_ms else Promise.MISSED


def waits_of(accounting: Accounting, facts_of: FactsOf, now_ms: int, *, declared_width: int = 0) -> tuple[Wait, ...]:
    """One wait per pod that asked for whole GPUs; `facts_of(namespace, job)` tells of its job.

    A pod runs on one node: one that asks for more than any node has can never start, whatever its deadline.
    `declared_width` is the widest node that is declared and that nothing reports.
    """
    widest = max(declared_width, widest_node(accounting))
    found = []
    for one in accounting.pods.waiting:
        if device_kind(one.resource) is not DeviceKind.WHOLE or not one.devices:
            continue
        job = one.job or one.owner.workload
        facts = facts_of(one.owner.namespace, job)
        is_too_wide = 0 < widest < one.devices
        found.append(
            Wait(
                job=f"{one.owner.namespace}/{job}",
                gpus=one.devices,
                window=Window(one.from_ms, one.to_ms),
                promise=Promise.IMPOSSIBLE if is_too_wide else promise_of(facts, now_ms),
                team=one.owner.team,
                queue=facts.queue if facts else None,
                workload=one.owner.workload,
                family=facts.family if facts else None,
                flavors=facts.flavors if facts else (),
                widest_node=widest if is_too_wide else None,
            )
        )
    return tuple(found)


def widest_node(accounting: Accounting) -> int:
    """The most whole GPUs that a node ever offered one pod; 0 where no node was seen."""
    return max(
        (
            state.cards * (state.replicas or 1) * (state.slices // state.single_slices if state.single_slices else 1)
            for states in accounting.nodes.states.values()
            for state in states
        ),
        default=0,
    )


def supplies_of(accounting: Accounting) -> tuple[Supply, ...]:
    """Free and idle-held whole GPUs of each node over time."""
    idle: dict[str, list[Window]] = defaultdict(list)
    for one in accounting.idle:
        idle[one.track.holding.node].append(one.window)
    return tuple(
        Supply(
            node=node,
            flavor=_flavor(accounting, node),
            steps=_steps(accounting, node, idle.get(node, [])),
        )
        for node in sorted({*accounting.free, *idle})
    )


def blind_windows(accounting: Accounting) -> tuple[Window, ...]:
    """Time of the window in which kube-state-metrics did not answer."""
    gaps = []
    at_ms = accounting.window.from_ms
    for one in sorted(accounting.observed):
        if one.from_ms > at_ms:
            gaps.append(Window(at_ms, min(one.from_ms, accounting.window.to_ms)))
        at_ms = max(at_ms, one.to_ms)
        if at_ms >= accounting.window.to_ms:
            return tuple(gaps)
    return (*gaps, Window(at_ms, accounting.window.to_ms))


def _flavor(accounting: Accounting, node: str) -> str | None:
    state = accounting.nodes.at(node, accounting.window.to_ms - 1) or accounting.nodes.at(
        node, accounting.window.from_ms
    )
    return state.flavor if state else None


def _steps(accounting: Accounting, node: str, idle: list[Window]) -> tuple[tuple[int, int, int], ...]:
    free = accounting.free.get(node)
    edges = {edge for one in idle for edge in (one.from_ms, one.to_ms)}
    if free is not None:
        edges |= set(free.from_ms.tolist())
    at_ms = np.asarray(sorted(edges), dtype=np.int64)
    amounts = free.at(at_ms) if free is not None else np.zeros(len(at_ms), dtype=np.int64)
    held = [sum(one.from_ms <= at < one.to_ms for one in idle) for at in at_ms.tolist()]
    return tuple(zip(at_ms.tolist(), amounts.tolist(), held, strict=True))
