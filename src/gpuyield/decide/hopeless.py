"""Jobs that no number of GPUs brings in on time: the run alone, or the chain before it, is too long.

Such a deadline cannot decide a purchase. It is moved to the earliest end that any number of GPUs of any flavor
allows, the job is named, and all else is decided with it. So loosening a hopeless deadline never makes the answer
worse: up to that end nothing changes, beyond it the problem only becomes looser.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from gpuyield.model.job import PlanJob, Problem


def earliest_ends(problem: Problem) -> dict[str, int]:
    """When each job could end at the earliest with GPUs without number, in ms from the origin.

    Jobs that wait for an unknown job or for each other are left out: planning refuses them.
    """
    jobs = {job.id: job for job in problem.jobs}
    ends: dict[str, int] = {}
    waiting = dict(jobs)
    while waiting:
        ready = [job for job in waiting.values() if all(name in ends for name in job.after)]
        if not ready:
            return ends
        for job in ready:
            ends[job.id] = _start(job, ends) + min((shape.duration_ms for shape in job.shapes), default=0)
            del waiting[job.id]
    return ends


def without_hopeless(problem: Problem) -> tuple[Problem, Mapping[str, int]]:
    """The problem with hopeless deadlines moved to the earliest possible end, and those ends by job."""
    ends = earliest_ends(problem)
    moved = {
        job.id: ends[job.id]
        for job in problem.jobs
        if job.deadline_ms is not None and job.deadline_ms < ends.get(job.id, job.deadline_ms)
    }
    jobs = tuple(replace(job, deadline_ms=moved[job.id]) if job.id in moved else job for job in problem.jobs)
    return replace(problem, jobs=jobs), moved


def _start(job: PlanJob, ends: Mapping[str, int]) -> int:
    fixed = job.fixed_ms
    if fixed is not None:
        return fixed
    return max([max(0, job.release_ms), *(ends[name] for name in job.after)])
