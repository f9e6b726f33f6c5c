"""Small planning problems from a seed, and their truth by trying everything.

Shares no code with the planner: starts and shapes are enumerated on a grid of whole units, load is counted per unit.
Every duration, release, deadline and step of capacity is a whole number of units, so a plan exists exactly if one does
on the grid.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import replace
from decimal import Decimal

from gpuyield.model.job import Capacity, PlanJob, PlanObjective, Problem, Shape
from gpuyield.model.plan import Plan

UNIT_MS = 60_000
ORIGIN_MS = 1_796_072_400_000
FEATURES = ("steps", "after", "resources", "shapes", "pinned", "due", "loose", "weights")


def job(
    name: str,
    gpus: int,
    length: int,
    *,
    release: int = 0,
    deadline: int | None = None,
    due: int | None = None,
    after: tuple[str, ...] = (),
    weight: str = "1",
) -> PlanJob:
    """A job on `gpu`, times in units."""
    return PlanJob(
        id=name,
        shapes=(Shape(demand={"gpu": gpus}, duration_ms=length * UNIT_MS),),
        release_ms=release * UNIT_MS,
        deadline_ms=None if deadline is None else deadline * UNIT_MS,
        due_ms=None if due is None else due * UNIT_MS,
        after=after,
        weight=Decimal(weight),
    )


def problem(
    *jobs: PlanJob, gpus: int = 4, objective: PlanObjective = PlanObjective.ON_TIME, zone: str = "UTC"
) -> Problem:
    """Jobs on a constant number of GPUs."""
    return Problem(
        origin_ms=ORIGIN_MS,
        jobs=jobs,
        capacity=Capacity(steps={"gpu": ((0, gpus),)}),
        objective=objective,
        zone=zone,
    )


def random_problem(seed: int, *, most_jobs: int = 6, plain: bool = False) -> Problem:
    """A problem of up to so many jobs; each feature is in it with a chance of a quarter, none where `plain`."""
    chance = random.Random(seed)
    features = set() if plain else {one for one in FEATURES if chance.random() < 0.25}
    gpus = chance.randint(1, 4)
    capacity = _random_capacity(chance, gpus, features)
    jobs = [_random_job(chance, number, gpus, features) for number in range(chance.randint(1, most_jobs))]
    return Problem(origin_ms=ORIGIN_MS, jobs=tuple(jobs), capacity=Capacity(steps=capacity))


def _random_capacity(chance: random.Random, gpus: int, features: set[str]) -> dict[str, tuple[tuple[int, int], ...]]:
    steps: list[tuple[int, int]] = [(0, gpus)]
    if "steps" in features:
        at = 0
        steps = []
        for _ in range(chance.randint(2, 4)):
            steps.append((at, chance.randint(0, gpus)))
            at += chance.randint(1, 4)
        steps.append((at, gpus))
    main = tuple((at * UNIT_MS, amount) for at, amount in steps)
    found = {"gpu": main}
    if "shapes" in features:
        found = {"gpu/a": main, "gpu/b": ((0, chance.randint(1, 2)),)}
    if "resources" in features:
        found["cpu"] = ((0, chance.randint(3, 6)),)
    return found


def _random_job(chance: random.Random, number: int, gpus: int, features: set[str]) -> PlanJob:
    length, release = chance.randint(1, 3), chance.randint(0, 4)
    end = release + length + chance.randint(0, 5)
    cpu = {"cpu": chance.randint(1, 3)} if "resources" in features and chance.random() < 0.6 else {}
    width = chance.randint(1, gpus)
    shapes: tuple[Shape, ...] = (Shape(demand={"gpu": width, **cpu}, duration_ms=length * UNIT_MS),)
    if "shapes" in features:
        lengths = {"a": length, "b": length + chance.randint(0, 2)}
        shapes = tuple(
            Shape(flavor=flavor, demand={f"gpu/{flavor}": min(width, 2), **cpu}, duration_ms=lengths[flavor] * UNIT_MS)
            for flavor in chance.choice([["a"], ["b"], ["a", "b"]])
        )
    made = PlanJob(
        id=f"j{number}", shapes=shapes, release_ms=release * UNIT_MS, deadline_ms=end * UNIT_MS, weight=Decimal(1)
    )
    if "after" in features and number and chance.random() < 0.5:
        made = replace(made, after=(f"j{chance.randrange(number)}",), deadline_ms=(end + 3) * UNIT_MS)
    if "due" in features and chance.random() < 0.5:
        made = replace(made, due_ms=(release + length + chance.randint(0, 2)) * UNIT_MS)
    if "loose" in features and chance.random() < 0.4:
        made = replace(made, deadline_ms=None)
    if "weights" in features:
        made = replace(made, weight=Decimal(chance.choice(["1", "2.5", "4"])))
    if "pinned" in features and not made.after and made.deadline_ms is not None and chance.random() < 0.25:
        made = replace(made, pinned_ms=chance.randint(release, release + 2) * UNIT_MS)
    return made


Choice = tuple[int, int]
"""Shape and start in units."""


def can_meet_all(problem: Problem) -> bool:
    """Whether all hard deadlines can be met: every start and shape of every job that matters is tried."""
    needed = _needed(problem)
    jobs = [one for one in _sorted_by_order(problem) if one.id in needed]
    return _extend(problem, jobs, {}, {})


def _needed(problem: Problem) -> set[str]:
    """Jobs with a deadline or a fixed start, and whatever they wait for."""
    by_id = {one.id: one for one in problem.jobs}
    waiting = [one.id for one in problem.jobs if one.deadline_ms is not None or _fixed(one) is not None]
    needed: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name not in needed:
            needed.add(name)
            waiting.extend(by_id[name].after)
    return needed


def _sorted_by_order(problem: Problem) -> list[PlanJob]:
    done: list[PlanJob] = []
    left = list(problem.jobs)
    while left:
        ready = next(one for one in left if all(any(made.id == name for made in done) for name in one.after))
        left.remove(ready)
        done.append(ready)
    return done


def _fixed(one: PlanJob) -> int | None:
    return one.started_ms if one.started_ms is not None else one.pinned_ms


def _extend(problem: Problem, jobs: list[PlanJob], ends: dict[str, int], load: dict[tuple[str, int], int]) -> bool:
    if not jobs:
        return True
    first, *others = jobs
    for shape, start in _choices(problem, first, ends):
        end = start + shape.duration_ms // UNIT_MS
        cells = [(name, at, amount) for name, amount in shape.demand.items() for at in range(start, end)]
        if any(load.get((name, at), 0) + amount > _there(problem, name, at) for name, at, amount in cells):
            continue
        for name, at, amount in cells:
            load[name, at] = load.get((name, at), 0) + amount
        if _extend(problem, others, {**ends, first.id: end}, load):
            return True
        for name, at, amount in cells:
            load[name, at] -= amount
    return False


def _choices(problem: Problem, one: PlanJob, ends: Mapping[str, int]) -> Iterator[tuple[Shape, int]]:
    horizon = 40 if one.deadline_ms is None else one.deadline_ms // UNIT_MS
    for shape in one.shapes:
        length = shape.duration_ms // UNIT_MS
        earliest = max([one.release_ms // UNIT_MS, 0, *(ends[name] for name in one.after)])
        fixed = _fixed(one)
        starts = range(earliest, horizon - length + 1)
        if fixed is not None:
            held = all(ends[name] * UNIT_MS <= fixed for name in one.after)
            starts = range(fixed // UNIT_MS, fixed // UNIT_MS + (1 if held else 0))
        for start in starts:
            if start + length <= horizon:
                yield shape, start


def _there(problem: Problem, resource: str, unit: int) -> int:
    found = 0
    for from_ms, amount in problem.capacity.steps.get(resource, ()):
        if from_ms <= unit * UNIT_MS:
            found = amount
    return found


def overbooked(problem: Problem, plan: Plan) -> list[tuple[str, int]]:
    """The resources and instants at which a plan holds more than exists; instants are all starts and steps."""
    runs = [
        (problem_job.shapes[one.run.shape], one.run)
        for one in plan.jobs
        if one.run is not None
        for problem_job in problem.jobs
        if problem_job.id == one.id
    ]
    found = []
    for name, steps in problem.capacity.steps.items():
        instants = {0, *(max(0, run.start_ms) for _, run in runs), *(at for at, _ in steps if at >= 0)}
        for at in sorted(instants):
            held = sum(shape.demand.get(name, 0) for shape, run in runs if run.start_ms <= at < run.end_ms)
            if held > problem.capacity.amount(name, at):
                found.append((name, at))
    return found
