"""What drives the kernel: list rules, repair, and which of two answers is better. Work is counted in placements."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from gpuyield.plan.instance.budget import Budget
from gpuyield.plan.kernel.grid import Grid
from gpuyield.plan.kernel.lanes import Lane, compiled, plain
from gpuyield.plan.kernel.repair import Whereabouts
from gpuyield.plan.kernel.table import BLOCK, FAR, Floats, Ints, Room, Runs, Table

PLAIN_TASKS = 300
"""Up to so many jobs nobody waits for a compiler."""
SWIFT = 50
"""So many placements of the kernel count as one of the budget."""
BATCH = 4_000
"""Placements between two looks at whether to stop."""
MOVES = 400
"""Moves of a repair between two looks at whether to stop."""
MOST_TOGETHER = 32
"""Jobs that a move of a repair places anew at most."""


def lane_for(tasks: int) -> Lane:
    """Compiled where that pays."""
    return compiled() if tasks > PLAIN_TASKS else plain()


@dataclass(frozen=True, slots=True)
class Answer:
    """Runs with the room that they leave."""

    runs: Runs
    room: Room


@dataclass(frozen=True, slots=True, order=True)
class Score:
    """What makes an answer better, most important first."""

    met: bool
    weight: float
    run: int
    less_late: int


class Search:
    """A grid with its lane, its chance and its budget."""

    def __init__(self, grid: Grid, seed: int, budget: Budget, lane: Lane | None = None) -> None:
        self.grid, self.budget = grid, budget
        self.table = grid.table
        self.lane = lane or lane_for(len(grid.case.board.tasks))
        self.dice = np.array([(seed * 2_654_435 + 12_345) % 2_147_483_646 + 1], dtype=np.int64)
        self.chance = np.random.default_rng(seed)
        self.position = np.empty(len(grid.table.heads), dtype=np.int64)
        self.position[grid.free] = np.arange(len(grid.free))

    def spend(self, placements: int) -> bool:
        """Whether there is work left for so many placements."""
        return self.budget.spend(max(1, placements // SWIFT))

    def areas(self) -> Floats:
        """By job: what its first mode holds, times how long; 1 for those without a mode."""
        sums = np.append(0, np.cumsum(self.table.amounts))
        held = np.append(np.diff(sums[self.table.first_demand]), 0)
        first = self.table.first_mode[:-1]
        found: Floats = np.maximum(1.0, self._lengths() * held[first])
        return found

    def _lengths(self) -> Floats:
        """By job: how long its first mode takes."""
        found: Floats = np.append(self.table.lengths, 0)[self.table.first_mode[:-1]].astype(np.float64)
        return found

    def densities(self) -> Floats:
        """By job: weight by area."""
        return self.table.weights / self.areas()

    def sorted(self, keys: Floats | Ints) -> Ints:
        """The jobs that may be placed by rising key, changed as little as needed to follow precedence."""
        keys = keys.astype(np.float64)
        if len(self.table.before):
            for at in self.grid.free[::-1]:
                for other in self.table.before[self.table.first_before[at] : self.table.first_before[at + 1]]:
                    keys[other] = min(keys[other], keys[at])
        free = self.grid.free
        return free[np.lexsort((self.position[free], keys[free]))]

    def orders(self) -> Iterator[Ints]:
        """The orders of the list rules: deadline, slack, weight density, area, release."""
        table, areas = self.table, self.areas()
        asked = np.where(table.timely < FAR, 0, 1) * float(FAR)
        slack = np.where(table.timely < FAR, table.timely - self._lengths(), FAR)
        yield self.sorted(table.timely)
        yield self.sorted(slack)
        yield self.sorted(asked - table.weights / areas)
        yield self.sorted(asked - areas)
        yield self.sorted(table.heads)

    def serial(
        self,
        order: Ints,
        *,
        by_end: bool = False,
        strict: bool = False,
        table: Table | None = None,
        whole: bool = False,
    ) -> Answer | None:
        """One pass; None where `strict` and a deadline is missed, or the budget is spent and it need not be `whole`."""
        answer = Answer(self.grid.runs(), self.grid.open_room())
        done = self.extend(answer, order, by_end=by_end, strict=strict, table=table, whole=whole)
        return answer if done else None

    def extend(
        self,
        answer: Answer,
        order: Ints,
        *,
        by_end: bool = False,
        strict: bool = False,
        table: Table | None = None,
        whole: bool = False,
    ) -> bool:
        """Place more jobs; whether all were looked at."""
        for at in range(0, len(order), BATCH):
            part = order[at : at + BATCH]
            if not self.spend(len(part)) and not whole:
                return False
            looked = self.lane["serial"](table or self.table, answer.room, answer.runs, part, by_end, strict)
            if looked < len(part):
                return False
        return True

    def score(self, runs: Runs) -> Score:
        """How good runs are for the objective on-time."""
        table, running = self.table, runs.modes >= 0
        late = running & (runs.ends > table.wanted)
        good = running & ~late & (table.wanted < FAR)
        return Score(
            met=not bool(((table.hard > 0) & ~running).any()),
            weight=float(table.weights[good].sum()),
            run=int(running.sum()),
            less_late=-int((runs.ends[late] - table.wanted[late]).sum()),
        )

    def is_perfect(self, runs: Runs) -> bool:
        """Whether everything runs and is on time."""
        return bool(((runs.modes >= 0) & (runs.ends <= self.table.wanted))[self.grid.free].all())

    def by_rules(self) -> Answer:
        """The best pass of the list rules."""
        several = bool((np.diff(self.table.first_mode) > 1).any())
        best: tuple[Score, Answer] | None = None
        for by_end in (False, True) if several else (False,):
            for order in self.orders():
                found = self.serial(order, by_end=by_end, whole=best is None)
                if found is None:
                    break
                score = self.score(found.runs)
                if best is None or score > best[0]:
                    best = (score, found)
        assert best is not None
        return best[1]

    def whereabouts(self, runs: Runs) -> Whereabouts:
        """Who runs where, for `repair`."""
        count = len(self.table.heads)

        def filled(size: int, value: int) -> Ints:
            return np.full(size, value, dtype=np.int64)

        loose = filled(count, 0)
        loose[self.grid.free] = 1
        about = Whereabouts(
            heads=filled((self.grid.room.free.shape[1] >> BLOCK) + 1, -1),
            following=filled(count, -1),
            leading=filled(count, -1),
            late=filled(count, -1),
            places=filled(count, -1),
            counts=filled(1, 0),
            loose=loose,
        )
        self.lane["link_all"](self.table, runs, about)
        return about

    def repaired(self, answer: Answer, moves: int, patience: int) -> Answer:
        """The answer, changed in place by so many moves around late jobs, while they help: none makes it worse."""
        about = self.whereabouts(answer.runs)
        values = self.densities()
        guard = self.score(answer.runs).met
        best, quiet = self.score(answer.runs), 0
        while moves > 0 and quiet < patience and about.counts[0] and self.spend(MOVES * MOST_TOGETHER // 2):
            some = min(MOVES, moves)
            self.lane["repair"](
                self.table, answer.room, answer.runs, about, values, some, MOST_TOGETHER, guard, self.dice
            )
            moves -= some
            score = self.score(answer.runs)
            quiet = 0 if score > best else quiet + some
            best = score
        return answer
