"""Grow a search tree that proves that no plan meets all hard deadlines; `verify` replays it node by node.

Every branch is closed by an overloaded interval, by gangs too wide for each other, or by a job without a usable
shape. Which split to take next is tried out: the one whose branches come closest to being closed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from gpuyield.plan.instance.board import Board, Steps
from gpuyield.plan.instance.budget import Budget
from gpuyield.plan.instance.frame import FAR, Frame, grid_of
from gpuyield.plan.instance.profile import integral

Node: TypeAlias = dict[str, object]

TRIED_SPLITS = 6
MOST_TASKS = 40
MOST_TIME = 1 << 40
"""Times beyond this are left alone: sums must stay in 64 bits."""


@dataclass(frozen=True, slots=True)
class Look:
    """A frame, how full its fullest interval is (1 = exactly full), and the node that closes it, if one does."""

    frame: Frame
    fullness: float
    closed: Node | None


@dataclass(frozen=True, slots=True)
class Split:
    """A decision and what each of its branches looks like."""

    node: Node
    branches: tuple[Look, ...]

    def merit(self) -> tuple[float, float]:
        """How close its branches are to being closed: the worst first, then all of them."""
        marks = [2.0 if one.closed else one.fullness for one in self.branches]
        return (min(marks), sum(marks) / len(marks))


def search_certificate(
    board: Board, steps: Sequence[Steps], tasks: Sequence[int], nodes: int, budget: Budget
) -> dict[str, object] | None:
    """The replayable tree, of at most so many nodes, that only splits the given tasks; None where it does not close.

    Jobs that may be paused are not reasoned about: with one of them there is no tree.
    """
    grid_ms = grid_of(board, steps)
    root = Frame(board, steps, grid_ms)
    stuck = [at for at in tasks if root.must_run(at) and not root.usable(at)]
    if stuck:
        return {"kind": "search", "branches": [{"closed": "impossible", "id": board.tasks[stuck[0]].job.id}]}
    if len(tasks) > MOST_TASKS or any(board.tasks[at].job.restart_ms is not None for at in tasks):
        return None
    branches = TreeGrower(board, steps, tasks, nodes, budget).grow(root)
    if branches is None:
        return None
    certificate: dict[str, object] = {"kind": "search", "branches": branches}
    if grid_ms > 1:
        certificate["grid_ms"] = grid_ms
    return certificate


class TreeGrower:
    """Grows the tree of one question; splits only the given tasks."""

    def __init__(self, board: Board, steps: Sequence[Steps], tasks: Sequence[int], nodes: int, budget: Budget) -> None:
        self.board, self.steps, self.nodes, self.budget = board, steps, nodes, budget
        self.tasks = [at for at in tasks if board.tasks[at].modes]
        self.changes = sorted({0, *(at for one in steps for at, _ in one if at > 0)})

    def grow(self, root: Frame) -> list[Node] | None:
        """The nodes in depth-first order; None where the tree does not close within its limits."""
        found: list[Node] = []
        waiting = [self.look(root)]
        while waiting:
            look = waiting.pop()
            if len(found) + len(waiting) >= self.nodes or not self.budget.spend(len(self.tasks)):
                return None
            if look.closed:
                found.append(look.closed)
                continue
            split = self.best_split(look)
            if split is None:
                return None
            found.append(split.node)
            waiting.extend(reversed(split.branches))
        return found

    def best_split(self, look: Look) -> Split | None:
        """The most promising split of a frame that is not closed; None where nothing is left to decide."""
        best: Split | None = None
        for node, frames in self._splits(look.frame):
            branches = tuple(self.look(one) for one in frames)
            split = Split(node, branches)
            if best is None or split.merit() > best.merit():
                best = split
            if all(one.closed for one in branches):
                break
        return best

    def _splits(self, frame: Frame) -> list[tuple[Node, list[Frame]]]:
        """The most promising splits of a frame, with the frames of their branches."""
        name = [task.job.id for task in self.board.tasks]
        ranked: list[tuple[tuple[int, int, int], Node, list[object]]] = []
        tasks = [at for at in self.tasks if frame.must_run(at)]
        slack = {at: self._slack(frame, at) for at in tasks}
        for at in tasks:
            usable = frame.usable(at)
            if len(usable) > 1:
                ranked.append(((slack[at], at, -1), {"split": "shape", "id": name[at]}, ["shape", at]))
            elif slack[at] > 0:
                last = frame.latest_start(at, usable[0])
                for middle in self._instants(frame, at, last, usable[0].duration_ms):
                    node: Node = {"split": "start", "id": name[at], "at_ms": middle}
                    ranked.append(((slack[at], at, middle), node, ["start", at, middle]))
        pairs = [(one, other) for place, one in enumerate(tasks) for other in tasks[place + 1 :]]
        for one, other in pairs:
            if frame.leads(one, other) or frame.leads(other, one) or not frame.clash(one, other):
                continue
            node = {"split": "order", "first": name[one], "second": name[other]}
            ranked.append((((slack[one] + slack[other]) // 2, one, other), node, ["order", one, other]))
        ranked.sort(key=lambda entry: entry[0])
        return [(node, self._frames(frame, what)) for _, node, what in ranked[:TRIED_SPLITS]]

    def _instants(self, frame: Frame, at: int, last: int, duration: int) -> list[int]:
        head, grid = frame.heads[at], frame.grid_ms
        middle = head + (last - head + grid) // (2 * grid) * grid
        wishes = [max(head + grid, min(middle, last))]
        compulsory = head + duration // grid * grid
        if head < compulsory <= last and compulsory not in wishes:
            wishes.append(compulsory)
        return wishes

    def _frames(self, frame: Frame, what: list[object]) -> list[Frame]:
        match what:
            case ["shape", int(at)]:
                return [frame.with_mode(at, mode) for mode in frame.usable(at)]
            case ["start", int(at), int(middle)]:
                return [frame.starting_before(at, middle), frame.starting_from(at, middle)]
            case ["order", int(one), int(other)]:
                return [frame.ordered(one, other), frame.ordered(other, one)]
        raise AssertionError(what)

    def _slack(self, frame: Frame, at: int) -> int:
        usable = frame.usable(at)
        return max((frame.latest_start(at, mode) for mode in usable), default=0) - frame.heads[at]

    def look(self, frame: Frame) -> Look:
        """How full a frame is, and the node that closes it, if one does."""
        if frame.dead:
            stuck = [at for at in range(len(self.board.tasks)) if frame.must_run(at) and not frame.usable(at)]
            name = self.board.tasks[stuck[0]].job.id if stuck else self.board.tasks[self.tasks[0]].job.id
            return Look(frame, 2.0, {"closed": "impossible", "id": name})
        fullness = 0.0
        for resource in range(len(self.board.resources)):
            rows = _Rows.of(frame, self.tasks, resource)
            if rows is None:
                continue
            table = rows.forced_time(self.changes)
            full, span = table.fullest(self.steps[resource])
            if full > 1 and span:
                return Look(frame, full, self._closed("interval", resource, span))
            fullness = max(fullness, full)
            wide = self._too_wide(frame, resource, rows, table)
            if wide:
                return Look(frame, 2.0, wide)
        return Look(frame, fullness, None)

    def _closed(self, kind: str, resource: int, span: tuple[int, int]) -> Node:
        return {"closed": kind, "resource": self.board.resources[resource], "from_ms": span[0], "to_ms": span[1]}

    def _too_wide(self, frame: Frame, resource: int, rows: _Rows, table: _Table) -> Node | None:
        """Jobs that each need more than half of the most there is, together longer than the interval."""
        most = frame.most[resource]
        wide = 2 * rows.least > most
        if wide.sum() < 2:
            return None
        full, span = table.only(wide).fullest(((0, 1),))
        if full <= 1 or not span:
            return None
        node = self._closed("wide-gangs", resource, span)
        inside = table.at(span)
        node["jobs"] = sorted(
            self.board.tasks[at].job.id
            for at, is_wide, time in zip(rows.tasks, wide, inside, strict=True)
            if is_wide and time > 0
        )
        return node


@dataclass(frozen=True, slots=True)
class _Rows:
    """Tasks that cannot avoid a resource, a row per usable mode; `starts` is where a task's rows begin."""

    tasks: list[int]
    starts: NDArray[np.int64]
    heads: NDArray[np.int64]
    lasts: NDArray[np.int64]
    durations: NDArray[np.int64]
    demands: NDArray[np.int64]
    least: NDArray[np.int64]

    @staticmethod
    def of(frame: Frame, tasks: Sequence[int], resource: int) -> _Rows | None:
        kept: list[int] = []
        starts: list[int] = []
        least: list[int] = []
        rows: list[tuple[int, int, int, int]] = []
        for at in tasks:
            usable = frame.usable(at)
            if not usable or not frame.must_run(at):
                continue
            amounts = [mode.amount(resource) for mode in usable]
            lasts = [frame.latest_start(at, mode) for mode in usable]
            if not min(amounts) or max(lasts) >= FAR:
                continue
            kept.append(at)
            starts.append(len(rows))
            least.append(min(amounts))
            rows.extend(
                (frame.heads[at], last, mode.duration_ms, amount)
                for mode, amount, last in zip(usable, amounts, lasts, strict=True)
            )
        if not kept:
            return None
        table = np.array(rows, dtype=np.int64)
        if np.abs(table[:, :3]).max() > MOST_TIME or table[:, 3].sum() > 1 << 20:
            return None
        heads, ends, durations, demands = (table[:, at] for at in range(4))
        return _Rows(kept, np.array(starts), heads, ends, durations, demands, np.array(least))

    def forced_time(self, changes: Sequence[int]) -> _Table:
        """Forced GPU time of every task in every interval between instants that matter."""
        points = np.unique(
            np.concatenate(
                [
                    self.heads,
                    self.lasts,
                    self.heads + self.durations,
                    self.lasts + self.durations,
                    np.array(changes, dtype=np.int64),
                ]
            )
        )
        points = points[points >= 0]
        early = self._shared(points, self.heads)
        late = self._shared(points, self.lasts)
        time = np.maximum(np.minimum(early, late), 0)
        gpu_time = time * self.demands[:, None, None]
        return _Table(points, np.minimum.reduceat(gpu_time, self.starts), np.minimum.reduceat(time, self.starts))

    def _shared(self, points: NDArray[np.int64], starts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Overlap (rows x left ends x right ends) of runs that begin at `starts`; negative where there is none."""
        low = np.maximum(points[None, :], starts[:, None])
        high = np.minimum(points[None, :], (starts + self.durations)[:, None])
        shared: NDArray[np.int64] = high[:, None, :] - low[:, :, None]
        return shared


@dataclass(frozen=True, slots=True)
class _Table:
    """Forced GPU time and forced time, tasks x left ends x right ends."""

    points: NDArray[np.int64]
    gpu_time: NDArray[np.int64]
    time: NDArray[np.int64]

    def only(self, keep: NDArray[np.bool_]) -> _Table:
        """The forced time of some of the tasks, as if each held 1."""
        return _Table(self.points, self.time[keep], self.time[keep])

    def at(self, span: tuple[int, int]) -> NDArray[np.int64]:
        """Forced time of each task in one interval."""
        low, high = np.searchsorted(self.points, span)
        return self.time[:, low, high]

    def fullest(self, steps: Steps) -> tuple[float, tuple[int, int] | None]:
        """Forced over existing in the interval where that is greatest; above 1 = overloaded."""
        forced = self.gpu_time.sum(axis=0)
        until = np.array([integral(steps, 0, int(at)) for at in self.points])
        there = until[None, :] - until[:, None]
        real = self.points[None, :] > self.points[:, None]
        over = real & (forced > there)
        if over.any():
            share = np.where(over, forced - there, -1)
            low, high = np.unravel_index(int(share.argmax()), share.shape)
            full = 1 + float(share[low, high]) / max(1.0, float(there[low, high]))
            return max(full, 1.0000001), (int(self.points[low]), int(self.points[high]))
        ratios = np.divide(forced, there, out=np.zeros(forced.shape), where=real & (there > 0))
        return float(ratios.max(initial=0.0)), None
