"""What the best plan gives up, run behind it: how much later its deadlines would have to be."""

from __future__ import annotations

from gpuyield.plan.case import Case, complete
from gpuyield.plan.instance.schedule import Placement, Schedule


def behind(case: Case, best: Schedule) -> Schedule:
    """The best plan kept, and what it gives up run behind it without regard to deadlines."""
    names = [task.job.id for at, task in enumerate(case.board.tasks) if best.placed[at] is None]
    loose = case.without_deadlines(names)
    place = {task.job.id: one for task, one in zip(case.board.tasks, best.placed, strict=True) if one is not None}
    kept: dict[int, Placement] = {}
    for task in loose.board.tasks:
        one = place.get(task.job.id)
        if one is not None:
            kept[task.index] = one
    filled = complete(loose, kept)
    by_name = {task.job.id: one for task, one in zip(loose.board.tasks, filled.placed, strict=True)}
    return Schedule([by_name[task.job.id] for task in case.board.tasks])


def lateness(case: Case, schedule: Schedule) -> list[tuple[str, int]]:
    """The jobs that end after their deadline, and by how much."""
    return [
        (task.job.id, one.end_ms - task.deadline_ms)
        for task, one in zip(case.board.tasks, schedule.placed, strict=True)
        if one is not None and task.deadline_ms is not None and one.end_ms > task.deadline_ms
    ]
