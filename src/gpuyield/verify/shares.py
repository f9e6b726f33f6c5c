"""The on-time shares of a plan, and the objective's value, bound and gap."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any  # JSON has no narrower type than this.

from .frame import Frame
from .problem import Job, Problem, Shape
from .report import NotRechecked, Refused
from .runs import Run
from .values import number

TOLERANCE = Fraction(1, 10**9)
HOUR_MS = 3_600_000


def shares(problem: Problem, runs: Mapping[str, Run]) -> dict[str, Fraction]:
    """Weighted, by jobs and by GPU time: what is on time of the jobs that have a deadline or a due time.

    1 where there are none. A job that does not run counts with the GPU time of its least shape.
    """
    timed = [job for job in problem.jobs.values() if job.is_timed]
    met = [job for job in timed if job.id in runs and runs[job.id].is_on_time]
    return {
        "weighted": _share(_weight(met), _weight(timed)),
        "jobs": _share(Fraction(len(met)), Fraction(len(timed))),
        "gpu_time": _share(_gpu_ms(met, runs), _gpu_ms(timed, runs)),
    }


def check_share(value: Any, right: Fraction, where: str) -> None:
    """The ratio that is right."""
    if not near(number(value, where), right):
        raise Refused(f"{where} is not {float(right):.12g}.")


def check_cost(stated: Fraction | None, problem: Problem, runs: Mapping[str, Run]) -> None:
    """Money of all runs: price per unit of a resource and hour x demand x the time it runs, restarts included."""
    prices = problem.prices
    if prices is None:
        raise NotRechecked("What it costs is not in the inputs.")
    total = Fraction(0)
    for run in runs.values():
        length_ms = sum(end - start for start, end in run.segments)
        total += _price(prices, run.shape) * length_ms / run.shape.duration_ms
    if stated is None or not near(stated, total):
        raise Refused(f"objective.value is not {float(total):.12g}.")


def least_cost(problem: Problem) -> Fraction:
    """Money that no plan of all jobs is below: each in the cheapest shape that fits between its head and tail."""
    frame, prices, total = Frame(problem), problem.prices, Fraction(0)
    if prices is None:
        raise NotRechecked("What a run costs is not in the inputs.")
    for name in problem.jobs:
        total += min((_price(prices, shape) for shape in frame.usable(name)), default=Fraction(0))
    return total


def _price(prices: Mapping[str, Fraction], shape: Shape) -> Fraction:
    missing = next((resource for resource in shape.named if resource not in prices), None)
    if missing is not None:
        raise Refused(f"The inputs have no price of {missing}.")
    return sum(
        (prices[name] * amount * shape.duration_ms / HOUR_MS for name, amount in shape.named.items()), Fraction(0)
    )


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


def _gpu_ms(jobs: list[Job], runs: Mapping[str, Run]) -> Fraction:
    total = 0
    for job in jobs:
        shapes = (runs[job.id].shape,) if job.id in runs else job.shapes
        total += min(shape.gpus * shape.duration_ms for shape in shapes)
    return Fraction(total)
