from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuyield.model.document import canonical_bytes
from gpuyield.model.job import Capacity, PlanJob, PlanObjective, Problem, Shape
from gpuyield.plan import make_plan, plan_document, plan_inputs
from gpuyield.plan.case import Case
from gpuyield.plan.deadlines import rule_schedules
from gpuyield.plan.instance.budget import Budget
from gpuyield.plan.instance.schedule import Schedule
from gpuyield.plan.kernel.lanes import compiled_project
from gpuyield.plan.kernel.project import Brood, Project, breed
from gpuyield.plan.search.bred import bred, brood_of, project_of
from gpuyield.units import MINUTE_MS
from gpuyield.verify import check

SEEDS = st.integers(0, 10_000)
NEVER_REACHED = 0


def project_problem(seed: int, jobs: int = 25) -> Problem:
    """Jobs of one shape on three resources, most of which wait for one or two others."""
    chance = np.random.default_rng(seed)
    found = []
    for at in range(jobs):
        waits = {int(chance.integers(at)) for _ in range(int(chance.integers(3)))} if at else set()
        demand = {f"r{which}": int(chance.integers(1, 6)) for which in range(3) if chance.random() < 0.7}
        found.append(
            PlanJob(
                id=f"j{at}",
                shapes=(Shape(demand=demand or {"r0": 1}, duration_ms=int(chance.integers(1, 9)) * MINUTE_MS),),
                release_ms=int(chance.integers(3)) * 5 * MINUTE_MS,
                after=tuple(f"j{one}" for one in sorted(waits)),
            )
        )
    steps = {f"r{which}": ((0, int(chance.integers(6, 12))),) for which in range(3)}
    return Problem(origin_ms=0, jobs=tuple(found), capacity=Capacity(steps=steps), objective=PlanObjective.MAKESPAN)


def by_rule(case: Case) -> Schedule:
    """The first list rule's schedule."""
    return rule_schedules(case, Budget(100_000))[0]


def begun(case: Case) -> tuple[Project, Brood]:
    """A search for an early end that knows nothing yet."""
    project = project_of(case, MINUTE_MS, by_rule(case).end_ms())
    assert project is not None
    return project, brood_of(project, 10**6, 1)


@given(seed=SEEDS)
@settings(max_examples=6, deadline=None)
def test_what_is_bred_keeps_to_the_problem_and_never_ends_later(seed: int) -> None:
    problem = project_problem(seed)
    case = Case.of(problem)
    best = by_rule(case)

    found = bred(case, best, NEVER_REACHED, 0, Budget(1_500))

    runs = {task.job.id: one for task, one in zip(case.board.tasks, found.placed, strict=True) if one is not None}
    assert found.end_ms() <= best.end_ms()
    for job in problem.jobs:
        assert runs[job.id].start_ms >= max([job.release_ms, *(runs[one].end_ms for one in job.after)])
    for name, ((_, amount),) in problem.capacity.steps.items():
        for at in {one.start_ms for one in runs.values()}:
            held = [
                job.shapes[0].demand.get(name, 0)
                for job in problem.jobs
                if runs[job.id].start_ms <= at < runs[job.id].end_ms
            ]
            assert sum(held) <= amount


def test_both_lanes_breed_alike() -> None:
    case = Case.of(project_problem(3))
    project, slow = begun(case)
    _, fast = begun(case)

    breed(project, slow, 0, 150, 0, 8)
    compiled_project()(project, fast, 0, 150, 0, 8)

    for one, other in zip(slow, fast, strict=True):
        np.testing.assert_array_equal(one, other)


def test_breeding_ends_once_the_end_is_proven_to_be_the_least() -> None:
    case = Case.of(project_problem(5))
    project, brood = begun(case)

    bound = make_plan(project_problem(5)).objective.bound
    assert bound is not None
    looked_at = breed(project, brood, 0, 5_000, int(bound * 1000) // MINUTE_MS, 8)

    assert looked_at < 5_000
    assert brood.best_end[0] * MINUTE_MS == bound * 1000


def test_where_jobs_have_a_choice_or_amounts_change_nothing_is_bred() -> None:
    problem = project_problem(2)
    first = problem.jobs[0]
    fast = Shape(demand={"r0": 1}, duration_ms=MINUTE_MS)
    chosen = PlanJob(id=first.id, shapes=(*first.shapes, fast))
    with_choice = Problem(origin_ms=0, jobs=(chosen, *problem.jobs[1:]), capacity=problem.capacity)
    later_more = Capacity(steps={**problem.capacity.steps, "r0": ((0, 6), (MINUTE_MS, 7))})
    changing = Problem(origin_ms=0, jobs=problem.jobs, capacity=later_more)

    projects = [project_of(Case.of(one), MINUTE_MS, 10**8) for one in (with_choice, changing)]

    assert projects == [None, None]


def test_an_early_end_is_accepted_by_verify_and_the_same_each_time() -> None:
    problem = project_problem(11, jobs=30)

    plans = [make_plan(problem, work=60_000) for _ in range(2)]

    report = check(plan_document(problem, plans[0]), canonical_bytes(plan_inputs(problem)))
    assert report.refused == ()
    assert plan_document(problem, plans[0]) == plan_document(problem, plans[1])


def test_of_many_jobs_a_long_one_does_not_wait_for_those_with_nearer_deadlines() -> None:
    """The deadlines alone let it start when the crowd is through, an hour too late."""
    crowd = tuple(
        PlanJob(id=f"short-{at:03}", shapes=(shape(10),), deadline_ms=(10 * (at // 8) + 60) * MINUTE_MS)
        for at in range(480)
    )
    long = PlanJob(id="long", shapes=(shape(590),), deadline_ms=1_300 * MINUTE_MS)
    problem = Problem(
        origin_ms=0,
        jobs=(*crowd, long),
        capacity=Capacity(steps={"gpu": ((0, 9),)}),
        objective=PlanObjective.MAKESPAN,
    )

    plan = make_plan(problem)

    assert plan.objective.bound is not None
    assert 598 * 60 <= plan.objective.bound <= 600 * 60 <= (plan.objective.value or 0) <= 601 * 60
    assert all(one.run is not None for one in plan.jobs)
    assert not check(plan_document(problem, plan), canonical_bytes(plan_inputs(problem))).refused


def shape(minutes: int) -> Shape:
    """One GPU for so long."""
    return Shape(demand={"gpu": 1}, duration_ms=minutes * MINUTE_MS)
