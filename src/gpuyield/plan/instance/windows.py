"""Heads and tails: the earliest start and the latest end that a job's own times and its neighbours leave it.

head: release (not before the origin), raised by each predecessor's head + shortest usable duration.
tail: deadline, lowered by each successor's tail - shortest usable duration; None where nothing binds.
A started or pinned job has its fixed start as head.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpuyield.plan.instance.board import Board, Mode, Steps, Task, holds
from gpuyield.plan.instance.profile import NEVER, most_between


@dataclass(frozen=True, slots=True)
class Windows:
    """Per task: head, tail, the modes that the capacity holds at some instant, and those that also fit between.

    `stuck` are tasks that can never run: held by nothing, fixed before their chain ends, or behind such a one.
    """

    heads: tuple[int, ...]
    tails: tuple[int | None, ...]
    held: tuple[tuple[Mode, ...], ...]
    modes: tuple[tuple[Mode, ...], ...]
    stuck: frozenset[int]

    def latest_start(self, task: int, mode: Mode) -> int | None:
        """The latest start of a task in this mode; None where nothing binds."""
        tail = self.tails[task]
        return None if tail is None else tail - mode.duration_ms


def windows_of(board: Board, steps: Sequence[Steps], deadlines: Mapping[int, int | None] | None = None) -> Windows:
    """Heads and tails on this capacity; `deadlines` replaces the tasks' own where it names them."""
    most = [most_between(one, 0, NEVER) for one in steps]
    held = [tuple(mode for mode in task.modes if holds(most, mode)) for task in board.tasks]
    shortest = [min((mode.duration_ms for mode in modes), default=0) for modes in held]
    heads = [0] * len(board.tasks)
    stuck: set[int] = set()
    for at in board.topological:
        task = board.tasks[at]
        own = task.release_ms if task.fixed_ms is None else task.fixed_ms
        heads[at] = max([own, *(heads[one] + shortest[one] for one in task.before if held[one])])
        late = task.fixed_ms is not None and heads[at] > task.fixed_ms
        if late or not held[at] or any(one in stuck for one in task.before):
            stuck.add(at)
    tails: list[int | None] = [None] * len(board.tasks)
    for at in reversed(board.topological):
        task = board.tasks[at]
        own_end = _deadline(task, deadlines)
        bounds = [tail - shortest[one] for one in task.after if (tail := tails[one]) is not None]
        bounds.extend(fixed for one in task.after if (fixed := board.tasks[one].fixed_ms) is not None)
        if own_end is not None:
            bounds.append(own_end)
        tails[at] = min(bounds, default=None)
    modes = tuple(
        tuple(mode for mode in held[at] if _fits(heads[at], tails[at], mode)) for at in range(len(board.tasks))
    )
    return Windows(heads=tuple(heads), tails=tuple(tails), held=tuple(held), modes=modes, stuck=frozenset(stuck))


def _deadline(task: Task, deadlines: Mapping[int, int | None] | None) -> int | None:
    if deadlines is not None and task.index in deadlines:
        return deadlines[task.index]
    return task.deadline_ms


def _fits(head: int, tail: int | None, mode: Mode) -> bool:
    return tail is None or head + mode.duration_ms <= tail
