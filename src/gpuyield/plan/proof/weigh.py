"""A bound on the weight on time for few jobs: a search tree that decides job by job whether it is on time.

A branch ends where so much weight is missed that no more than the best plan's is left, or where the jobs decided to
be on time cannot all be. `verify` replays it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from gpuyield.plan.case import Case
from gpuyield.plan.instance.board import Board
from gpuyield.plan.instance.budget import Budget
from gpuyield.plan.instance.frame import Frame, grid_of
from gpuyield.plan.proof.tree import Look, Node, TreeGrower

MOST_TASKS = 14
MOST_NODES = 500
WORK = 10_000


@dataclass(frozen=True, slots=True)
class _State:
    """A branch: what must hold in it, the jobs still undecided (heaviest first), and the weight it misses."""

    look: Look
    undecided: tuple[int, ...]
    missed: Fraction


def weight_certificate(case: Case, value: Fraction, all_met: bool, budget: Budget) -> dict[str, object] | None:
    """The tree that shows that no plan has more than this share of the weight on time; None where it does not close.

    With `all_met` (the plan meets all hard deadlines) no plan may give one up. Fixed and preemptible jobs are not
    reasoned about.
    """
    tasks = case.board.tasks
    if len(tasks) > MOST_TASKS or any(task.fixed_ms is not None or task.job.restart_ms is not None for task in tasks):
        return None
    free = case
    if not all_met:
        free = case.without_deadlines(task.job.id for task in tasks)
    grid_ms = grid_of(case.board, case.steps)
    root = Frame(free.board, free.steps, grid_ms)
    wanted = _wanted(case, free.board)
    share = budget.share(WORK)
    branches = _Weigher(free, wanted, share).grow(root, value, held=all_met)
    budget.settle(share)
    if branches is None:
        return None
    found: dict[str, object] = {"kind": "search", "branches": branches}
    if grid_ms > 1:
        found["grid_ms"] = grid_ms
    return found


@dataclass(frozen=True, slots=True)
class _Wanted:
    """By task of the free board: when it has to end to be on time (None: it has no time), and its hard deadline."""

    ends: tuple[int | None, ...]
    hard: tuple[bool, ...]
    weights: tuple[Fraction, ...]


def _wanted(case: Case, free: Board) -> _Wanted:
    own = {task.job.id: task for task in case.board.tasks}
    rows = [own[task.job.id] for task in free.tasks]
    return _Wanted(
        ends=tuple(
            min((end for end in (task.deadline_ms, task.due_ms) if end is not None), default=None) for task in rows
        ),
        hard=tuple(task.deadline_ms is not None for task in rows),
        weights=tuple(Fraction(task.weight) for task in rows),
    )


class _Weigher:
    def __init__(self, free: Case, wanted: _Wanted, budget: Budget) -> None:
        self.board, self.wanted, self.budget = free.board, wanted, budget
        every = range(len(free.board.tasks))
        self.trees = TreeGrower(free.board, free.steps, list(every), MOST_NODES, budget)
        self.timed = [at for at in every if wanted.ends[at] is not None]

    def grow(self, root: Frame, value: Fraction, *, held: bool) -> list[Node] | None:
        """The nodes in depth-first order; `held`: hard jobs are decided to be met."""
        total = sum((self.wanted.weights[at] for at in self.timed), start=Fraction(0))
        enough = total - value * total
        open_to_miss = [at for at in self.timed if not (held and self.wanted.hard[at])]
        order = tuple(sorted(open_to_miss, key=lambda at: (-self.wanted.weights[at], at)))
        waiting = [_State(self.trees.look(root), order, Fraction(0))]
        found: list[Node] = []
        while waiting:
            state = waiting.pop()
            if len(found) + len(waiting) >= MOST_NODES or not self.budget.spend(len(self.timed)):
                return None
            if state.missed >= enough:
                found.append({"closed": "weight"})
                continue
            if state.look.closed:
                found.append(state.look.closed)
                continue
            split = self._split(state)
            if split is None:
                return None
            node, branches = split
            found.append(node)
            waiting.extend(reversed(list(branches)))
        return found

    def _split(self, state: _State) -> tuple[Node, Iterable[_State]] | None:
        if state.undecided:
            first, *others = state.undecided
            left: Sequence[int] = others
            end = self.wanted.ends[first]
            assert end is not None
            kept = self.trees.look(state.look.frame.ending_by(first, end))
            missed = state.missed + self.wanted.weights[first]
            node: Node = {"split": "on-time", "id": self.board.tasks[first].job.id}
            return node, [_State(kept, tuple(left), state.missed), _State(state.look, tuple(left), missed)]
        split = self.trees.best_split(state.look)
        if split is None:
            return None
        return split.node, [replace(state, look=look) for look in split.branches]
