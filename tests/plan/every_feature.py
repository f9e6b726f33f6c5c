"""Random planning problems in which every feature of job and capacity files turns up, together with the others.

Some are tight and some loose; times may be whole units or odd milliseconds. No plan is tried here, so the jobs may be
many. The only thing kept out is what the planner calls a mistake: a started job whose predecessor has not ended.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal

from gpuyield.model.job import Capacity, PlanJob, PlanObjective, Problem, QueueQuota, ResourceQuota, Shape
from plan.small import ORIGIN_MS

FEATURES = (
    *("steps", "after", "due", "loose", "weights", "started", "pinned", "paused", "moldable", "odd", "absent"),
    *("flavors", "processors"),
)


def problem_of(seed: int, *, most_jobs: int = 8) -> Problem:
    """A problem of up to so many jobs; each feature is in it with a chance of a third."""
    chance = random.Random(f"quotas {seed}")
    problem = _Maker.of(random.Random(f"plan {seed}")).problem(most_jobs)
    return with_quotas(problem, chance) if chance.random() < 0.35 else problem


def with_quotas(problem: Problem, chance: random.Random) -> Problem:
    """The same with queues a and b in a cohort, c in it or alone, and quotas of most resources for each."""
    most = {name: max(amount for _, amount in steps) for name, steps in problem.capacity.steps.items()}
    queues = [
        QueueQuota(
            queue=queue,
            cohort=cohort,
            resources={
                name: _quota(chance, amount, alone=cohort is None)
                for name, amount in most.items()
                if chance.random() < 0.95
            },
        )
        for queue, cohort in (("a", "eu"), ("b", "eu"), ("c", chance.choice(["eu", None])))
    ]
    jobs = tuple(replace(job, queue=chance.choice(["a", "a", "b", "c", None])) for job in problem.jobs)
    return replace(problem, jobs=jobs, quotas=tuple(queues))


def _quota(chance: random.Random, most: int, *, alone: bool) -> ResourceQuota:
    nominal = chance.randint(0, most)
    if chance.random() < 0.15:
        return ResourceQuota(nominal=((0, nominal), (chance.randint(1, 9) * 60_000, most)))
    return ResourceQuota(
        nominal=nominal,
        borrow=None if alone or chance.random() < 0.5 else chance.randint(0, 3),
        lend=None if chance.random() < 0.5 else chance.randint(0, nominal),
    )


def prices_of(problem: Problem) -> Mapping[str, Decimal] | None:
    """A price of every resource that anything names, where the objective asks for prices."""
    if problem.objective is not PlanObjective.CHEAPEST:
        return None
    named = {name for one in problem.jobs for shape in one.shapes for name in shape.demand}
    return {name: Decimal(1) + Decimal(at) / 4 for at, name in enumerate(sorted(named.union(problem.capacity.steps)))}


@dataclass(frozen=True, slots=True)
class _Maker:
    chance: random.Random
    features: frozenset[str]
    unit_ms: int
    tight: bool

    @staticmethod
    def of(chance: random.Random) -> _Maker:
        """The features of one problem."""
        features = frozenset(one for one in FEATURES if chance.random() < 0.35)
        unit_ms = chance.choice([60_000, 60_000, 3_600_000, 1_000, 997, 1])
        return _Maker(chance, features, unit_ms, chance.random() < 0.4)

    def problem(self, most_jobs: int) -> Problem:
        chance = self.chance
        capacity = {name: self.steps() for name in self.resources()}
        jobs: list[PlanJob] = []
        for number in range(chance.randint(1, most_jobs)):
            jobs.append(self.job(number, jobs))
        objective = chance.choice(list(PlanObjective))
        counted = chance.choice(sorted(capacity)) if objective is PlanObjective.FEWEST_GPUS else None
        return Problem(
            origin_ms=ORIGIN_MS + chance.choice([0, 0, 1, 1_500]),
            jobs=tuple(jobs),
            capacity=Capacity(steps=capacity),
            objective=objective,
            resource=counted,
        )

    def resources(self) -> list[str]:
        gpus = ["gpu/a", "gpu/b"] if "flavors" in self.features else ["gpu"]
        return [*gpus, "cpu"] if "processors" in self.features else gpus

    def steps(self) -> tuple[tuple[int, int], ...]:
        chance = self.chance
        most = chance.randint(1, 5) if self.tight else chance.randint(3, 8)
        found = [(chance.choice([0] * 8 + [-3, 2]) * self.unit_ms, most)]
        for _ in range(chance.randint(1, 4) if "steps" in self.features else 0):
            found.append((found[-1][0] + chance.randint(1, 5) * self.unit_ms, chance.randint(0, most + 1)))
        return tuple(found)

    def job(self, number: int, before: list[PlanJob]) -> PlanJob:
        chance, unit_ms = self.chance, self.unit_ms
        length = chance.randint(1, 4)
        release = chance.choice([0, 0, 1, 2, 3, -1])
        spare = chance.choice([-2, -1, 0, 0, 1, 1, 2, 3, 4, 6] if self.tight else [1, 2, 4, 6, 8, 10, 14, 20])
        made = PlanJob(
            id=f"j{number}",
            shapes=self.shapes(length),
            release_ms=release * unit_ms,
            deadline_ms=(max(0, release) + length + spare) * unit_ms + self.odd(),
        )
        if self.has("after", 0.5) and before:
            waits = chance.sample(before, min(len(before), chance.randint(1, 2)))
            made = replace(made, after=tuple(one.id for one in waits))
        if self.has("loose", 0.4):
            made = replace(made, deadline_ms=None)
        if self.has("due", 0.5):
            made = replace(made, due_ms=(release + length + chance.randint(-1, 5)) * unit_ms + self.odd())
        if self.has("weights", 1):
            made = replace(made, weight=Decimal(chance.choice(["0", "1", "2.5", "4", "0.001"])))
        if self.has("paused", 0.5):
            made = replace(made, restart_ms=chance.choice([0, 1, unit_ms, unit_ms // 2]))
        if self.has("started", 0.3):
            return _in_order(replace(made, started_ms=-chance.randint(0, 6) * unit_ms - abs(self.odd())), before)
        if self.has("pinned", 0.3):
            return replace(made, pinned_ms=chance.choice([-1, 0, 0, 1, 2, 3, 5, 6]) * unit_ms + abs(self.odd()))
        return made

    def shapes(self, length: int) -> tuple[Shape, ...]:
        chance = self.chance
        width = chance.randint(1, 4) if self.tight else chance.choice([1, 1, 1, 2, 2, 3])
        more = {"cpu": chance.randint(1, 4)} if self.has("processors", 0.6) else {}
        flavors: list[str | None] = [None]
        if "flavors" in self.features:
            flavors = chance.choice([["a"], ["b"], ["a", "b"]])
        if self.has("absent", 0.15):
            flavors = chance.choice([["gone"], [*flavors, "gone"]])
        return tuple(
            Shape(
                flavor=flavor,
                demand={"gpu" if flavor is None else f"gpu/{flavor}": max(1, width - fewer), **more},
                duration_ms=max(1, (length + fewer + slower) * self.unit_ms + self.odd()),
            )
            for slower, flavor in enumerate(flavors)
            for fewer in range(chance.randint(1, 3) if self.has("moldable", 0.5) else 1)
        )

    def has(self, feature: str, share: float) -> bool:
        return feature in self.features and self.chance.random() < share

    def odd(self) -> int:
        return self.chance.choice([0, 0, 1, -1, 499]) if "odd" in self.features else 0


def _in_order(started: PlanJob, before: list[PlanJob]) -> PlanJob:
    """The started job, waiting only for those that surely had ended."""
    assert started.started_ms is not None
    over = {
        one.id
        for one in before
        if one.started_ms is not None
        and one.started_ms + max(shape.duration_ms for shape in one.shapes) <= started.started_ms
    }
    return replace(started, after=tuple(name for name in started.after if name in over))
