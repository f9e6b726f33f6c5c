"""What a scenario's waterfall must be, worked out from its events alone, the slow and obvious way.

Nothing here knows how series are printed, collected or accounted. Each card's time is cut wherever anything changes,
and each piece is put in one class by the contract's order.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from gpuyield.demo.cluster import Exporter, Node, Pod, Scenario
from gpuyield.units import Window

THRESHOLD = 0.05
IDLE_AFTER_MS = 30 * 60_000
HOUR_MS = 3_600_000

Key = tuple[str | None, int]
"""A team (None: nobody) and the start of an hour."""


@dataclass(slots=True)
class Piece:
    """A stretch of a card's time in which nothing changes."""

    low: int
    high: int
    pod: Pod | None
    activity: float
    running: bool
    closed: bool
    ready: bool
    observed: bool
    idle: bool = False


def true_waterfall(scenario: Scenario, *, all_seeing: bool = False) -> dict[Key, Counter[str]]:
    """GPU-ms by class, for each team and hour; classes unavailable, unallocated, bypassed, starting, and so on.

    `all_seeing`: what happened while an exporter was silent counts as if it had been seen. Else such time is
    unobserved.
    """
    sums: dict[Key, Counter[str]] = {}
    cards = [(node, card) for node in scenario.nodes for card in node.cards]
    for home, card in cards:
        for piece in card_pieces(scenario, home, card, all_seeing=all_seeing):
            team = team_of(piece.pod) if piece.pod else None
            for low, high in _by_hour(piece.low, piece.high):
                cell = sums.setdefault((team, low - low % HOUR_MS), Counter())
                for name, gpu_ms in _classes(piece, high - low):
                    cell[name] += gpu_ms
    return sums


def totals(sums: dict[Key, Counter[str]], keep: Iterable[Key] | None = None) -> Counter[str]:
    """All cells together (or some)."""
    added: Counter[str] = Counter()
    for key in sums if keep is None else keep:
        added.update(sums[key])
    return added


def team_of(pod: Pod) -> str:
    """The label, or else the namespace."""
    return pod.labels.get("team", pod.namespace)


def allocated_ms(scenario: Scenario) -> dict[str, int]:
    """Time that each pod holds its cards within the scenario, by uid: a length, not times its cards."""
    held = {}
    for pod in scenario.pods:
        if pod.scheduled_ms is not None and pod.cards:
            low = max(pod.scheduled_ms, scenario.window.from_ms)
            held[pod.uid] = max(0, _end(pod, scenario.window) - low)
    return held


def has_exact_end(scenario: Scenario, uid: str) -> bool:
    """Whether kube-state-metrics prints when this pod ended: a deleted pod takes that with it, a live one has none."""
    return bool(next(pod for pod in scenario.pods if pod.uid == uid).end_phase)


def busy_and_slack_by_workload(scenario: Scenario, *, at_least_ms: int) -> dict[tuple[str, str], tuple[int, float]]:
    """Busy GPU-ms of each workload that ran for so long, and what the edges of its runs and of silences may take.

    A sample may speak for one interval beyond an edge: then what counts there is the activity on its other side.
    """
    busy: Counter[tuple[str, str]] = Counter()
    ran: Counter[tuple[str, str]] = Counter()
    slack: dict[tuple[str, str], float] = defaultdict(float)
    cards = [(node, card) for node in scenario.nodes for card in node.cards]
    for home, card in cards:
        pieces = card_pieces(scenario, home, card)
        for piece in pieces:
            if piece.pod is not None and piece.running:
                length = piece.high - piece.low
                ran[workload_of(scenario, piece.pod)] += length // piece.pod.gpus
                found = dict(_classes(piece, length))
                busy[workload_of(scenario, piece.pod)] += found.get("busy", 0)
        for before, after in pairwise(pieces):
            beside = {workload_of(scenario, one.pod) for one in (before, after) if one.pod is not None and one.running}
            for workload in beside:
                slack[workload] += scenario.scrapes.interval_ms * _unsure(before, after)
    return {one: (gpu_ms, slack[one]) for one, gpu_ms in busy.items() if ran[one] >= at_least_ms and gpu_ms}


def _unsure(before: Piece, after: Piece) -> float:
    """By how much the activity at an edge may be wrong: nothing where a pod runs on and is seen to."""
    if (before.observed and before.ready) != (after.observed and after.ready):
        return max(before.activity, after.activity)
    if before.pod is after.pod and before.running is after.running:
        return 0
    return abs(before.activity - after.activity)


