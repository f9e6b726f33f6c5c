"""What is wrong with a problem: unknown or repeated ids, cycles, figures out of range."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from gpuyield.errors import Mistake
from gpuyield.model.job import Capacity, PlanJob, Problem, Steps
from gpuyield.plan.instance.order import in_order
from gpuyield.plan.instance.quota import quota_mistakes, steps_of

MOST_MS = 10**15
"""No time may be further from the origin than this (about 30,000 years)."""
MOST_AMOUNT = 10**9


def mistakes_of(problem: Problem) -> list[Mistake]:
    """All that is wrong; who waits for whom is looked at where nothing else is wrong with the jobs."""
    return [
        *_capacity_mistakes(problem.capacity),
        *_quota_mistakes(problem),
        *_job_mistakes(problem.jobs),
    ]


def _capacity_mistakes(capacity: Capacity) -> list[Mistake]:
    return [one for name, steps in capacity.steps.items() for one in _steps_mistakes(f"capacity of {name}", steps)]


def _quota_mistakes(problem: Problem) -> list[Mistake]:
    found = quota_mistakes(problem.quotas, problem.capacity, problem.jobs)
    for queue in problem.quotas:
        for resource, quota in queue.resources.items():
            for kind, amounts in (("nominal", quota.nominal), ("borrow", quota.borrow), ("lend", quota.lend)):
                if amounts is not None:
                    found += _steps_mistakes(f"{kind} of {resource} of queue {queue.queue}", steps_of(amounts))
    return found


def _steps_mistakes(name: str, steps: Steps) -> list[Mistake]:
    found = []
    times = [from_ms for from_ms, _ in steps]
    if any(later <= earlier for earlier, later in pairwise(times)):
        found.append(Mistake(what="its steps are not in order of time.", where=name, fix="Sort them."))
    if any(not 0 <= amount <= MOST_AMOUNT for _, amount in steps):
        fix = f"Write at most {MOST_AMOUNT:,}."
        found.append(Mistake(what=f"an amount is not between 0 and {MOST_AMOUNT:,}.", where=name, fix=fix))
    if any(abs(from_ms) > MOST_MS for from_ms in times):
        found.append(Mistake(what="a time lies too far away.", where=name, fix="Check the year."))
    return found


def _job_mistakes(jobs: Sequence[PlanJob]) -> list[Mistake]:
    found = []
    seen: set[str] = set()
    for job in jobs:
        where = f"job {job.id}"
        if job.id in seen:
            found.append(Mistake(what="its id is used twice.", where=where, fix="Give every job its own id."))
        seen.add(job.id)
        found.extend(Mistake(what=what, where=where, fix=fix) for what, fix in _figure_mistakes(job))
    for job in jobs:
        unknown = [name for name in job.after if name not in seen]
        found.extend(
            Mistake(what=f'it waits for "{name}", which does not exist.', where=f"job {job.id}", fix="Add it.")
            for name in unknown
        )
    if not found and any(job.after for job in jobs):
        number = {job.id: at for at, job in enumerate(jobs)}
        before = [tuple(number[name] for name in job.after) for job in jobs]
        ordered = in_order(range(len(jobs)), before)
        found = _cycle_mistakes(jobs, before, ordered) or _overtaking_mistakes(jobs, before, ordered)
    return found


def _overtaking_mistakes(
    jobs: Sequence[PlanJob], before: Sequence[tuple[int, ...]], ordered: Sequence[int]
) -> list[Mistake]:
    """Jobs that have started although one that they wait for cannot have ended: nothing can be moved to mend that."""
    ends = [0] * len(jobs)
    found: list[Mistake] = []
    for at in ordered:
        job, start = jobs[at], jobs[at].fixed_ms
        if start is None:
            start = max([job.release_ms, 0, *(ends[one] for one in before[at])])
        ends[at] = start + min(shape.duration_ms for shape in job.shapes)
        if job.started_ms is not None:
            found.extend(
                Mistake(
                    what=f'it has started, and "{jobs[one].id}", which it waits for, cannot have ended by then.',
                    where=f"job {job.id}",
                    fix=f'Remove "{jobs[one].id}" from `after`, or correct started_at or the duration.',
                )
                for one in before[at]
                if ends[one] > job.started_ms
            )
    return found


def _figure_mistakes(job: PlanJob) -> list[tuple[str, str]]:
    found = []
    if not job.shapes:
        found.append(("it has no shape to run in.", "Give gpus and duration_s."))
    for shape in job.shapes:
        if not 0 < shape.duration_ms <= MOST_MS:
            found.append((f"a duration of {shape.duration_ms} ms cannot be planned.", "Give one above 0."))
        if not shape.demand:
            found.append(("a shape demands nothing.", "Give gpus or demand."))
        found.extend(
            (f"a demand of {amount} {name} cannot be planned.", "Give a whole number of 1 or more.")
            for name, amount in shape.demand.items()
            if not 1 <= amount <= MOST_AMOUNT
        )
    times = (job.release_ms, job.deadline_ms, job.due_ms, job.started_ms, job.pinned_ms)
    if any(at is not None and abs(at) > MOST_MS for at in times):
        found.append(("one of its times lies too far away.", "Check the year."))
    if not job.weight.is_finite() or job.weight < 0:
        found.append((f"weight {job.weight} is not a number of 0 or more.", "Give one, such as 1."))
    if job.restart_ms is not None and job.restart_ms < 0:
        found.append(("its restart cost is negative.", "Give 0 or more."))
    return found


def _cycle_mistakes(
    jobs: Sequence[PlanJob], before: Sequence[tuple[int, ...]], ordered: Sequence[int]
) -> list[Mistake]:
    """A loop among the jobs that have no place in the order."""
    left = set(range(len(jobs))).difference(ordered)
    if not left:
        return []
    path = [min(left)]
    while True:
        following = next(one for one in before[path[-1]] if one in left)
        if following in path:
            loop = [jobs[at].id for at in path[path.index(following) :]]
            break
        path.append(following)
    names = " waits for ".join([*loop, loop[0]])
    return [Mistake(what=f"jobs wait for each other: {names}.", where=f"job {loop[0]}", fix="Remove one `after`.")]
