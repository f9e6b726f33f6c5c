"""Learning from dead ends is right, `verify` accepts its lemmas, and no lemmas rule out a problem that has a plan."""

from __future__ import annotations

import copy
import json
from collections import Counter
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from gpuyield.model.document import canonical_bytes
from gpuyield.model.job import Capacity, Problem
from gpuyield.plan import plan_inputs
from gpuyield.plan.case import Case
from gpuyield.plan.instance.budget import Budget
from gpuyield.plan.kernel.lanes import compiled_learning
from gpuyield.plan.proof.exact import Answer, bound_tasks
from gpuyield.plan.proof.learn import Learned, learn
from gpuyield.verify.certificates import refute
from gpuyield.verify.problem import read_problem
from gpuyield.verify.question import Question
from gpuyield.verify.report import Refused
from laws.sizes import size
from plan.small import UNIT_MS, can_meet_all, random_problem

pytestmark = pytest.mark.sized_laws
PROBLEMS = size(default=150, sample=300, full=10_000)
MUTANTS_EACH = 12


def learned(problem: Problem) -> Learned | None:
    """The lane's answer; None where a job is impossible by itself, which others say."""
    case = Case.of(problem)
    if case.hard_impossible:
        return None
    return learn(case.board, case.steps, bound_tasks(case.board, case.windows), None, Budget(200_000))


def question_of(problem: Problem) -> Question:
    inputs = read_problem(json.loads(canonical_bytes(plan_inputs(problem))))
    return Question(problem=inputs, printed=inputs)


def tighter(problem: Problem) -> list[Problem]:
    """The same with one less of everything, and with every deadline a unit or two earlier."""
    steps = {name: tuple((at, max(0, have - 1)) for at, have in one) for name, one in problem.capacity.steps.items()}
    earlier = [
        tuple(
            replace(job, deadline_ms=None if job.deadline_ms is None else job.deadline_ms - by * UNIT_MS)
            for job in problem.jobs
        )
        for by in (1, 2)
    ]
    return [replace(problem, capacity=Capacity(steps=steps)), *(replace(problem, jobs=jobs) for jobs in earlier)]


def mutant(certificate: dict[str, Any], rng: Random) -> dict[str, Any]:
    """One small change of a certificate's figures."""
    changed = copy.deepcopy(certificate)
    lemma, fact = rng.choice(changed["lemmas"]), rng.choice(changed["facts"] or [{}])
    unit = changed.get("grid_ms", 60_000)
    match rng.randrange(8):
        case 0 if lemma["says"]:
            rng.choice(lemma["says"])[2] += rng.choice([-1, 1, 2]) * unit
        case 1 if lemma["says"]:
            lemma["says"].pop(rng.randrange(len(lemma["says"])))
        case 2 if lemma["says"]:
            one = rng.choice(lemma["says"])
            one[1] = "by" if one[1] == "from" else "from"
        case 3 if "together" in fact:
            fact["at_ms"] += rng.choice([-1, 1]) * unit
        case 4 if "together" in fact:
            fact["together"].pop(rng.randrange(len(fact["together"])))
        case 5:
            lemma["from"] = [rng.randint(-len(changed["facts"]), len(changed["lemmas"])) for _ in range(4)]
        case 6:
            changed["grid_ms"] = unit * rng.choice([2, 3])
        case _:
            changed["lemmas"].pop(rng.randrange(len(changed["lemmas"])))
    return changed


def judged(seeds: range) -> Counter[str]:
    """How often which answer; each is held against the truth."""
    counts: Counter[str] = Counter()
    for seed in seeds:
        problem = random_problem(seed)
        answer = learned(problem)
        if answer is None:
            continue
        counts[str(answer.answer)] += 1
        if answer.answer is not Answer.OPEN:
            assert can_meet_all(problem) is (answer.answer is Answer.PLAN), f"seed {seed}"
        if answer.certificate is not None:
            assert refute(json.loads(json.dumps(answer.certificate)), question_of(problem)) == "lemmas", f"seed {seed}"
    return counts


def test_the_learning_lane_is_right_and_its_lemmas_are_accepted() -> None:
    counts = judged(range(PROBLEMS))

    assert counts["none"] > PROBLEMS // 20
    assert counts["plan"] > PROBLEMS // 4


def test_no_lemmas_rule_out_a_problem_that_has_a_plan() -> None:
    tried = 0
    for seed in range(PROBLEMS):
        problem, rng = random_problem(seed), Random(f"lemmas {seed}")
        found = [answer.certificate for one in tighter(problem) if (answer := learned(one)) and answer.certificate]
        if not found or not can_meet_all(problem):
            continue
        question = question_of(problem)
        for certificate in (json.loads(json.dumps(one)) for one in found):
            for changed in (certificate, *(mutant(certificate, rng) for _ in range(MUTANTS_EACH))):
                tried += 1
                with pytest.raises(Refused):
                    refute(changed, question)

    assert tried > PROBLEMS // 2


@pytest.mark.slow_laws
def test_the_compiled_lane_gives_the_same_lemmas_as_plain_python() -> None:
    from gpuyield.plan.kernel import learning
    from gpuyield.plan.proof import learn as lane

    for seed in range(200):
        case = Case.of(random_problem(seed))
        table = lane.table_of(case.board, case.steps, bound_tasks(case.board, case.windows))
        if table is None:
            continue
        plain, quick = (lane.search_of(case.board, case.steps, table, None, 1_000) for _ in range(2))
        learning.run(plain, 1_000, 1_000)
        compiled_learning()(quick, 1_000, 1_000)
        for one, other in zip(plain, quick, strict=True):
            assert (one == other).all(), f"seed {seed}"
