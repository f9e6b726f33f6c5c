"""An order that follows precedence."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence


def in_order(wanted: Iterable[int], before: Sequence[tuple[int, ...]]) -> list[int]:
    """The wanted order, changed as little as needed so that nothing comes before what it waits for.

    Tasks in a cycle are left out.
    """
    if not any(before):
        return list(wanted)
    rank = {task: at for at, task in enumerate(wanted)}
    waiting = {task: sum(1 for one in before[task] if one in rank) for task in rank}
    followers: dict[int, list[int]] = {}
    for task in rank:
        for one in before[task]:
            followers.setdefault(one, []).append(task)
    ready = [(rank[task], task) for task, count in waiting.items() if not count]
    heapq.heapify(ready)
    ordered: list[int] = []
    while ready:
        _, task = heapq.heappop(ready)
        ordered.append(task)
        for one in followers.get(task, ()):
            waiting[one] -= 1
            if not waiting[one]:
                heapq.heappush(ready, (rank[one], one))
    return ordered
