"""A plan in force: the jobs that are still there, and where each of them runs or is to run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import assert_never

from gpuyield.errors import PlanError
from gpuyield.model.job import PlanJob, Problem, Shape
from gpuyield.model.plan import Run
from gpuyield.plan.instance.board import Board, Mode, Steps, Task, arrange
from gpuyield.plan.instance.schedule import Placement
from gpuyield.plan.online.events import Arrived, Cancelled, CapacityChanged, Event, Finished, Prolonged


@dataclass(frozen=True, slots=True)
class Standing:
    """A plan at an instant. `tasks` and `placed` are by id; a job that is given up is in `tasks` alone.

    `ground` is the problem without its jobs. A job runs if its start is not after `now_ms`.
    """

    ground: Problem
    resources: tuple[str, ...]
    steps: tuple[Steps, ...]
    tasks: Mapping[str, Task]
    placed: Mapping[str, Placement]
    now_ms: int = 0

    @staticmethod
    def of(problem: Problem, runs: Mapping[str, Run], *, now_ms: int = 0) -> Standing:
        """The plan of these runs (of jobs of the problem), as it stands at an instant.

        Raises:
            PlanError: The problem cannot be built.
        """
        board = arrange(problem)
        tasks = {task.job.id: task for task in board.tasks}
        placed = {
            name: one
            for name, run in runs.items()
            if name in tasks and (one := _placement(tasks[name], run)) is not None
        }
        ground = replace(problem, jobs=())
        return Standing(ground, board.resources, board.steps, tasks, placed, now_ms)

    def problem(self) -> Problem:
        """What is left to be planned, as a problem: running jobs are fixed."""
        jobs = []
        for name, task in self.tasks.items():
            one = self.placed.get(name)
            job = replace(task.job, after=tuple(other for other in task.job.after if other in self.tasks))
            if one is not None and one.start_ms <= self.now_ms and not one.parts:
                job = replace(job, started_ms=one.start_ms, pinned_ms=None)
            jobs.append(job)
        return replace(self.ground, jobs=tuple(jobs))

    def runs(self) -> dict[str, Run]:
        """Where each job runs, by id."""
        return {name: one.run() for name, one in self.placed.items()}

    def followers(self) -> dict[str, list[str]]:
        """Who waits for whom."""
        found: dict[str, list[str]] = {}
        for name, task in self.tasks.items():
            for other in task.job.after:
                found.setdefault(other, []).append(name)
        return found

    def after(self, events: Iterable[Event], now_ms: int) -> Standing:
        """The same after these events and at a later instant; nothing is moved, so it may hold more than exists.

        Raises:
            PlanError: An event names a job that is not there, or one that is there already.
        """
        tasks, placed = dict(self.tasks), dict(self.placed)
        ground, steps = self.ground, self.steps
        arrived: list[PlanJob] = []
        prolonged: set[str] = set()
        for event in events:
            match event:
                case Arrived():
                    arrived.append(event.job)
                case Finished() | Cancelled():
                    _known(event.job, tasks)
                    del tasks[event.job]
                    placed.pop(event.job, None)
                case Prolonged():
                    tasks[event.job], placed[event.job] = _longer(_known(event.job, tasks), placed, event.end_ms)
                    prolonged.add(event.job)
                case CapacityChanged():
                    ground = replace(ground, capacity=event.capacity)
                    steps = self._steps_of(ground)
                case _:
                    assert_never(event)
        tasks.update(_tasks_of(ground, arrived, tasks))
        begun = [(name, one) for name, one in placed.items() if one.start_ms <= now_ms]
        for name in [name for name, one in begun if one.end_ms <= now_ms and name not in prolonged]:
            del tasks[name], placed[name]
        return Standing(ground, self.resources, steps, tasks, placed, now_ms)

    def _steps_of(self, ground: Problem) -> tuple[Steps, ...]:
        board = arrange(ground)
        if board.resources != self.resources:
            raise PlanError(
                "the new capacity names other resources than the old one.",
                where="capacity",
                fix="Give a resource that is gone an amount of 0.",
            )
        return board.steps


def _placement(task: Task, run: Run) -> Placement | None:
    """The run of a task; None where capacity no longer names what its shape needs."""
    mode = next((mode for mode in task.modes if mode.shape == run.shape), None)
    return None if mode is None else Placement(mode, run.start_ms, run.parts)


def _known(name: str, tasks: Mapping[str, Task]) -> Task:
    if name not in tasks:
        raise PlanError(f'there is no job "{name}" in the plan.', where="event", fix="Send Arrived first.")
    return tasks[name]


def _tasks_of(ground: Problem, jobs: Sequence[PlanJob], there: Mapping[str, Task]) -> dict[str, Task]:
    """New jobs as tasks; what they wait for may be there already, or over."""
    if not jobs:
        return {}
    twice = [job.id for job in jobs if job.id in there]
    if twice:
        raise PlanError(f'job "{twice[0]}" is there already.', where="event", fix="Give it another id.")
    alone = tuple(replace(job, after=()) for job in jobs)
    board: Board = arrange(replace(ground, jobs=alone))
    full = {job.id: job for job in jobs}
    return {task.job.id: replace(task, job=full[task.job.id]) for task in board.tasks}


def _longer(task: Task, placed: Mapping[str, Placement], end_ms: int) -> tuple[Task, Placement]:
    """A running job with the run time that it now has; one that ran in parts runs on in one piece."""
    old = placed.get(task.job.id)
    if old is None or old.start_ms >= end_ms:
        raise PlanError(f'job "{task.job.id}" does not run.', where="event", fix="Send what ran before it.")
    length = end_ms - old.start_ms
    mode = Mode(shape=old.mode.shape, demand=old.mode.demand, duration_ms=length, gpus=old.mode.gpus)
    shapes = tuple(
        Shape(flavor=shape.flavor, demand=shape.demand, duration_ms=length if at == mode.shape else shape.duration_ms)
        for at, shape in enumerate(task.job.shapes)
    )
    modes = tuple(mode if one.shape == mode.shape else one for one in task.modes)
    return replace(task, job=replace(task.job, shapes=shapes), modes=modes), Placement(mode, old.start_ms)
