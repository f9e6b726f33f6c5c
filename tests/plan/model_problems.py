"""Small random problems on whole units that use each feature of job and capacity files in turn."""

from __future__ import annotations

import random
from dataclasses import replace
from decimal import Decimal

from gpuyield.model.job import Capacity, PlanJob, PlanObjective, Problem, Shape
from plan.every_feature import with_quotas
from plan.small import ORIGIN_MS, UNIT_MS

FEATURES = (
    *("gangs", "resources", "flavors", "moldable", "due", "after", "steps", "quotas", "running", "pinned", "paused"),
    *("loose", "all"),
)
OBJECTIVES = tuple(PlanObjective)


def model_problem(seed: int) -> Problem:
    """One feature after the other, one objective after the other; the last feature is a mix of three."""
    chance = random.Random(f"model {seed}")
    feature = FEATURES[seed % len(FEATURES)]
    used = {feature} if feature != "all" else set(chance.sample(FEATURES[:-1], 3))
    objective = OBJECTIVES[seed // len(FEATURES) % len(OBJECTIVES)]
    capacity = _capacity(chance, used)
    jobs: list[PlanJob] = []
    for number in range(chance.randint(3, 6)):
        jobs.append(_job(chance, number, jobs, used))
    problem = Problem(
        origin_ms=ORIGIN_MS,
        jobs=tuple(jobs),
        capacity=Capacity(steps=capacity),
        objective=objective,
        resource=sorted(capacity)[-1] if objective is PlanObjective.FEWEST_GPUS else None,
    )
    return with_quotas(problem, chance) if "quotas" in used else problem


def _capacity(chance: random.Random, used: set[str]) -> dict[str, tuple[tuple[int, int], ...]]:
    most = chance.randint(2, 4)
    steps = [(0, most)]
    if "steps" in used:
        for _ in range(chance.randint(1, 3)):
            steps.append((steps[-1][0] + chance.randint(1, 4), chance.randint(0, most)))
        steps.append((steps[-1][0] + chance.randint(1, 3), most))
    main = tuple((at * UNIT_MS, amount) for at, amount in steps)
    found = {"gpu": main}
    if "flavors" in used:
        found = {"gpu/a": main, "gpu/b": ((0, chance.randint(1, 3)),)}
    if "resources" in used:
        found["cpu"] = ((0, chance.randint(3, 6)),)
    return found


def _job(chance: random.Random, number: int, before: list[PlanJob], used: set[str]) -> PlanJob:
    length, release = chance.randint(1, 4), chance.choice([0, 0, 1, 2, 3])
    made = PlanJob(
        id=f"j{number}",
        shapes=_shapes(chance, length, used),
        release_ms=release * UNIT_MS,
        deadline_ms=(release + length + chance.randint(0, 7)) * UNIT_MS,
        weight=Decimal(chance.choice(["1", "1", "2.5", "4"])),
    )
    if "after" in used and before and chance.random() < 0.6:
        made = replace(made, after=(chance.choice(before).id,), deadline_ms=(release + length + 8) * UNIT_MS)
    if "due" in used and chance.random() < 0.7:
        made = replace(made, due_ms=(release + length + chance.randint(0, 3)) * UNIT_MS)
    if "loose" in used and chance.random() < 0.5:
        made = replace(made, deadline_ms=None)
    if "paused" in used and chance.random() < 0.6:
        made = replace(made, restart_ms=chance.choice([0, 1]) * UNIT_MS)
    if number == 0 and "running" in used:
        made = replace(made, started_ms=-chance.randint(0, 2) * UNIT_MS, release_ms=0)
    if number == 0 and "pinned" in used:
        made = replace(made, pinned_ms=chance.randint(0, 3) * UNIT_MS)
    return made


def _shapes(chance: random.Random, length: int, used: set[str]) -> tuple[Shape, ...]:
    width = chance.randint(1, 3)
    more = {"cpu": chance.randint(1, 3)} if "resources" in used and chance.random() < 0.7 else {}
    flavors: list[str | None] = [None]
    if "flavors" in used:
        flavors = chance.choice([["a"], ["b"], ["a", "b"], ["a", "b"]])
    return tuple(
        Shape(
            flavor=flavor,
            demand={"gpu" if flavor is None else f"gpu/{flavor}": max(1, width - fewer), **more},
            duration_ms=(length + fewer + slower) * UNIT_MS,
        )
        for slower, flavor in enumerate(flavors)
        for fewer in range(2 if "moldable" in used and width > 1 else 1)
    )
