"""Many jobs on few GPUs, and whether a schedule holds more than there is, counted instant by instant."""

from __future__ import annotations

import random
from decimal import Decimal
from fractions import Fraction

from gpuyield.model.job import Capacity, PlanJob, PlanObjective, Problem, Shape
from gpuyield.plan.case import Case
from gpuyield.plan.instance.schedule import Schedule

MINUTE_MS = 60_000


def crowded(
    jobs: int, seed: int = 0, *, gpus: int = 8, load: float = 1.1, objective: PlanObjective = PlanObjective.ON_TIME
) -> Problem:
    """So many rigid jobs with deadlines whose work is about `load` of what the GPUs can do; times in minutes."""
    chance = random.Random(seed)
    sizes = [(chance.choice([1, 1, 2, 4]), chance.randint(5, 90)) for _ in range(jobs)]
    horizon = max(1, int(sum(width * length for width, length in sizes) / (gpus * load)))
    planned = []
    for number, (width, length) in enumerate(sizes):
        release = chance.randrange(horizon)
        planned.append(
            PlanJob(
                id=f"j{number}",
                shapes=(Shape(demand={"gpu": width}, duration_ms=length * MINUTE_MS),),
                release_ms=release * MINUTE_MS,
                deadline_ms=(release + int(length * chance.uniform(1.2, 5)) + 1) * MINUTE_MS,
                weight=Decimal(chance.choice(["1", "2", "2.5", "10"])),
            )
        )
    return Problem(
        origin_ms=0, jobs=tuple(planned), capacity=Capacity(steps={"gpu": ((0, gpus),)}), objective=objective
    )


def overfull(case: Case, schedule: Schedule) -> list[tuple[str, int]]:
    """Where and when more is held than exists, from the origin on."""
    found = []
    runs = [one for one in schedule.placed if one is not None]
    for resource, name in enumerate(case.board.resources):
        instants = {0, *(start for one in runs for start, _ in one.segments), *(at for at, _ in case.steps[resource])}
        for at in sorted(one for one in instants if one >= 0):
            held = sum(
                one.mode.amount(resource) for one in runs if any(start <= at < end for start, end in one.segments)
            )
            there = [amount for from_ms, amount in case.steps[resource] if from_ms <= at]
            if held > (there[-1] if there else 0):
                found.append((name, at))
    return found


def weight_on_time(case: Case, schedule: Schedule) -> Fraction:
    """The weight of the jobs that meet their deadline."""
    return sum(
        (
            Fraction(task.weight)
            for task, one in zip(case.board.tasks, schedule.placed, strict=True)
            if one is not None and task.deadline_ms is not None and one.end_ms <= task.deadline_ms
        ),
        start=Fraction(0),
    )
