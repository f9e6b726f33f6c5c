"""Maximum flow, and the nodes on the source's side of the least cut.

Source: Dinitz (1970): shortest augmenting paths, a whole layer at a time.
"""

from __future__ import annotations

from collections import deque


class Flow:
    """A network of numbered nodes; `source` and `sink` are the first two."""

    source, sink = 0, 1

    def __init__(self, nodes: int) -> None:
        self._edges: list[list[int]] = [[] for _ in range(nodes)]
        self._to: list[int] = []
        self._room: list[int] = []
        self._level: list[int] = []

    def add(self, one: int, other: int, room: int) -> None:
        """An edge that holds so much."""
        for begin, end, amount in ((one, other, room), (other, one, 0)):
            self._edges[begin].append(len(self._to))
            self._to.append(end)
            self._room.append(amount)

    def fill(self) -> int:
        """Send as much as there is a way for; how much that is."""
        total = 0
        while self._is_reached():
            following = [0] * len(self._edges)
            while sent := self._push(following):
                total += sent
        return total

    def reached(self) -> list[bool]:
        """Once filled: whether each node is on the source's side of the least cut."""
        self._is_reached()
        return [level >= 0 for level in self._level]

    def _is_reached(self) -> bool:
        """Whether there is a way to the sink; sets how many edges away from the source each node is, -1: no way."""
        self._level = [-1] * len(self._edges)
        self._level[self.source] = 0
        waiting = deque([self.source])
        while waiting:
            node = waiting.popleft()
            for edge in self._edges[node]:
                other = self._to[edge]
                if self._room[edge] and self._level[other] < 0:
                    self._level[other] = self._level[node] + 1
                    waiting.append(other)
        return self._level[self.sink] >= 0

    def _push(self, following: list[int]) -> int:
        """Along one shortest way, as much as it holds; `following` is the edge to try next at each node."""
        way: list[int] = []
        node = self.source
        while node != self.sink:
            edges = self._edges[node]
            while following[node] < len(edges):
                edge = edges[following[node]]
                if self._room[edge] and self._level[self._to[edge]] == self._level[node] + 1:
                    break
                following[node] += 1
            else:
                if not way:
                    return 0
                node = self._to[way.pop() ^ 1]
                following[node] += 1
                continue
            way.append(edge)
            node = self._to[edge]
        amount = min(self._room[edge] for edge in way)
        for edge in way:
            self._room[edge] -= amount
            self._room[edge ^ 1] += amount
        return amount
