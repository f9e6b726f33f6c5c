"""Put the pods that were asked for on nodes, as a plain scheduler would: first come, whatever fits goes.

The smallest hole that is wide enough is taken. Nothing is moved or preempted.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from gpuyield.demo.cluster import Node, Pod
from gpuyield.demo.story import Ask, Dice
from gpuyield.units import SECOND_MS, Window


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """A pod as it went, and what was asked."""

    ask: Ask
    pod: Pod


@dataclass(slots=True)
class _Cards:
    node: Node
    free: list[str]

    def open_at(self, at_ms: int) -> bool:
        closed = (*self.node.cordoned, *self.node.not_ready)
        return not any(one.from_ms <= at_ms < one.to_ms for one in closed)


def place(asks: Iterable[Ask], nodes: Sequence[Node], dice: Dice, until_ms: int) -> list[Placed]:
    """What became of each ask by `until_ms`, in the order they were created."""
    return _Scheduler(nodes, dice, until_ms).run(asks)


class _Scheduler:
    def __init__(self, nodes: Sequence[Node], dice: Dice, until_ms: int) -> None:
        self._cards = [_Cards(node, list(node.cards)) for node in nodes]
        self._dice = dice
        self._until_ms = until_ms
        self._pending: list[Ask] = []
        self._placed: list[Placed] = []
        self._events: list[tuple[int, int, Ask | Pod | None]] = []
        self._next = 0

    def run(self, asks: Iterable[Ask]) -> list[Placed]:
        for ask in asks:
            self._at(ask.arrive_ms, ask)
        for cards in self._cards:
            for closed in (*cards.node.cordoned, *cards.node.not_ready):
                self._at(closed.to_ms, None)
        while self._events:
            at_ms = self._events[0][0]
            if at_ms >= self._until_ms:
                break
            while self._events and self._events[0][0] == at_ms:
                self._happen(heapq.heappop(self._events)[2])
            self._schedule(at_ms)
        for ask in self._pending:
            self._give_up(ask)
        return sorted(self._placed, key=lambda one: (one.pod.created_ms, one.pod.namespace, one.pod.name))

    def _at(self, at_ms: int, what: Ask | Pod | None) -> None:
        heapq.heappush(self._events, (at_ms, self._next, what))
        self._next += 1

    def _happen(self, what: Ask | Pod | None) -> None:
        match what:
            case Ask():
                self._pending.append(what)
            case Pod():
                cards = next(one for one in self._cards if one.node.name == what.node)
                cards.free = [card for card in cards.node.cards if card in {*cards.free, *what.cards}]
            case None:
                pass

    def _schedule(self, at_ms: int) -> None:
        waiting, self._pending = self._pending, []
        for ask in waiting:
            if ask.cancel_ms is not None and ask.cancel_ms <= at_ms:
                self._give_up(ask)
                continue
            home = self._home(ask, at_ms)
            if home is None:
                self._pending.append(ask)
            else:
                self._bind(ask, home, at_ms)

    def _home(self, ask: Ask, at_ms: int) -> _Cards | None:
        fitting = [
            one
            for one in self._cards
            if len(one.free) >= ask.gpus and one.open_at(at_ms) and ask.flavor in (None, one.node.flavor)
        ]
        return min(fitting, key=lambda one: (len(one.free), one.node.name), default=None)

    def _bind(self, ask: Ask, home: _Cards, at_ms: int) -> None:
        die = self._dice.of(f"bind/{ask.namespace}/{ask.name}")
        scheduled_ms = min(at_ms + self._dice.span(die, 0, SECOND_MS), self._until_ms - 1)
        cards, home.free = tuple(home.free[: ask.gpus]), home.free[ask.gpus :]
        running_ms = scheduled_ms + ask.pull_ms if ask.starts else None
        ended_ms = None if ask.run_ms is None else (running_ms or scheduled_ms) + ask.run_ms
        pod = replace(
            _new_pod(ask, self._dice),
            node=home.node.name,
            cards=cards,
            scheduled_ms=scheduled_ms,
            running_ms=running_ms,
            restarts_ms=tuple((running_ms or 0) + after for after in ask.restart_after_ms),
            ended_ms=ended_ms,
            end_phase=ask.end_phase if ended_ms is not None else "",
            deleted_ms=None if ended_ms is None else ended_ms + (ask.linger_ms if ask.end_phase else 0),
        )
        self._placed.append(Placed(ask=ask, pod=_cut(pod, self._until_ms)))
        if ended_ms is not None:
            self._at(ended_ms, pod)
            if ask.then is not None:
                next_ms = max(ended_ms, ask.then.arrive_ms)
                self._at(next_ms, replace(ask.then, arrive_ms=next_ms))

    def _give_up(self, ask: Ask) -> None:
        pod = replace(_new_pod(ask, self._dice), ended_ms=ask.cancel_ms, deleted_ms=ask.cancel_ms)
        self._placed.append(Placed(ask=ask, pod=_cut(pod, self._until_ms)))


def _new_pod(ask: Ask, dice: Dice) -> Pod:
    die = dice.of(f"uid/{ask.namespace}/{ask.name}/{ask.arrive_ms}")
    digits = f"{die.getrandbits(128):032x}"
    return Pod(
        namespace=ask.namespace,
        name=ask.name,
        uid="-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:])),
        labels=ask.labels,
        owner_kind=ask.owner_kind,
        owner=ask.owner,
        gpus=ask.gpus,
        created_ms=ask.arrive_ms,
        waiting_reason="" if ask.starts else "ImagePullBackOff",
    )


def _cut(pod: Pod, until_ms: int) -> Pod:
    """Forget what lies beyond the end of the scenario."""

    def known(at_ms: int | None) -> int | None:
        return at_ms if at_ms is not None and at_ms < until_ms else None

    ended = known(pod.ended_ms)
    return replace(
        pod,
        running_ms=known(pod.running_ms),
        restarts_ms=tuple(at for at in pod.restarts_ms if at < until_ms),
        ended_ms=ended,
        end_phase=pod.end_phase if ended is not None else "",
        deleted_ms=known(pod.deleted_ms),
    )


def free_spans(node: Node, pods: Iterable[Pod], window: Window) -> dict[str, list[Window]]:
    """When each card of a node is held by nobody."""
    spans: dict[str, list[Window]] = {}
    held: dict[str, list[tuple[int, int]]] = {card: [] for card in node.cards}
    for pod in pods:
        for card in pod.cards:
            if card in held and pod.scheduled_ms is not None:
                held[card].append((pod.scheduled_ms, pod.ended_ms if pod.ended_ms is not None else window.to_ms))
    for card, taken in held.items():
        at_ms = window.from_ms
        spans[card] = []
        for low, high in sorted(taken):
            if low > at_ms:
                spans[card].append(Window(at_ms, min(low, window.to_ms)))
            at_ms = max(at_ms, high)
        if at_ms < window.to_ms:
            spans[card].append(Window(at_ms, window.to_ms))
    return spans
