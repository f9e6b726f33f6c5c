"""A problem, indexed, with its capacity and windows.

Changed problems (more GPUs, a later deadline, a job less) are cases of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from gpuyield.model.job import Capacity, Problem
from gpuyield.model.plan import Run
from gpuyield.plan.instance.board import Board, Mode, Steps, Task, arrange
from gpuyield.plan.instance.profile import NEVER, most_between, with_added
from gpuyield.plan.instance.schedule import Schedule
from gpuyield.plan.instance.windows import Windows, windows_of
from gpuyield.plan.proof.impossible import Impossible, impossible_jobs
from gpuyield.plan.proof.overload import Forced, forced_jobs


@dataclass(frozen=True)
class Case:
    """A problem, indexed, with its capacity and windows; without slots, so that it keeps what is forced."""

    problem: Problem
    board: Board
    steps: tuple[Steps, ...]
    windows: Windows
    impossible: tuple[Impossible, ...]

    @staticmethod
    def of(problem: Problem) -> Case:
        """The case of a problem.

        Raises:
            PlanError: The problem cannot be built.
        """
        return Case._on(problem, arrange(problem))

    @staticmethod
    def _on(problem: Problem, board: Board) -> Case:
        windows = windows_of(board, board.steps)
        impossible = tuple(impossible_jobs(board, board.steps, windows))
        return Case(problem, board, board.steps, windows, impossible)

    def with_steps(self, resource: int, steps: Steps) -> Case:
        """The same with other capacity of one resource."""
        return self._with(resource, steps, only_more=_is_more(steps, self.steps[resource]))

    def _with(self, resource: int, steps: Steps, *, only_more: bool) -> Case:
        problem, board = self._changed(resource, steps)
        if not only_more or self.impossible or any(len(held) < len(task.modes) for held, task in self._held()):
            return Case._on(problem, board)
        # Nothing lacked capacity by itself, so with more of it every window is the same.
        return Case(problem, board, board.steps, self.windows, ())

    def _changed(self, resource: int, steps: Steps) -> tuple[Problem, Board]:
        rows = tuple(steps if at == resource else one for at, one in enumerate(self.steps))
        board = replace(self.board, steps=rows)
        if resource >= self.board.named:  # It stands for a quota: the problem names what the quota is made of.
            return self.problem, board
        changed = {**self.problem.capacity.steps, self.board.resources[resource]: steps}
        return replace(self.problem, capacity=Capacity(steps=changed)), board

    def _held(self) -> Iterator[tuple[tuple[Mode, ...], Task]]:
        return zip(self.windows.held, self.board.tasks, strict=True)

    def with_added(self, resource: int, amount: int, from_ms: int, to_ms: int) -> Case:
        """The same with more of one resource in a span."""
        return self._with(resource, with_added(self.steps[resource], amount, from_ms, to_ms), only_more=amount >= 0)

    def with_later(self, by_ms: Mapping[str, int]) -> Case:
        """The same with later deadlines."""
        jobs = tuple(
            replace(job, deadline_ms=job.deadline_ms + by_ms[job.id])
            if job.id in by_ms and job.deadline_ms is not None
            else job
            for job in self.problem.jobs
        )
        return Case.of(replace(self.problem, jobs=jobs))

    def with_modes(self, modes: Sequence[tuple[Mode, ...]]) -> Case:
        """The same where each task may run in these of its modes alone."""
        tasks = tuple(replace(task, modes=kept) for task, kept in zip(self.board.tasks, modes, strict=True))
        return Case._on(self.problem, replace(self.board, tasks=tasks))

    def in_one_piece(self) -> Case:
        """The same where no job may be paused."""
        tasks = tuple(replace(task, job=replace(task.job, restart_ms=None)) for task in self.board.tasks)
        return Case._on(self.problem, replace(self.board, tasks=tasks))

    def without_deadlines(self, names: Iterable[str]) -> Case:
        """The same where these jobs may end whenever they do."""
        loose = set(names)
        jobs = tuple(replace(job, deadline_ms=None) if job.id in loose else job for job in self.problem.jobs)
        return Case.of(replace(self.problem, jobs=jobs))

    def without(self, dropped: Iterable[str]) -> Case:
        """The same without some jobs; those that waited for them no longer do."""
        gone = set(dropped)
        jobs = tuple(
            replace(job, after=tuple(one for one in job.after if one not in gone))
            for job in self.problem.jobs
            if job.id not in gone
        )
        return Case.of(replace(self.problem, jobs=jobs))

    @property
    def hard_impossible(self) -> list[Impossible]:
        """The impossible jobs that have a hard deadline or a fixed start."""
        return [one for one in self.impossible if self.board.tasks[one.task].is_hard]

    @cached_property
    def forced(self) -> tuple[Forced, ...]:
        """By resource: the jobs that cannot avoid it."""
        return tuple(forced_jobs(self.board, self.windows, at) for at in range(len(self.board.resources)))

    def runs(self, schedule: Schedule) -> dict[str, Run]:
        """A schedule by job id."""
        return {
            task.job.id: one.run()
            for task, one in zip(self.board.tasks, schedule.placed, strict=True)
            if one is not None
        }


def _is_more(steps: Steps, than: Steps) -> bool:
    """Whether a constant amount is nowhere less than other steps."""
    if len(steps) != 1 or not than:
        return False
    from_ms, amount = steps[0]
    return from_ms <= than[0][0] and amount >= most_between(than, -NEVER, NEVER)
