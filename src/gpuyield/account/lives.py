"""The life of a pod: when it waited, was bound, began to run and ended, and how surely that is known.

The edges are the times that kube-state-metrics prints where it prints them, else they are taken from samples. Either
way the true edge lies in a span around it: printed times are whole seconds, cut off; a change that samples show came
after the last scrape that did not show it. A uid is bound once, so its hold has no holes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from gpuyield.account.facts import Fact
from gpuyield.account.nodes import Nodes
from gpuyield.account.pod_facts import PodFacts
from gpuyield.ledger.tables import RunKind
from gpuyield.units import MINUTE_MS, Window, merge_windows

SECOND_MS = 1_000
"""A printed time is the whole second in which it truly was."""

_ACTIVE = ("Pending", "Running", "Unknown")


class Ending(StrEnum):
    """How the end of a hold is known."""

    TIME = "time"
    SAMPLES = "samples"
    OPEN = "open"
    """Not seen to end: it lasts to the end of what was read."""
    SILENCE = "silence"
    """It ended while kube-state-metrics was silent."""


@dataclass(frozen=True, slots=True)
class Edge:
    """An edge of a life; the truth lies within `[at_ms - slack_ms, at_ms + lag_ms]`."""

    at_ms: int
    slack_ms: int = 0
    lag_ms: int = 0


_NO_EDGE = Edge(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """When a pod waited and when it held its devices (None: never), and the edges of its hold.

    `running_ms` None: it was not seen to run. `clock_is_wrong`: it is said to have started before it was bound.
    """

    wait: Window | None
    hold: Window | None
    running_ms: int | None
    bound: Edge = _NO_EDGE
    running: Edge = _NO_EDGE
    end: Edge = _NO_EDGE
    ending: Ending = Ending.TIME
    clock_is_wrong: bool = False


def life_of(known: PodFacts, pod: str, nodes: Nodes, gap_limit_ms: int) -> Life:
    """The life of a pod, as its facts tell it and as `nodes` tell when kube-state-metrics answered at all."""
    active = _active(known, pod)
    seen_ms = min((fact.from_ms for fact in active), default=None)
    created = known.first(RunKind.POD_CREATED, pod)
    wait_from = created if created is not None else seen_ms
    ended = _end(known, pod, active, nodes, gap_limit_ms)
    if ended is None or not known.nodes.get(pod):
        wait = (
            Window(wait_from, ended[0].at_ms)
            if ended and wait_from is not None and wait_from < ended[0].at_ms
            else None
        )
        return Life(wait=wait, hold=None, running_ms=None)
    end, ending = ended
    bound = _bound(known, pod, active, nodes)
    from_ms, to_ms = min(bound.at_ms, end.at_ms), end.at_ms
    running = _running(known, pod, from_ms, to_ms, nodes)
    never = Edge(to_ms, to_ms - _last_pending_ms(known, pod, from_ms, to_ms))
    return Life(
        wait=Window(wait_from, from_ms) if wait_from is not None and wait_from < from_ms else None,
        hold=Window(from_ms, to_ms) if from_ms < to_ms else None,
        running_ms=running.at_ms if running else None,
        bound=bound,
        running=running or never,
        end=end,
        ending=ending,
        clock_is_wrong=_started_too_early(known, pod),
    )


def _bound(known: PodFacts, pod: str, active: Sequence[Fact], nodes: Nodes) -> Edge:
    """When the pod was bound to its node."""
    scheduled = known.first(RunKind.POD_SCHEDULED, pod)
    if scheduled is not None:
        return Edge(scheduled, 0, SECOND_MS)
    placed = [fact for fact in known.requested(pod) if fact.text]
    first = min(placed, key=lambda fact: fact.from_ms)
    seen_ms = min((fact.from_ms for fact in active), default=first.from_ms)
    from_ms = max(first.from_ms, seen_ms)
    # A pod that is there in the very first sample was bound before anything was read.
    unseen = nodes.present and from_ms <= nodes.present[0].from_ms
    earliest_ms = from_ms if unseen else nodes.scrapes.before(from_ms, first.interval_ms)
    earliest_ms = max(earliest_ms, known.first(RunKind.POD_CREATED, pod) or earliest_ms)
    # The kubelet takes a pod after it was bound.
    taken = known.first(RunKind.POD_STARTED, pod)
    if taken is not None:
        return Edge(taken, max(0, taken - earliest_ms), SECOND_MS)
    return Edge(from_ms, max(0, from_ms - earliest_ms))


def _active(known: PodFacts, pod: str) -> list[Fact]:
    """When the pod was alive, in order."""
    found = known.of_phases(pod, *_ACTIVE)
    if not known.phases.get(pod):
        # No phase series at all: a pod that is listed counts as active while it is listed.
        found = known.requested(pod)
    return sorted(found, key=lambda fact: fact.from_ms)


def _end(
    known: PodFacts, pod: str, active: Sequence[Fact], nodes: Nodes, gap_limit_ms: int
) -> tuple[Edge, Ending] | None:
    """When the pod ended, and how that is known; None: nothing tells that it lived."""
    completed = known.last(RunKind.POD_COMPLETED, pod)
    if completed is not None and not _lived_on(known, pod, active):
        return Edge(completed, 0, SECOND_MS), Ending.TIME
    if not active:
        return None
    spans = merge_windows(fact.window for fact in active)
    last = max(active, key=lambda fact: (fact.to_ms, fact.last_ms))
    to_ms = spans[-1].to_ms
    terminated = known.last(RunKind.CONTAINER_TERMINATED, pod)
    if terminated is not None and last.last_ms - gap_limit_ms <= terminated <= to_ms and _is_terminal(known, pod):
        return Edge(terminated, 0, SECOND_MS), Ending.TIME
    # Scrapes half an interval apart count as the same.
    next_ms = last.last_ms + last.interval_ms // 2
    if nodes.sampled and next_ms >= nodes.sampled[-1].to_ms:
        open_ms = max(to_ms, nodes.present[-1].to_ms)
        return Edge(open_ms, open_ms - last.last_ms), Ending.OPEN
    answered = any(window.from_ms <= next_ms < window.to_ms for window in nodes.sampled)
    asked_ms = nodes.scrapes.after(last.last_ms, last.interval_ms) or to_ms
    return (
        Edge(to_ms, to_ms - last.last_ms, max(0, asked_ms - to_ms)),
        Ending.SAMPLES if answered or not nodes.sampled else Ending.SILENCE,
    )


def _lived_on(known: PodFacts, pod: str, active: Sequence[Fact]) -> bool:
    """Whether the pod was alive when its time of completion was printed: one of its containers had ended, not all."""
    has_phases = pod in known.phases
    return has_phases and any(fact.last_ms >= known.completion_shown_ms[pod] for fact in active)


def _started_too_early(known: PodFacts, pod: str) -> bool:
    """Whether a container is said to have started long before its pod was bound."""
    started, scheduled = known.first(RunKind.CONTAINER_STARTED, pod), known.first(RunKind.POD_SCHEDULED, pod)
    return started is not None and scheduled is not None and started < scheduled - MINUTE_MS


def _is_terminal(known: PodFacts, pod: str) -> bool:
    return bool(known.of_phases(pod, "Succeeded", "Failed"))


def _running(known: PodFacts, pod: str, from_ms: int, to_ms: int, nodes: Nodes) -> Edge | None:
    """Since when the pod ran; None: it was never seen to."""
    phases = known.phases.get(pod)
    if not phases:
        return Edge(from_ms)
    candidates = []
    started = known.first(RunKind.CONTAINER_STARTED, pod)
    if started is not None and not _started_too_early(known, pod):
        candidates.append(Edge(max(started, from_ms), 0, SECOND_MS))
    seen = next(iter(known.of_phases(pod, "Running")), None)
    if seen is not None:
        at_ms = max(seen.from_ms, from_ms)
        earlier = [fact.last_ms for line in phases.values() for fact in line.facts if fact.last_ms < seen.from_ms]
        before_ms = max(earlier, default=None)
        if before_ms is None:
            before_ms = nodes.scrapes.before(seen.from_ms, seen.interval_ms)
        candidates.append(Edge(at_ms, max(0, at_ms - max(before_ms, from_ms))))
    if not candidates:
        return None
    found = min(candidates, key=lambda edge: (edge.at_ms, edge.slack_ms))
    return replace(found, at_ms=min(found.at_ms, to_ms))


def _last_pending_ms(known: PodFacts, pod: str, from_ms: int, to_ms: int) -> int:
    """When a pod that was never seen to run was last seen not to."""
    return max([from_ms, *(fact.last_ms for fact in known.of_phases(pod, "Pending") if fact.last_ms < to_ms)])
