"""The on-time shares of a plan, and the objective's value, bound and gap."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any  # JSON has no narrower type than this.

from .problem import Job, Problem
from .report import Refused
from .runs import Run
from .values import number

TOLERANCE = Fraction(1, 10**9)


def shares(problem: Problem, runs: Mapping[str, Run]) -> dict[str, set[Fraction]]:
    """Weighted, by jobs and by GPU time: what is on time of the jobs that have a deadline or a due time.

    Where several figures are right (the GPU time of a job that does not run and has several shapes) all are named.
    """
    timed = [job for job in problem.jobs.values() if job.is_timed]
    met = [job for job in timed if job.id in runs and runs[job.id].is_on_time]
    gpu_time = set[Fraction]()
    for size in (_least, _first):
        done = sum(_gpu_ms(job, runs, size) for job in met)
        gpu_time.add(_share(Fraction(done), Fraction(sum(_gpu_ms(job, runs, size) for job in timed))))
    return {
        "weighted": {_share(_weight(met), _weight(timed))},
        "jobs": {_share(Fraction(len(met)), Fraction(len(timed)))},
        "gpu_time": gpu_time,
    }


def check_share(value: Any, right: set[Fraction], where: str) -> None:
    """A ratio that is one of the right ones."""
    stated = number(value, where)
    if not any(near(stated, one) for one in right):
        raise Refused(f"{where} is not {float(min(right)):.12g}.")


def check_gap(value: Any, stated: Fraction, bound: Fraction) -> None:
    """`gap = |value - bound| / max(|value|, |bound|)`."""
    largest = max(abs(stated), abs(bound))
    right = abs(stated - bound) / largest if largest else Fraction(0)
    if not near(number(value, "objective.gap"), right):
        raise Refused(f"objective.gap is not {float(right):.12g}.")


def near(one: Fraction, other: Fraction) -> bool:
    """Equal but for the rounding of a float."""
    return abs(one - other) <= TOLERANCE * max(Fraction(1), abs(other))


def _share(part: Fraction, whole: Fraction) -> Fraction:
    return part / whole if whole else Fraction(1)


def _weight(jobs: list[Job]) -> Fraction:
    return sum((job.weight for job in jobs), start=Fraction(0))


def _gpu_ms(job: Job, runs: Mapping[str, Run], size: Any) -> int:
    if job.id in runs:
        return runs[job.id].shape.gpus * runs[job.id].shape.duration_ms
    return int(size([shape.gpus * shape.duration_ms for shape in job.shapes]))


def _least(sizes: list[int]) -> int:
    return min(sizes)


def _first(sizes: list[int]) -> int:
    return sizes[0]
