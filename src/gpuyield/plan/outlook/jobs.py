"""The jobs of a plan as it says them: when each runs, its status, how much time it has left, and why then."""

from __future__ import annotations

from gpuyield.model.plan import JobStatus, PlannedJob
from gpuyield.plan.case import Case
from gpuyield.plan.instance.board import Task
from gpuyield.plan.instance.schedule import Placement, Schedule
from gpuyield.plan.outlook.why import Starts, is_over, why_impossible
from gpuyield.plan.outlook.wording import Clock


def planned_jobs(case: Case, schedule: Schedule) -> tuple[PlannedJob, ...]:
    """Every job of a schedule, by id."""
    clock = Clock.of(case, schedule)
    starts = Starts.of(case, schedule, clock)
    hopeless = {one.task: one for one in case.impossible}
    statuses = {task.job.id: _status(task, schedule, hopeless=task.index in hopeless) for task in case.board.tasks}
    found = []
    for task in case.board.tasks:
        at, status, one = task.index, statuses[task.job.id], schedule.placed[task.index]
        if one is not None:
            found.append(_run(task, status, one, why=starts.why(at)))
            continue
        why = why_impossible(case, hopeless[at], clock) if at in hopeless else starts.why_given_up(at, statuses)
        found.append(PlannedJob(id=task.job.id, status=status, run=None, why=why))
    return tuple(sorted(found, key=lambda one: one.id))


def _run(task: Task, status: JobStatus, one: Placement, *, why: str) -> PlannedJob:
    """A job that runs. How much time one has left that is over only by its run time, nobody knows."""
    slack_ms = None if task.deadline_ms is None or is_over(task, one) else task.deadline_ms - one.end_ms
    return PlannedJob(
        id=task.job.id,
        status=status,
        run=one.run(),
        why=why,
        slack_ms=slack_ms,
        late_ms=0 if task.due_ms is None else max(0, one.end_ms - task.due_ms),
    )


def _status(task: Task, schedule: Schedule, *, hopeless: bool) -> JobStatus:
    one = schedule.placed[task.index]
    if one is None:
        return JobStatus.IMPOSSIBLE if hopeless else JobStatus.DROPPED
    return JobStatus.LATE if task.due_ms is not None and one.end_ms > task.due_ms else JobStatus.PLANNED
