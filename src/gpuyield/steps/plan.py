"""When each job runs, or why that is impossible."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any  # Documents are JSON.

from gpuyield import __version__
from gpuyield.decide.live.waiting import waiting_document, waiting_now
from gpuyield.declare.jobs import PLANNING_QUANTILE
from gpuyield.declare.problem import read_problem
from gpuyield.errors import DeclarationError, PlanError
from gpuyield.model.declaration import Declaration
from gpuyield.model.document import canonical_bytes, gaps_document, inputs_digest
from gpuyield.model.duration import FamilyDuration
from gpuyield.model.evidence import Gap
from gpuyield.model.job import PlanObjective, Problem
from gpuyield.model.plan import Plan, PlanStatus
from gpuyield.plan import clashes, continue_plan, make_plan, plan_document, plan_inputs, with_outlook
from gpuyield.report.answer import Answer
from gpuyield.report.facts import Facts
from gpuyield.report.screens.plan import plan_answer as answer_of
from gpuyield.steps.compiled import make_ready
from gpuyield.steps.documents import keep, write
from gpuyield.steps.live import LiveCluster
from gpuyield.steps.run_history import RunHistory
from gpuyield.steps.setting import read_declaration, wall_clock_ms
from gpuyield.units import Money, Window, parse_duration, parse_moment, parse_zone

GATE_FAILED = 10
AFTER = dict.fromkeys(PlanObjective, 6) | {PlanObjective.FEWEST_GPUS: 5, PlanObjective.MAKESPAN: 8}
"""What follows a search (bounds, advice, reasons, the document) takes about so many times as long as the canonical
inputs; with objective fewest-gpus there are no bounds by prices and no advice."""
LOOK_S = 0.1
"""So long may pass between two looks at the clock."""
Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A problem with its plan, as values and as documents."""

    problem: Problem
    plan: Plan
    document: dict[str, Any]
    inputs: dict[str, Any]


def plan_answer(
    *,
    file: Path,
    ledger_root: Path,
    jobs: Path | None,
    capacity: Path | None,
    gpus: int | None,
    origin: str | None,
    objective: str,
    resource: str | None,
    quantile: str = PLANNING_QUANTILE,
    time_limit: str,
    seed: int,
    gate: bool,
    out: Path | None,
    tell: Tell,
) -> Answer:
    """The answer of `gpuyield plan`."""
    declared = read_declaration(file)
    gaps: tuple[Gap, ...] = ()
    after_services = False
    live: LiveCluster | None = None
    if capacity is None and gpus is None:
        from gpuyield.steps.plan_cluster import cluster_work

        work = cluster_work(
            file=file, ledger_root=ledger_root, jobs=jobs, origin=origin, objective=objective, resource=resource
        )
        if work.problem is None:
            return work.conditional(seed=seed, time_limit=time_limit, gate=gate)
        problem, gaps, after_services, live = work.problem, work.gaps, True, work.live
    elif jobs is None:
        raise DeclarationError("no jobs are named.", where="--jobs", fix="Write --jobs jobs.yaml.")
    else:
        history = RunHistory.in_ledger(file, ledger_root)
        problem = read_named_problem(
            declared,
            jobs=jobs,
            capacity=capacity,
            gpus=gpus,
            origin=origin,
            objective=objective,
            resource=resource,
            quantile=quantile,
            history=history,
        )
        problem = replace(problem, families=history.families())
    tell(f"planning {len(problem.jobs):,} jobs")
    prices = hourly_prices(declared, problem) if problem.objective is PlanObjective.CHEAPEST else None
    planned = make(problem, seed=seed, time_limit=time_limit, prices=prices, tell=tell)
    if live is not None:
        planned.document["waiting"] = waiting_document(waiting_now(live.live, planned.plan))
        planned.document["gaps"] = gaps_document(gaps)
    page, out = (out, out.with_suffix(".json")) if out is not None and out.suffix == ".html" else (None, out)
    notes = keep("plan", planned.document, planned.inputs, ledger_root=ledger_root, out=out)
    if page is not None:
        tell("drawing the page")
        _draw(planned, declared, page, beside=out)
        notes = (*notes, f"Page: {page}")
    failed = gate and planned.plan.status not in (PlanStatus.OPTIMAL, PlanStatus.FEASIBLE)
    return answer_of(
        planned.document,
        zone=parse_zone(declared.reporting_zone),
        path=str(out) if out else None,
        again=command_line(jobs, capacity, gpus, origin),
        gaps=gaps,
        after_services=after_services,
        notes=notes,
        exit_code=GATE_FAILED if failed else 0,
    )


def _draw(planned: Planned, declared: Declaration, page: Path, *, beside: Path | None) -> None:
    from gpuyield.report.html import page_html
    from gpuyield.report.plan_page import plan_page

    facts = Facts(
        cluster=declared.name,
        zone=parse_zone(declared.reporting_zone),
        version=__version__,
        plan=planned.document,
        plan_inputs=planned.inputs,
    )
    write(page, page_html(plan_page(facts, path=str(beside))).encode())