def busy_by_workload(scenario: Scenario) -> Counter[tuple[str, str]]:
    """Busy GPU-ms of each workload that ran, also while exporters were silent."""
    busy: Counter[tuple[str, str]] = Counter()
    for home, card in [(node, card) for node in scenario.nodes for card in node.cards]:
        for piece in card_pieces(scenario, home, card, all_seeing=True):
            if piece.pod is not None:
                found = dict(_classes(piece, piece.high - piece.low))
                busy[workload_of(scenario, piece.pod)] += found.get("busy", 0)
    return busy


def workload_of(scenario: Scenario, pod: Pod) -> tuple[str, str]:
    """The namespace and name of the top owner."""
    if pod.owner_kind == "ReplicaSet":
        return pod.namespace, pod.owner.rpartition("-")[0]
    if pod.owner_kind == "Job":
        job = next(job for job in scenario.jobs if pod.uid in job.uids)
        return pod.namespace, job.cron or job.name
    return pod.namespace, pod.owner


def card_pieces(scenario: Scenario, node: Node, card: str, *, all_seeing: bool = False) -> list[Piece]:
    """A card's time, cut wherever anything changes, with idle spans marked."""
    window = scenario.window
    holders = [pod for pod in scenario.pods if card in pod.cards]
    silent = [
        one.window
        for one in scenario.silences
        if not all_seeing and one.exporter in (None, Exporter.DCGM) and one.node in (None, node.name)
    ]
    steps = scenario.activity[card]
    edges = {window.from_ms, window.to_ms}
    for pod in holders:
        edges |= {at for at in (pod.scheduled_ms, pod.running_ms, _end(pod, window)) if at is not None}
    for span in (*node.cordoned, *node.not_ready, *silent):
        edges |= {span.from_ms, span.to_ms}
    edges |= {at for at, _ in steps}
    inside = sorted(at for at in edges if window.from_ms <= at <= window.to_ms)
    pieces = []
    for low, high in pairwise(inside):
        holder = next((one for one in holders if (one.scheduled_ms or 0) <= low < _end(one, window)), None)
        pieces.append(
            Piece(
                low=low,
                high=high,
                pod=holder,
                activity=[0.0, *(value for at, value in steps if at <= low)][-1],
                running=holder is not None and holder.running_ms is not None and holder.running_ms <= low,
                closed=_in(low, node.cordoned) or _in(low, node.not_ready),
                ready=not _in(low, node.not_ready),
                observed=not _in(low, silent),
            )
        )
    _mark_idle(pieces)
    return pieces


def _mark_idle(pieces: list[Piece]) -> None:
    span: list[Piece] = []
    for piece in [*pieces, None]:
        if piece is not None and _may_be_idle(piece) and (not span or span[-1].pod is piece.pod):
            span.append(piece)
            continue
        if span and span[-1].high - span[0].low >= IDLE_AFTER_MS:
            for one in span:
                one.idle = True
        span = [piece] if piece is not None and _may_be_idle(piece) else []


def _may_be_idle(piece: Piece) -> bool:
    return piece.running and piece.observed and piece.ready and piece.activity < THRESHOLD


def _classes(piece: Piece, length: int) -> Iterator[tuple[str, int]]:
    if piece.pod is None:
        if piece.closed:
            yield "unavailable", length
        else:
            yield ("bypassed" if piece.observed and piece.activity >= THRESHOLD else "unallocated"), length
    elif not piece.ready:
        yield "unobserved", length
    elif not piece.running:
        yield "starting", length
    elif not piece.observed:
        yield "unobserved", length
    elif piece.idle:
        yield "idle_held", length
    else:
        busy = round(length * piece.activity)
        yield "busy", busy
        yield "underused", length - busy


def _end(pod: Pod, window: Window) -> int:
    return window.to_ms if pod.ended_ms is None else pod.ended_ms


def _in(at: int, spans: Iterable[Window]) -> bool:
    return any(span.from_ms <= at < span.to_ms for span in spans)


def _by_hour(low: int, high: int) -> Iterator[tuple[int, int]]:
    while low < high:
        border = min(high, low - low % HOUR_MS + HOUR_MS)
        yield low, border
        low = border
