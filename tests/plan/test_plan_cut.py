"""Jobs that may be paused: several spans together hold less than is forced into them, where no one span does."""

from __future__ import annotations

import json
from dataclasses import replace
from random import Random

from gpuyield.model.document import canonical_bytes
from gpuyield.model.job import Capacity, PlanJob, Problem
from gpuyield.model.plan import Plan, PlanStatus
from gpuyield.plan import make_plan, plan_document, plan_inputs
from gpuyield.plan.case import Case
from gpuyield.plan.deadlines import worst_overload
from gpuyield.plan.instance.budget import Budget
from gpuyield.plan.proof.cut import cut_certificate
from gpuyield.plan.proof.flow import Flow
from gpuyield.verify import check
from gpuyield.verify.certificates import refute
from gpuyield.verify.problem import read_problem
from gpuyield.verify.question import Question
from plan.small import UNIT_MS, job, problem


def pausable(one: PlanJob) -> PlanJob:
    return replace(one, restart_ms=0)


def around_a_hole(length: int) -> Problem:
    """Both GPUs are taken in hours 0 to 3 and 7 to 10; one job has ten hours for its own."""
    full = [job(f"{name}{at}", 1, 3, release=at, deadline=at + 3) for name in "ab" for at in (0, 7)]
    return problem(*full, pausable(job("long", 1, length, deadline=10)), gpus=2)


def test_a_job_that_does_not_fit_into_the_hole_between_two_full_spans_is_proven_not_to() -> None:
    given = around_a_hole(5)

    plan = make_plan(given)

    assert worst_overload(Case.of(given)) is None
    assert plan.status is PlanStatus.INFEASIBLE
    assert plan.certificate is not None
    assert plan.certificate["kind"] == "cut"
    assert plan.certificate["windows"] == [[0, 3 * UNIT_MS], [7 * UNIT_MS, 10 * UNIT_MS]]
    assert plan.explanation[0].startswith("However they are paused, five jobs must use")
    assert accepted(given, plan)


def test_a_job_that_fits_into_the_hole_is_planned() -> None:
    assert make_plan(around_a_hole(4)).status is PlanStatus.OPTIMAL


def crowded(rng: Random) -> Problem:
    """Some jobs in one piece and some that may be paused, on a calendar, with hardly enough room."""
    jobs = []
    for at in range(rng.randint(4, 20)):
        release, length = rng.randint(0, 12), rng.randint(1, 6)
        one = job(f"j{at}", rng.randint(1, 3), length, release=release, deadline=release + length + rng.randint(0, 5))
        jobs.append(pausable(one) if rng.random() < 0.5 else one)
    steps = ((0, rng.randint(3, 6)), (rng.randint(1, 9) * UNIT_MS, rng.randint(3, 6)))
    return replace(problem(*jobs), capacity=Capacity(steps={"gpu": steps}))


def test_whatever_a_cut_says_verify_accepts_it() -> None:
    found = holes = 0
    for seed in range(150):
        given = crowded(Random(seed))
        case = Case.of(given)
        proof = cut_certificate(case.board, case.steps, case.windows, case.forced, Budget(100_000))
        if proof is None:
            continue
        inputs = read_problem(json.loads(canonical_bytes(plan_inputs(given))))
        assert refute(proof, Question(problem=inputs, printed=inputs)) == "cut"
        found += 1
        holes += len(proof["windows"]) > 1

    assert found > 50
    assert holes > 0


def test_the_flow_is_the_least_cut_found_by_trying_all() -> None:
    for seed in range(200):
        rng = Random(seed)
        nodes = rng.randint(3, 7)
        edges = [(rng.randrange(nodes), rng.randrange(nodes), rng.randint(1, 9)) for _ in range(rng.randint(2, 16))]
        edges = [edge for edge in edges if edge[0] != edge[1]]
        flow = Flow(nodes)
        for edge in edges:
            flow.add(*edge)

        total = flow.fill()

        cuts = [
            sum(room for one, other, room in edges if side >> one & 1 and not side >> other & 1)
            for side in range(1 << nodes)
            if side >> Flow.source & 1 and not side >> Flow.sink & 1
        ]
        inside = flow.reached()
        assert total == min(cuts)
        assert total == sum(room for one, other, room in edges if inside[one] and not inside[other])


def accepted(given: Problem, plan: Plan) -> bool:
    document = json.loads(json.dumps(plan_document(given, plan)))
    return check(document, canonical_bytes(plan_inputs(given))).accepted
