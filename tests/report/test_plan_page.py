"""A plan as a page of its own: what it shows beside the plan, and that long lines keep their peaks."""

from __future__ import annotations

from decimal import Decimal
from zoneinfo import ZoneInfo

from hypothesis import given
from hypothesis import strategies as st

from gpuyield.model.job import Capacity, NodeGroup, PlanJob, Problem, Shape
from gpuyield.plan import make_plan, plan_document, plan_inputs, with_outlook
from gpuyield.report.facts import Facts
from gpuyield.report.html import page_html
from gpuyield.report.page import Page
from gpuyield.report.plan_page import plan_page
from gpuyield.report.sections.plan import thinned
from gpuyield.units import HOUR_MS


def test_the_page_compares_the_plan_with_a_queue_and_names_the_nodes() -> None:
    page = page_of(
        [job("long", 8, 8, deadline=30), job("wide", 16, 2, deadline=6, release=1), job("small", 4, 1, deadline=9)],
        nodes=2,
    )

    (section,) = page.sections
    words = " ".join(section.lead)
    assert "First come, first served on the same GPUs would meet 2 of 3 deadlines; this plan meets 3." in words
    assert "On 2 h100 nodes every job finds its place" in words
    assert [table.title for table in section.tables] == ["Every job", "On nodes"]
    assert page.headline.startswith("All deadlines are met on 16 GPUs")


def test_the_span_that_holds_too_much_work_is_marked() -> None:
    page = page_of([job(f"job-{at}", 8, 4, deadline=5) for at in range(3)], nodes=2)

    (demand, _) = page.sections[0].charts
    assert "the marked span holds more work than fits" in demand.title
    assert "more GPUs needed" in str(demand.spec)
    assert page.status_word == "Not all deadlines can be met"
    assert page.headline.startswith("Not all deadlines can be met, and that is proven; the best plan meets 2 of 3")


def test_the_page_is_one_file_that_draws() -> None:
    page = page_of([job("one", 4, 1, deadline=9)], nodes=2)

    text = page_html(page)

    assert text.startswith("<!doctype html>")
    still, _, _ = text.partition("<script")
    assert still.count("<svg ") == 4
    assert "src=" not in still


@given(st.lists(st.tuples(st.integers(1, 50), st.integers(0, 99)), min_size=1, max_size=3_000))
def test_a_long_line_is_thinned_without_losing_its_peak_or_its_ends(rises: list[tuple[int, int]]) -> None:
    steps, at = [], 0
    for step, gpus in rises:
        at += step
        steps.append((at, gpus))

    thin = thinned(steps)

    assert len(thin) <= 402
    assert max(gpus for _, gpus in thin) == max(gpus for _, gpus in steps)
    assert thin[0][0] == steps[0][0]
    assert thin[-1] == steps[-1]
    for moment, gpus in steps[:-1]:
        assert max(level for start, level in thin if start <= moment) >= 0
        shown = [level for start, level in thin if start <= moment][-1]
        assert shown >= gpus or len(steps) <= 400


def page_of(jobs: list[PlanJob], *, nodes: int) -> Page:
    problem = Problem(
        origin_ms=0,
        jobs=tuple(jobs),
        capacity=Capacity(steps={"gpu/h100": ((0, 8 * nodes),)}),
        nodes=(NodeGroup(flavor="h100", gpus=8, count=nodes),),
    )
    plan = with_outlook(problem, make_plan(problem))
    return plan_page(
        Facts(
            cluster="test",
            zone=ZoneInfo("UTC"),
            version="0",
            plan=plan_document(problem, plan),
            plan_inputs=plan_inputs(problem),
        ),
        path="plan.json",
    )


def job(name: str, gpus: int, hours: int, *, deadline: int, release: int = 0) -> PlanJob:
    return PlanJob(
        id=name,
        shapes=(Shape(flavor="h100", demand={"gpu/h100": gpus}, duration_ms=hours * HOUR_MS),),
        release_ms=release * HOUR_MS,
        deadline_ms=deadline * HOUR_MS,
        weight=Decimal(1),
    )