def command_line(jobs: Path | None, capacity: Path | None, gpus: int | None, origin: str | None) -> str:
    """The command that makes this plan."""
    given = (("--jobs", jobs), ("--capacity", capacity), ("--gpus", gpus), ("--origin", origin))
    return " ".join(
        ["gpuyield plan", *(f"{name} {shlex.quote(str(value))}" for name, value in given if value is not None)]
    )


def read_named_problem(
    declared: Declaration,
    *,
    jobs: Path,
    capacity: Path | None,
    gpus: int | None,
    origin: str | None,
    objective: str = PlanObjective.ON_TIME,
    resource: str | None = None,
    quantile: str = PLANNING_QUANTILE,
    history: Callable[[str], FamilyDuration | None] | None = None,
) -> Problem:
    """The problem of the files and numbers on the command line.

    Raises:
        PlanError: The problem cannot be built, or jobs that are never moved need more together than there is.
    """
    zone = parse_zone(declared.reporting_zone)
    problem = read_problem(
        jobs,
        capacity=capacity,
        gpus=gpus,
        origin_ms=None if origin is None else parse_moment(origin, zone=zone, where="--origin"),
        now_ms=wall_clock_ms(),
        zone=zone,
        milestones=declared.milestones,
        objective=PlanObjective(objective),
        resource=resource,
        quantile=quantile,
        history=history,
    )
    mistakes = clashes(problem)
    if mistakes:
        raise PlanError.of(mistakes)
    return problem


def make(
    problem: Problem,
    *,
    seed: int,
    time_limit: str,
    prices: Mapping[str, Money] | None = None,
    start_from: Plan | None = None,
    tell: Tell = lambda said: None,
) -> Planned:
    """Plan within a time limit; the limit is only a cap. It never falls behind the plan that it starts from.

    `prices` are those of a unit of each resource for an hour, in one currency; objective cheapest needs them.
    Loading the planner counts against the limit, compiling it (once for each version) does not. The search ends so much
    before the limit as explaining and writing are going to take, which is measured on the canonical inputs.
    """
    amounts = None if prices is None else {name: price.amount for name, price in prices.items()}
    currency = next((price.currency for price in (prices or {}).values()), None)
    began = time.monotonic()
    was_compiled = make_ready(len(problem.jobs), tell)
    loaded = time.monotonic()
    inputs = plan_inputs(problem, prices=amounts, currency=currency)
    digest = inputs_digest(canonical_bytes(inputs))
    spare_s = (
        LOOK_S + (1 + AFTER[problem.objective]) * (time.monotonic() - loaded) + (0 if was_compiled else loaded - began)
    )
    stop = deadline(time_limit, spare_s=spare_s)
    if start_from is None:
        plan = make_plan(problem, seed=seed, should_stop=stop, prices=amounts)
    else:
        old = {one.id: one.run for one in start_from.jobs if one.run is not None}
        plan = continue_plan(problem, old, seed=seed, should_stop=stop, prices=amounts)
    plan = with_outlook(problem, plan)
    return Planned(
        problem=problem,
        plan=plan,
        document=plan_document(problem, plan, prices=amounts, currency=currency, digest=digest),
        inputs=inputs,
    )


def deadline(time_limit: str, *, spare_s: float = 0) -> Callable[[], bool]:
    """Whether the time is up; `spare_s` of it, at most half, are left for what comes before and after a search.

    Raises:
        DeclarationError: No such length of time.
    """
    try:
        length_ms = parse_duration(time_limit)
    except DeclarationError as err:
        raise DeclarationError(err.mistakes[0].what, where="--time-limit", fix=err.mistakes[0].fix) from err
    length_s = length_ms / 1000
    end = time.monotonic() + length_s - min(spare_s, length_s / 2)
    return lambda: time.monotonic() >= end


def hourly_prices(declared: Declaration, problem: Problem) -> dict[str, Money]:
    """What a unit of each of the problem's resources costs for an hour at its origin, as far as it is declared.

    All in one currency and of one basis, as `gpuyield cost` takes them.

    Raises:
        DeclarationError: Prices of different bases, or one in another currency and no rate for it.
    """
    from gpuyield.cost.prices import price_book

    at_ms = problem.origin_ms
    flavors = {name: name.removeprefix("gpu/") for name in problem.capacity.steps}
    held = [one for one in declared.prices if one.flavor in flavors.values() and one.holds_at(at_ms)]
    book = price_book(held, currency=declared.currency, rates=declared.rates, window=Window(at_ms, at_ms + 1))
    found = {name: price for name, one in flavors.items() if (price := book.flavor_price(one, at_ms)) is not None}
    for one in held:
        if one.flavor not in {flavors[name] for name in found}:
            raise DeclarationError(
                f"the price of {one.flavor} is {one.basis}, those of other flavors are {book.basis}.",
                where="prices",
                fix=f"Add its {book.basis} price: prices of different bases are not added up.",
            )
    currency = book.currency or ""
    return {name: Money(Decimal(one.numerator) / Decimal(one.denominator), currency) for name, one in found.items()}
