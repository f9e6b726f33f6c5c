"""Every function of the kernel called once on a problem of three jobs, so that all is compiled or loaded."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import cache

from gpuyield.model.job import Capacity, PlanJob, Problem, Shape
from gpuyield.plan.case import Case
from gpuyield.plan.instance.budget import Budget
from gpuyield.plan.kernel.congestion import all_met, levelled, negotiated
from gpuyield.plan.kernel.grid import grid_of
from gpuyield.plan.kernel.lanes import (
    compiled,
    compiled_learning,
    compiled_project,
    is_kept,
    is_learning_ready,
    keep_learning,
)
from gpuyield.plan.kernel.pricing import on_time_buyers, price_bound
from gpuyield.plan.kernel.search import Search
from gpuyield.plan.proof.learn import search_of, table_of
from gpuyield.plan.search.bred import brood_of, project_of
from gpuyield.units import HOUR_MS


@cache
def warm(tell: Callable[[], None] = lambda: None) -> bool:
    """Whether anything had to be compiled; `tell` is called before that."""
    fresh = not is_kept()
    if fresh:
        tell()
    case = Case.of(_three_jobs())
    grid = grid_of(case)
    search = Search(grid, 0, Budget(1_000_000), compiled())
    known = search.by_rules()
    negotiated(search, known, sure=True)
    all_met(search)
    levelled(search, 0, 1, 10, thorough=False)
    search.repaired(known, 1, 1)
    price_bound(case, on_time_buyers(case), grid.schedule(known.runs), Fraction(0), search.budget, compiled())
    return fresh


@cache
def warm_learning(tell: Callable[[], None] = lambda: None) -> bool:
    """The same for the search with learning."""
    fresh = not is_learning_ready()
    if fresh:
        tell()
    case = Case.of(_three_jobs())
    table = table_of(case.board, case.steps, range(3))
    assert table is not None
    compiled_learning()(search_of(case.board, case.steps, table, None, 100), 100, 100)
    project = project_of(case, HOUR_MS, 3 * HOUR_MS)
    assert project is not None
    compiled_project()(project, brood_of(project, 4, 0), 0, 1, 0, 2)
    keep_learning()
    return fresh


def _three_jobs() -> Problem:
    """Two jobs that do not both fit, and one that waits."""
    jobs = tuple(
        PlanJob(
            id=name,
            shapes=(Shape(demand={"gpu": 1}, duration_ms=HOUR_MS),),
            deadline_ms=HOUR_MS,
            after=after,
        )
        for name, after in (("a", ()), ("b", ()), ("c", ("a",)))
    )
    return Problem(origin_ms=0, jobs=jobs, capacity=Capacity(steps={"gpu": ((0, 1),)}))
