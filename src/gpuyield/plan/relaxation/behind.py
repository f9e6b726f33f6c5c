"""What the best plan gives up, run behind it: how much later its deadlines would have to be."""

from __future__ import annotations

from gpuyield.plan.case import Case
from gpuyield.plan.instance.completed import complete
from gpuyield.plan.instance.schedule import Schedule


def behind(case: Case, best: Schedule) -> Schedule:
    """The best plan kept, and what it gives up run behind it without regard to deadlines."""
    return complete(case, {at: one for at, one in enumerate(best.placed) if one is not None}, overrun=True)


def lateness(case: Case, schedule: Schedule) -> list[tuple[str, int]]:
    """The jobs that end after their deadline, and by how much."""
    return [
        (task.job.id, one.end_ms - task.deadline_ms)
        for task, one in zip(case.board.tasks, schedule.placed, strict=True)
        if one is not None and task.deadline_ms is not None and one.end_ms > task.deadline_ms
    ]
