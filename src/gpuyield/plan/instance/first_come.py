"""First come, first served: what a queue does that knows neither deadlines nor run times.

Jobs wait in order of their release; whenever anything changes each that fits starts, in the first of its shapes that
does, whatever comes of it. A job that is wider than what is free lets those behind it pass. Fixed jobs run where they
are fixed.

Source: Kueue, queueing strategy BestEffortFIFO.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping

import numpy as np

from gpuyield.model.job import Problem, amount_at
from gpuyield.model.plan import Run
from gpuyield.plan.instance.board import Board, Task, arrange
from gpuyield.plan.instance.profile import NEVER


def first_come(problem: Problem) -> dict[str, Run]:
    """When each job runs, by id; those that never fit are left out.

    Raises:
        PlanError: The problem cannot be built.
    """
    return _Queue(arrange(problem)).run()


class _Queue:
    def __init__(self, board: Board) -> None:
        self.board = board
        most = max((len(task.modes) for task in board.tasks), default=0)
        self.demand = np.zeros((most, len(board.tasks), len(board.resources)), dtype=np.int64)
        for task in board.tasks:
            self.demand[len(task.modes) :, task.index] = NEVER
            for at, mode in enumerate(task.modes):
                for resource, amount in mode.demand:
                    self.demand[at, task.index, resource] = amount
        self.held = np.zeros(len(board.resources), dtype=np.int64)
        self.open = [len(task.before) for task in board.tasks]
        self.running: list[tuple[int, int]] = []
        turn = sorted(range(len(board.tasks)), key=lambda at: (_comes(board.tasks[at]), at))
        self.by_turn = np.array(turn, dtype=np.int64)
        self.turn = np.argsort(self.by_turn)
        self.waiting = np.zeros(0, dtype=np.int64)
        """Turns of those that wait, in order."""
        self.starts: dict[int, tuple[int, int]] = {}

    def run(self) -> dict[str, Run]:
        tasks = self.board.tasks
        coming = [(_comes(task), task.index) for task in tasks if task.modes and not task.before]
        heapq.heapify(coming)
        changes = sorted({at for steps in self.board.steps for at, _ in steps})
        while coming or self.running or (len(self.waiting) and changes):
            now = min(
                coming[0][0] if coming else NEVER,
                self.running[0][0] if self.running else NEVER,
                changes[0] if changes and len(self.waiting) else NEVER,
            )
            while changes and changes[0] <= now:
                changes.pop(0)
            while self.running and self.running[0][0] <= now:
                self._end(heapq.heappop(self.running)[1], now, coming)
            while coming and coming[0][0] <= now:
                self._come(heapq.heappop(coming)[1], now)
            self._start_what_fits(now)
        return {tasks[at].job.id: _run(tasks[at], mode, start) for at, (mode, start) in self.starts.items()}

    def _end(self, at: int, now: int, coming: list[tuple[int, int]]) -> None:
        self.held -= self.demand[self.starts[at][0], at]
        for other in self.board.tasks[at].after:
            self.open[other] -= 1
            if not self.open[other] and self.board.tasks[other].modes:
                heapq.heappush(coming, (max(now, _comes(self.board.tasks[other])), other))

    def _come(self, at: int, now: int) -> None:
        task = self.board.tasks[at]
        if task.fixed_ms is not None:
            self._start(at, 0, task.fixed_ms)
        else:
            turn = self.turn[at]
            self.waiting = np.insert(self.waiting, np.searchsorted(self.waiting, turn), turn)

    def _start(self, at: int, mode: int, start: int) -> None:
        self.starts[at] = (mode, start)
        self.held += self.demand[mode, at]
        heapq.heappush(self.running, (start + self.board.tasks[at].modes[mode].duration_ms, at))

    def _start_what_fits(self, now: int) -> None:
        there = np.array([amount_at(steps, now) for steps in self.board.steps], dtype=np.int64)
        place = 0
        left = np.ones(len(self.waiting), dtype=np.bool_)
        while place < len(self.waiting):
            wanted = self.demand[:, self.by_turn[self.waiting[place:]]]
            fits = ((wanted == 0) | (wanted <= there - self.held)).all(axis=2)
            able = np.flatnonzero(fits.any(axis=0))
            if not len(able):
                break
            first = int(able[0])
            place += first
            self._start(int(self.by_turn[self.waiting[place]]), int(fits[:, first].argmax()), now)
            left[place] = False
            place += 1
        if not left.all():
            self.waiting = self.waiting[left]


def _comes(task: Task) -> int:
    return task.release_ms if task.fixed_ms is None else max(0, task.fixed_ms)


def _run(task: Task, mode: int, start_ms: int) -> Run:
    chosen = task.modes[mode]
    return Run(shape=chosen.shape, start_ms=start_ms, end_ms=start_ms + chosen.duration_ms)


def met(problem: Problem, runs: Mapping[str, Run]) -> tuple[int, int]:
    """How many jobs with a deadline or due time end in time, and how many there are."""
    return len(in_time(problem, runs)), len(_limits(problem))


def in_time(problem: Problem, runs: Mapping[str, Run]) -> set[str]:
    """Jobs with a deadline or due time that meet what they have of both."""
    return {name for name, end in _limits(problem).items() if name in runs and runs[name].end_ms <= end}


def _limits(problem: Problem) -> dict[str, int]:
    return {
        job.id: min(end for end in (job.deadline_ms, job.due_ms) if end is not None)
        for job in problem.jobs
        if job.deadline_ms is not None or job.due_ms is not None
    }
