"""No certificate closes a branch that holds a plan: found by brute force, followed down random decisions."""

from __future__ import annotations

from itertools import combinations
from random import Random
from typing import Any

import pytest

from gpuyield.verify.alone import Alone, is_impossible
from gpuyield.verify.certificates import refute
from gpuyield.verify.frame import Frame
from gpuyield.verify.interval import overloads
from gpuyield.verify.problem import Problem, read_problem
from gpuyield.verify.question import Question
from gpuyield.verify.report import Refused
from gpuyield.verify.steps import Spans
from gpuyield.verify.wide_gangs import outlast
from laws.sizes import size
from verify import brute
from verify.brute import UNIT_MS, Plan
from verify.problems import make_inputs

pytestmark = pytest.mark.sized_laws
PROBLEMS = size(default=60, sample=150, full=4_000)


def feasible(count: int) -> list[tuple[int, dict[str, Any], Problem, Plan]]:
    """Seeds, inputs and problems with a plan that meets all deadlines, on the capacity that it needs."""
    found: list[tuple[int, dict[str, Any], Problem, Plan]] = []
    seed = 0
    while len(found) < count:
        seed += 1
        inputs = make_inputs(Random(f"sound {seed}"))
        plan = brute.solve(inputs)
        if plan is not None:
            found.append((seed, inputs, read_problem(inputs), plan))
    return found


def spans_of(rng: Random, end: int) -> list[Spans]:
    """All intervals of whole units, and some odd spans and cuts."""
    found = [Spans([(low * UNIT_MS, high * UNIT_MS)]) for low in range(end) for high in range(low + 1, end + 1)]
    for _ in range(20):
        edges = sorted(rng.sample(range(end * 12 + 1), 4))
        low, high, again, last = (edge * UNIT_MS // 12 for edge in edges)
        found += [Spans([(low, last)]), Spans([(low, high), (again, last)])]
    return found


def check_open(frame: Frame, plan: Plan, rng: Random, end: int) -> None:
    """Nothing closes a frame in which the plan still lies."""
    jobs = frame.problem.jobs
    assert not frame.is_contradiction
    for name, (at, segments) in plan.items():
        start = segments[0][0] * UNIT_MS
        assert at in frame.usable_at(name)
        assert frame.heads[name] <= start <= frame.latest_start(name, jobs[name].shapes[at])
    for spans in spans_of(rng, end):
        assert not any(overloads(frame, resource, spans) for resource in frame.problem.capacity)
    for count in (2, 3):
        for names in combinations(jobs, count):
            window = tuple(sorted(rng.sample(range(end + 1), 2)))
            for resource in frame.problem.capacity:
                with pytest.raises(Refused):
                    outlast(frame, resource, (window[0] * UNIT_MS, window[1] * UNIT_MS), list(names))


def check_worth(problem: Problem, rng: Random, end: int) -> None:
    """Whatever widths are said to be worth, no more of it is forced into a span than fits side by side."""
    question = Question(problem=problem, printed=problem)
    for low in range(end):
        for high in range(low + 1, end + 1):
            resource = rng.choice(list(problem.capacity))
            widths = sorted(rng.sample(range(1, 7), rng.randint(1, 3)))
            rows = [[width, rng.randint(0, 6)] for width in widths]
            window = (low * UNIT_MS, high * UNIT_MS)
            names = rng.sample(list(problem.jobs), rng.randint(1, len(problem.jobs)))
            forced = {
                name: min(
                    (
                        max((worth for width, worth in rows if width <= shape.demand.get(resource, 0)), default=0)
                        * question.frame.overlap(name, shape, *window)
                        for shape in question.frame.usable(name)
                    ),
                    default=0,
                )
                for name in names
            }
            required = sum(forced.values())
            stated = {
                "kind": "dual-feasible",
                "resource": resource,
                "from_ms": window[0],
                "to_ms": window[1],
                "worth": [[width, max(worth for least, worth in rows if least <= width)] for width, _ in rows],
                "required": required,
                "held": max(0, required - 1),
                "jobs": [{"id": name, "forced": amount} for name, amount in forced.items()],
            }
            with pytest.raises(Refused):
                refute(stated, question)


def follow(frame: Frame, plan: Plan, rng: Random) -> Frame:
    """One decision, and the branch in which the plan lies."""
    jobs = frame.problem.jobs
    bound = [name for name in jobs if frame.must_run(name)]
    if not bound:
        return frame
    name = rng.choice(bound)
    start_ms = plan[name][1][0][0] * UNIT_MS
    kind = rng.choice(["start", "start", "shape", "order"])
    if kind == "shape":
        return frame.with_shape(name, plan[name][0])
    if kind == "start":
        at_ms = start_ms + rng.choice([-2, -1, 0, 1, 2]) * UNIT_MS + rng.choice([0, 0, 1, -1])
        return frame.starting_before(name, at_ms) if start_ms < at_ms else frame.starting_from(name, at_ms)
    whole = [one for one in bound if frame.job(one).restart_ms is None]
    others = [one for one in whole if one != name and name in whole and frame.cannot_overlap(name, one)]
    if not others:
        return frame
    other = rng.choice(others)
    first, second = sorted((name, other), key=lambda one: (plan[one][1][0][0], plan[one][1][-1][1]))
    return frame.ordered(first, second)


def test_no_branch_that_holds_a_plan_is_closed() -> None:
    for seed, inputs, problem, plan in feasible(PROBLEMS):
        rng = Random(f"branch {seed}")
        end = brute.horizon(inputs)
        frame = Frame(problem)
        check_worth(problem, rng, end)
        check_open(frame, plan, rng, end)
        for _ in range(5):
            frame = follow(frame, plan, rng)
            check_open(frame, plan, rng, end)


def test_no_job_of_a_plan_is_impossible_and_no_amount_that_a_plan_needs_is_ruled_out() -> None:
    for seed, inputs, problem, plan in feasible(PROBLEMS):
        rng = Random(f"amount {seed}")
        end = brute.horizon(inputs)
        for resource in problem.capacity:
            least = brute.fewest(inputs, resource)
            assert least is not None
            enough = problem.with_constant(resource, least[0])
            check_open(Frame(enough), least[1], rng, end)
        alone, frame = Alone(problem), Frame(problem)
        assert not [name for name in plan if is_impossible(alone, frame, problem.jobs[name])]


def test_no_prices_rule_out_what_a_plan_does() -> None:
    for seed, inputs, problem, plan in feasible(PROBLEMS):
        rng = Random(f"prices {seed}")
        hard = sum(job.deadline_ms is not None for job in problem.jobs.values())
        best = brute.on_time_weight(inputs, plan)
        total = brute.timed_weight(inputs)
        for _ in range(10):
            bucket_ms = rng.choice([UNIT_MS, UNIT_MS // 2, UNIT_MS * 3 // 2, 1_700_003])
            size = brute.horizon(inputs) * UNIT_MS // bucket_ms
            prices = {
                name: [rng.choice([0, rng.randint(0, 900)]) * 10**9 // UNIT_MS for _ in range(size)]
                for name in problem.capacity
            }
            stated = {"kind": "prices", "bucket_ms": bucket_ms, "scale": 10**12, "prices": prices}
            with pytest.raises(Refused):
                refute({**stated, "bound": str(hard - 1 if hard else 0)}, Question(problem=problem, printed=problem))
            if best > 0:
                below = best - min(best, type(best)(1, 4))
                question = Question(problem=problem, printed=problem, weight_above=below / total)
                with pytest.raises(Refused):
                    refute({**stated, "bound": str(float(below))}, question)
