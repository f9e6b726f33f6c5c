"""PSPLIB, makespan, 10 s each: how many are optimal, how many proven, and how far the others are from the best known.

    python benchmarks/plan_psplib.py FOLDER_OF_RCPSP [--sample 60] [--sets j30 j60] [--time 10] [--alone]

The folder holds `j30.sm.tar.xz`, `j60.sm.tar.xz` and `bks.csv`. With `--alone` plain CP-SAT gets the same instances and
the same time.
"""

from __future__ import annotations

import argparse
import csv
import re
import tarfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

import numpy as np

from gpuyield.model.job import Capacity, PlanJob, PlanObjective, Problem, Shape
from gpuyield.plan import make_plan
from gpuyield.plan.kernel.warm import warm_learning
from gpuyield.steps.compiled import keep_compiled
from gpuyield.units import MINUTE_MS

GOALS = {"j30": ("90", "95"), "j60": ("1.2", "0.9")}


@dataclass(frozen=True, slots=True)
class Instance:
    """A project: durations, amounts of each resource by job, what each job waits for, and what there is."""

    name: str
    durations: list[int]
    demands: list[list[int]]
    before: list[list[int]]
    amounts: list[int]


@dataclass(frozen=True, slots=True)
class Reached:
    """The last end that was found, and the proven bound."""

    end: int
    bound: int
    is_certified: bool
    time_s: float


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("folder", type=Path)
    options.add_argument("--sample", type=int, default=12, help="instances of each set (the floor is judged with 60)")
    options.add_argument("--sets", nargs="+", default=["j30", "j60"])
    options.add_argument("--time", type=float, default=10.0)
    options.add_argument("--alone", action="store_true")
    chosen = options.parse_args()
    keep_compiled()
    warm_learning()
    with (chosen.folder / "bks.csv").open() as file:
        known = {row["instance"]: int(row["upper_bound"]) for row in csv.DictReader(file)}
    lanes: dict[str, Callable[[Instance, float], Reached]] = {"planner": planned}
    if chosen.alone:
        lanes["cp-sat alone"] = alone
    for group in chosen.sets:
        found = list(instances(chosen.folder / f"{group}.sm.tar.xz"))
        picked = sorted(np.random.default_rng(0).permutation(len(found))[: chosen.sample])
        for lane, run in lanes.items():
            report(group, lane, [(known[found[at].name], run(found[at], chosen.time)) for at in picked])


def report(group: str, lane: str, rows: list[tuple[int, Reached]]) -> None:
    floor, stretch = GOALS[group]
    optimal = mean(one.end == best for best, one in rows)
    gap = mean((one.end - best) / best for best, one in rows)
    name = f"plan.psplib.{group}" if lane == "planner" else f"plan.psplib.{group}.alone"
    in_gap = group == "j60"
    print(f"{name}.optimal {100 * optimal:.1f} %" + ("" if in_gap else f" ({floor}, {stretch})"))
    print(f"{name}.gap {100 * gap:.2f} %" + (f" ({floor}, {stretch})" if in_gap else ""))
    print(f"{name}.certified {100 * mean(one.is_certified for _, one in rows):.1f} %")
    print(f"{name}.time {np.median([one.time_s for _, one in rows]):.2f} s median, {len(rows)} instances", flush=True)


def planned(instance: Instance, limit_s: float) -> Reached:
    """What the planner makes of it."""
    began = time.perf_counter()
    plan = make_plan(problem_of(instance), should_stop=lambda: time.perf_counter() - began > limit_s, work=2_000_000)
    value, bound = plan.objective.value, plan.objective.bound
    assert value is not None
    assert bound is not None
    unit = MINUTE_MS // 1000
    return Reached(int(value / unit), int(bound / unit), value == bound, time.perf_counter() - began)


def alone(instance: Instance, limit_s: float) -> Reached:
    """What plain CP-SAT makes of it, with both cores."""
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    horizon = sum(instance.durations)
    starts = [model.new_int_var(0, horizon, "") for _ in instance.durations]
    spans = [
        model.new_fixed_size_interval_var(start, length, "")
        for start, length in zip(starts, instance.durations, strict=True)
    ]
    last = model.new_int_var(0, horizon, "")
    for at, before in enumerate(instance.before):
        model.add(last >= starts[at] + instance.durations[at])
        for one in before:
            model.add(starts[at] >= starts[one] + instance.durations[one])
    for resource, amount in enumerate(instance.amounts):
        model.add_cumulative(spans, [demand[resource] for demand in instance.demands], amount)
    model.minimize(last)
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = limit_s
    solver.parameters.num_workers = 2
    status = solver.solve(model)
    return Reached(
        round(solver.objective_value), round(solver.best_objective_bound), status == cp_model.OPTIMAL, solver.wall_time
    )


def problem_of(instance: Instance) -> Problem:
    """A unit of time is a minute."""
    jobs = tuple(
        PlanJob(
            id=f"j{at}",
            shapes=(
                Shape(
                    demand={f"r{number}": amount for number, amount in enumerate(demand) if amount} or {"none": 1},
                    duration_ms=length * MINUTE_MS,
                ),
            ),
            after=tuple(f"j{one}" for one in before),
        )
        for at, (length, demand, before) in enumerate(
            zip(instance.durations, instance.demands, instance.before, strict=True)
        )
    )
    steps = {f"r{number}": ((0, amount),) for number, amount in enumerate(instance.amounts)}
    steps["none"] = ((0, len(jobs)),)
    return Problem(origin_ms=0, jobs=jobs, capacity=Capacity(steps=steps), objective=PlanObjective.MAKESPAN)


def instances(path: Path) -> Iterator[Instance]:
    """The instances of an archive, by name; source and sink are left out."""
    with tarfile.open(path) as archive:
        for member in sorted(archive.getmembers(), key=lambda one: one.name):
            if not member.name.endswith(".sm"):
                continue
            file = archive.extractfile(member)
            assert file is not None
            yield read(Path(member.name).stem, file.read().decode("latin-1"))


def read(name: str, text: str) -> Instance:
    """One `.sm` file."""

    def rows(title: str, skipped: int) -> list[list[int]]:
        lines = text[text.index(title) :].splitlines()[skipped:]
        found = []
        for line in lines:
            if line.startswith("*"):
                break
            found.append([int(one) for one in re.findall(r"-?\d+", line)])
        return found

    order, work = rows("PRECEDENCE RELATIONS", 2), rows("REQUESTS/DURATIONS", 3)
    amounts = rows("RESOURCEAVAILABILITIES", 2)[0]
    last = len(order)
    before: dict[int, list[int]] = {number: [] for number in range(1, last + 1)}
    for number, _, _, *following in order:
        for one in following:
            before[one].append(number)
    kept = range(2, last)
    return Instance(
        name=name,
        durations=[work[number - 1][2] for number in kept],
        demands=[work[number - 1][3:] for number in kept],
        before=[[one - 2 for one in before[number] if one != 1] for number in kept],
        amounts=amounts,
    )


if __name__ == "__main__":
    main()
