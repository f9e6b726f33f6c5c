"""Small planning problems solved by trying everything, straight from decoded canonical inputs.

Shares nothing with the checker under test. Times are whole units of one hour; a plan is `{id: (shape, segments)}` in
units, and a job that is given up is not in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import Any

UNIT_MS = 3_600_000
Inputs = dict[str, Any]
Option = tuple[int, tuple[tuple[int, int], ...]]
Plan = dict[str, Option]
Supply = Mapping[str, list[list[int]]]
INFINITE = 10**6
MOST_UNITS = 60


class Unanswerable(Exception):
    """Trying everything does not answer this one."""


@dataclass(frozen=True)
class Facts:
    """What is true of a problem: its best plan, and the fewest of each resource (None: no amount does)."""

    feasible: bool
    best: Plan
    best_share: Fraction


def units(value_ms: int) -> int:
    """Whole units of ms."""
    if value_ms % UNIT_MS:
        raise Unanswerable(f"{value_ms} ms are no whole units")
    return value_ms // UNIT_MS


def horizon(inputs: Inputs) -> int:
    """By when everything can have ended if it can end at all."""
    last = 1
    for job in inputs["jobs"]:
        last = max(
            last, *(-(-(job[key] or 0) // UNIT_MS) for key in ("release_ms", "deadline_ms", "due_ms", "pinned_ms"))
        )
    for steps in inputs["capacity"].values():
        last = max([last, *(units(at) for at, _ in steps)])
    pause = sum(units(job["restart_ms"] or 0) for job in inputs["jobs"])
    end = last + pause + sum(max(units(s["duration_ms"]) for s in job["shapes"]) for job in inputs["jobs"])
    if end > MOST_UNITS:
        raise Unanswerable(f"{end} units are too many to try")
    return end


def amount(supply: Supply, resource: str, at: int) -> int:
    """What there is of a resource in a unit."""
    found = 0
    for from_ms, have in supply.get(resource, []):
        if from_ms <= at * UNIT_MS:
            found = have
    return found


def constant(inputs: Inputs, resource: str, have: int) -> Supply:
    """The capacity with one resource constant."""
    return {**inputs["capacity"], resource: [[-INFINITE * UNIT_MS, have]]}


def options(job: dict[str, Any], end: int) -> Iterator[Option]:
    """Every way to run a job alone that ends by `end`, deadline and capacity left aside."""
    fixed = job["started_ms"] if job["started_ms"] is not None else job["pinned_ms"]
    first = max(0, units(job["release_ms"]))
    for at, shape in enumerate(job["shapes"]):
        length = units(shape["duration_ms"])
        starts = range(first, end - length + 1) if fixed is None else [units(fixed)]
        for start in starts:
            if start + length <= end:
                yield at, ((start, start + length),)
            if job["restart_ms"] is not None:
                yield from _paused(at, start, length + units(job["restart_ms"]), end)


def _paused(at: int, start: int, total: int, end: int) -> Iterator[Option]:
    for head in range(1, total):
        for again in range(start + head, end - (total - head) + 1):
            yield at, ((start, start + head), (again, again + total - head))


def solve(
    inputs: Inputs,
    supply: Supply | None = None,
    *,
    may_drop: bool = False,
    allowed: Callable[[str, Option | None, Plan], bool] = lambda name, option, placed: True,
    worth: Callable[[Plan], Fraction] | None = None,
) -> Plan | None:
    """The plan worth most (the first one without `worth`) that keeps everything; None where there is none.

    With `may_drop` jobs that have a hard deadline may be given up, and those that wait for one that is.
    """
    supply = inputs["capacity"] if supply is None else supply
    jobs = {job["id"]: job for job in inputs["jobs"]}
    order = _ordered(jobs)
    end = horizon(inputs)
    used: dict[tuple[str, int], int] = {}
    plan: Plan = {}
    best: list[tuple[Fraction, Plan]] = []

    def place(depth: int) -> bool:
        if depth == len(order):
            value = Fraction(0) if worth is None else worth(plan)
            if not best or value > best[0][0]:
                best[:] = [(value, dict(plan))]
            return worth is None
        name = order[depth]
        job = jobs[name]
        gone = any(one not in plan for one in job["after"])
        if not gone:
            ready = max((plan[one][1][-1][1] for one in job["after"]), default=-INFINITE)
            limit = end if job["deadline_ms"] is None else min(end, units(job["deadline_ms"]))
            for option in options(job, limit):
                if option[1][0][0] < ready or not allowed(name, option, plan):
                    continue
                cells = [
                    (resource, unit, need)
                    for low, high in option[1]
                    for unit in range(max(0, low), high)
                    for resource, need in job["shapes"][option[0]]["demand"].items()
                ]
                if any(used.get((r, u), 0) + need > amount(supply, r, u) for r, u, need in cells):
                    continue
                for r, u, need in cells:
                    used[r, u] = used.get((r, u), 0) + need
                plan[name] = option
                if place(depth + 1):
                    return True
                del plan[name]
                for r, u, need in cells:
                    used[r, u] -= need
        droppable = gone or job["deadline_ms"] is not None
        return may_drop and droppable and allowed(name, None, plan) and place(depth + 1)

    place(0)
    return best[0][1] if best else None


def _ordered(jobs: dict[str, dict[str, Any]]) -> list[str]:
    order: list[str] = []
    while len(order) < len(jobs):
        order += [n for n, job in sorted(jobs.items()) if n not in order and all(one in order for one in job["after"])]
    return order


def on_time_weight(inputs: Inputs, plan: Plan) -> Fraction:
    """The weight of jobs with a deadline or due time that meet both."""
    total = Fraction(0)
    for job in inputs["jobs"]:
        ends = [units(job[key]) for key in ("deadline_ms", "due_ms") if job[key] is not None]
        if ends and job["id"] in plan and plan[job["id"]][1][-1][1] <= min(ends):
            total += Fraction(job["weight"])
    return total


def timed_weight(inputs: Inputs) -> Fraction:
    """The weight of jobs with a deadline or due time."""
    timed = [job for job in inputs["jobs"] if job["deadline_ms"] is not None or job["due_ms"] is not None]
    return sum((Fraction(job["weight"]) for job in timed), start=Fraction(0))


def facts(inputs: Inputs) -> Facts:
    """Feasibility and the best on-time plan."""

    def worth(plan: Plan) -> Fraction:
        return on_time_weight(inputs, plan)

    whole = solve(inputs, worth=worth)
    best = whole if whole is not None else solve(inputs, may_drop=True, worth=worth)
    if best is None:
        raise Unanswerable("a job without a deadline can never be run")
    total = timed_weight(inputs)
    share = on_time_weight(inputs, best) / total if total else Fraction(1)
    return Facts(feasible=whole is not None, best=best, best_share=share)


def fewest(inputs: Inputs, resource: str) -> tuple[int, Plan] | None:
    """The smallest constant amount with a plan that meets all deadlines."""
    most = sum(max(shape["demand"].get(resource, 0) for shape in job["shapes"]) for job in inputs["jobs"])
    for have in range(most + 1):
        plan = solve(inputs, constant(inputs, resource, have))
        if plan is not None:
            return have, plan
    return None


def soonest(inputs: Inputs) -> tuple[int, Plan] | None:
    """The plan that meets all deadlines and ends first."""

    def worth(plan: Plan) -> Fraction:
        return Fraction(-max((segments[-1][1] for _, segments in plan.values()), default=0))

    plan = solve(inputs, worth=worth)
    return None if plan is None else (max(0, int(-worth(plan))), plan)


def hopeless(inputs: Inputs, name: str) -> bool:
    """A job that cannot meet its deadline even alone, however short its chain of predecessors may be run."""
    return earliest_end(inputs, {job["id"]: job for job in inputs["jobs"]}, name, alone=True) is None


def earliest_end(inputs: Inputs, jobs: dict[str, dict[str, Any]], name: str, *, alone: bool) -> int | None:
    """When a job ends at the earliest: with all capacity to itself, or as if there were always enough of it."""
    job = jobs[name]
    before = [earliest_end(inputs, jobs, one, alone=False) for one in job["after"]]
    if None in before:
        return None
    ready = max((end for end in before if end is not None), default=-INFINITE)
    limit = horizon(inputs) if job["deadline_ms"] is None else units(job["deadline_ms"])
    ends = [
        option[1][-1][1]
        for option in options(job, limit)
        if option[1][0][0] >= ready
        and (_fits_alone(inputs, job, option) if alone else is_held(inputs, job["shapes"][option[0]]))
    ]
    return min(ends, default=None)


def _fits_alone(inputs: Inputs, job: dict[str, Any], option: Option) -> bool:
    return all(
        need <= amount(inputs["capacity"], resource, unit)
        for resource, need in job["shapes"][option[0]]["demand"].items()
        for low, high in option[1]
        for unit in range(max(0, low), high)
    )


def is_held(inputs: Inputs, shape: dict[str, Any]) -> bool:
    """Whether some instant holds the demand of a shape, resource by resource."""
    return all(
        need <= max((amount(inputs["capacity"], resource, unit) for unit in range(horizon(inputs))), default=0)
        for resource, need in shape["demand"].items()
    )


def subsets(names: list[str]) -> Iterator[tuple[str, ...]]:
    """All non-empty subsets, small ones first."""
    for size in range(1, len(names) + 1):
        yield from combinations(names, size)
