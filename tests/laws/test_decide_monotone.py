"""Adding a GPU, loosening a deadline or removing a job never makes the answer worse (on sizes that are closed)."""

from __future__ import annotations

import os
from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuyield.decide.decide import decide
from gpuyield.model.decision import DecideInputs, DecisionStatus, GpuRate, ServiceHolding
from gpuyield.model.job import Capacity, PlanJob, Problem, Shape
from gpuyield.units import HOUR_MS, Money

PRICES = {"gpu": GpuRate(gpu_hour=Money(Decimal(2), "EUR"), source="declared")}


@st.composite
def job(draw: st.DrawFn, name: str) -> PlanJob:
    release = draw(st.integers(0, 3))
    duration = draw(st.integers(1, 4))
    deadline = draw(st.one_of(st.none(), st.integers(release + 1, 9)))
    return PlanJob(
        id=name,
        shapes=(Shape(demand={"gpu": draw(st.integers(1, 3))}, duration_ms=duration * HOUR_MS),),
        release_ms=release * HOUR_MS,
        deadline_ms=None if deadline is None else deadline * HOUR_MS,
    )


@st.composite
def inputs(draw: st.DrawFn) -> DecideInputs:
    jobs = tuple(draw(job(name)) for name in "abcde"[: draw(st.integers(1, 5))])
    problem = Problem(origin_ms=0, jobs=jobs, capacity=Capacity(steps={"gpu": ((0, draw(st.integers(1, 4))),)}))
    services = (ServiceHolding(name="chat", gpus={"gpu": 2}),) if draw(st.booleans()) else ()
    prices = PRICES if draw(st.integers(0, 3)) else {}
    reclaimable = {"gpu": draw(st.integers(0, 2))}
    return DecideInputs(now_ms=0, problem=problem, prices=prices, services=services, reclaimable=reclaimable)


@st.composite
def job_of_two_flavors(draw: st.DrawFn, name: str) -> PlanJob:
    plain = draw(job(name))
    flavors = draw(st.sampled_from((("a",), ("b",), ("a", "b"))))
    amount, length = draw(st.integers(1, 2)), plain.shapes[0].duration_ms
    shapes = tuple(
        Shape(flavor=one, demand={f"gpu/{one}": amount}, duration_ms=length + draw(st.integers(0, 1)) * HOUR_MS)
        for one in flavors
    )
    return replace(plain, shapes=shapes)


@st.composite
def inputs_of_two_flavors(draw: st.DrawFn) -> DecideInputs:
    jobs = tuple(draw(job_of_two_flavors(name)) for name in "abcde"[: draw(st.integers(1, 4))])
    steps = {f"gpu/{one}": ((0, draw(st.integers(1, 2))),) for one in "ab"}
    priced = draw(st.sampled_from(("ab", "a", "")))
    services = (ServiceHolding(name="chat", gpus={"gpu/a": 2}),) if draw(st.booleans()) else ()
    return DecideInputs(
        now_ms=0,
        problem=Problem(origin_ms=0, jobs=jobs, capacity=Capacity(steps=steps)),
        prices={f"gpu/{one}": PRICES["gpu"] for one in priced},
        services=services,
    )


def status_of(given_inputs: DecideInputs, problem: Problem) -> DecisionStatus:
    return decide(replace(given_inputs, problem=problem)).status


def never_worse(given_inputs: DecideInputs, choice: int) -> None:
    problem = given_inputs.problem
    assert problem is not None
    before = status_of(given_inputs, problem)
    resource = sorted(problem.capacity.steps)[choice % len(problem.capacity.steps)]
    one_more = ((0, problem.capacity.amount(resource, 0) + 1),)
    more = replace(problem, capacity=Capacity(steps={**problem.capacity.steps, resource: one_more}))
    at = choice % len(problem.jobs)
    chosen = problem.jobs[at]
    deadline = (
        None if chosen.deadline_ms is None or choice % 3 == 0 else chosen.deadline_ms + (choice % 4 + 1) * HOUR_MS
    )
    looser = replace(problem, jobs=(*problem.jobs[:at], replace(chosen, deadline_ms=deadline), *problem.jobs[at + 1 :]))
    fewer = replace(problem, jobs=(*problem.jobs[:at], *problem.jobs[at + 1 :]))

    for easier in (more, looser, fewer):
        assert status_of(given_inputs, easier).rank <= before.rank


@given(inputs(), st.integers(0, 59))
@settings(max_examples=60, deadline=None)
def test_an_easier_problem_never_gets_a_worse_answer(given_inputs: DecideInputs, choice: int) -> None:
    never_worse(given_inputs, choice)


@given(inputs_of_two_flavors(), st.integers(0, 59))
@settings(max_examples=40, deadline=None)
def test_an_easier_problem_of_two_flavors_never_gets_a_worse_answer(given_inputs: DecideInputs, choice: int) -> None:
    never_worse(given_inputs, choice)


@pytest.mark.slow_laws
@given(st.one_of(inputs(), inputs_of_two_flavors()), st.integers(0, 59))
@settings(max_examples=2_000 if os.environ.get("GPUYIELD_LAWS") == "full" else 400, deadline=None)
def test_an_easier_problem_never_gets_a_worse_answer_at_length(given_inputs: DecideInputs, choice: int) -> None:
    never_worse(given_inputs, choice)


@given(inputs())
@settings(max_examples=60, deadline=None)
def test_needed_always_rests_on_a_proof_a_price_and_no_unmeasured_service(given_inputs: DecideInputs) -> None:
    decision = decide(given_inputs)

    if decision.status is DecisionStatus.NEEDED:
        assert decision.plan is not None
        assert decision.plan.certificate is not None
        assert given_inputs.prices
        assert not given_inputs.services
    elif decision.status is DecisionStatus.NOT_NEEDED:
        assert decision.plan is not None
        assert decision.problem is not None
        bound = {one.id: one.deadline_ms for one in decision.problem.jobs if one.deadline_ms is not None}
        ends = {one.id: one.run.end_ms for one in decision.plan.jobs if one.run is not None}
        assert all(job in ends and ends[job] <= deadline for job, deadline in bound.items())
