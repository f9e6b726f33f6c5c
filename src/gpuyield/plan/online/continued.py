"""A plan of a problem that has changed, started from the plan before the change: never behind it, moved with reasons.

First the old plan is changed as little as the problem asks for (`replan`); that is kept unless searching anew finds a
plan with more on time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from decimal import Decimal

from gpuyield.model.job import PlanJob, Problem
from gpuyield.model.plan import Plan, PlannedJob, Run
from gpuyield.plan.instance.board import arrange
from gpuyield.plan.instance.budget import never
from gpuyield.plan.instance.first_come import met
from gpuyield.plan.instance.schedule import Placement, Schedule
from gpuyield.plan.instance.usage import profile_of
from gpuyield.plan.make import DEFAULT_WORK, make_plan
from gpuyield.plan.online.reasons import Reasons
from gpuyield.plan.online.replan import replan
from gpuyield.plan.online.standing import Standing
from gpuyield.plan.search.earlier import as_early_as_it_fits

BEFORE_ALL_MS = -1
"""Nothing that is planned has started yet; what runs already is fixed."""

CHANGE_WORK = 5_000
"""Placements that changing the old plan may try."""


def continue_plan(
    problem: Problem,
    old: Mapping[str, Run],
    *,
    seed: int = 0,
    work: int = DEFAULT_WORK,
    should_stop: Callable[[], bool] = never,
    prices: Mapping[str, Decimal] | None = None,
) -> Plan:
    """The best plan found, not worse than the old one as far as it can be kept.

    `old` are the runs of the plan before the change, in ms from the origin of this problem.

    Raises:
        PlanError: The problem cannot be built.
    """
    jobs = {job.id: job for job in problem.jobs}
    kept = {name: run for name, run in old.items() if name in jobs and _is_kept(jobs[name], run)}
    standing = Standing.of(problem, kept, now_ms=BEFORE_ALL_MS)
    found = replan(standing, [], now_ms=BEFORE_ALL_MS, freeze_ms=0, work=CHANGE_WORK, bring_forward=True)
    over = {name: run for name, run in kept.items() if name not in found.standing.tasks}
    runs = {**over, **found.standing.runs()}
    profile = profile_of(standing.steps, found.standing.placed.values(), 0)
    fits = all(profile.lowest(resource) >= 0 for resource in range(len(standing.resources)))
    plan = make_plan(
        problem, seed=seed, work=work, should_stop=should_stop, prices=prices, start_from=runs if fits else None
    )
    causes = {move.job: move.why for move in found.moves if move.after is not None}
    reasons = Reasons.of(standing, [])
    anew = _gain(problem, runs, plan)
    return replace(
        plan, jobs=tuple(_with_reason(one, old.get(one.id), runs, causes, reasons, anew) for one in plan.jobs)
    )


def carry_on(
    problem: Problem,
    old: Mapping[str, Run],
    *,
    seed: int = 0,
    work: int = DEFAULT_WORK,
    should_stop: Callable[[], bool] = never,
) -> Plan:
    """The plan of a live problem as it is at its origin, changed as little as that asks for.

    Unlike `continue_plan` it is of now: what can start earlier than planned does, what was due and has not begun is
    placed anew, and nothing is frozen, for a job that is gated loses nothing when it moves. Searching anew counts only
    where it gets more on time.

    Raises:
        PlanError: The problem cannot be built.
    """
    jobs = {job.id: job for job in problem.jobs}
    running = {
        name: Run(shape=0, start_ms=job.started_ms, end_ms=job.started_ms + job.shapes[0].duration_ms)
        for name, job in jobs.items()
        if job.started_ms is not None
    }
    waiting = {
        name: run
        for name, run in old.items()
        if name in jobs and name not in running and run.start_ms > 0 and _is_kept(jobs[name], run)
    }
    if not waiting and not running:
        # There is nothing to carry on.
        return make_plan(problem, seed=seed, work=work, should_stop=should_stop, advise=False)
    standing = Standing.of(problem, {**waiting, **running})
    found = replan(standing, [], now_ms=0, freeze_ms=0, work=min(work, CHANGE_WORK), bring_forward=True)
    profile = profile_of(standing.steps, found.standing.placed.values(), 0)
    fits = all(profile.lowest(resource) >= 0 for resource in range(len(standing.resources)))
    runs = _as_early(problem, found.standing.placed) if fits else found.standing.runs()
    plan = make_plan(
        problem, seed=seed, work=work, should_stop=should_stop, start_from=runs if fits else None, advise=False
    )
    reasons = Reasons.of(standing, [])
    causes = {
        name: reasons.rerun(old[name], run, reasons.came_free())
        for name, run in runs.items()
        if name in old and run.start_ms < old[name].start_ms
    }
    causes |= {
        move.job: move.why for move in found.moves if move.after is not None and move.after.run() == runs[move.job]
    }
    causes |= {
        name: reasons.rerun(old[name], run, "it was due, and there is no room for it yet")
        for name, run in runs.items()
        if name in old and name not in running and old[name].start_ms <= 0 < run.start_ms
    }
    before = {name: run for name, run in old.items() if (name not in running and run.start_ms > 0) or name in causes}
    anew = _gain(problem, runs, plan)
    return replace(
        plan, jobs=tuple(_with_reason(one, before.get(one.id), runs, causes, reasons, anew) for one in plan.jobs)
    )


def _as_early(problem: Problem, placed: Mapping[str, Placement]) -> dict[str, Run]:
    """The runs with nothing that waits without a reason."""
    board = arrange(problem)
    given = Schedule([placed.get(task.job.id) for task in board.tasks])
    early = as_early_as_it_fits(board, board.steps, given)
    return {task.job.id: one.run() for task, one in zip(board.tasks, early.placed, strict=True) if one is not None}


def _is_kept(job: PlanJob, run: Run) -> bool:
    """Whether an old run is still one of the job: its shape and times are what the job now allows."""
    if run.shape >= len(job.shapes) or (job.deadline_ms is not None and run.end_ms > job.deadline_ms):
        return False
    fixed = job.fixed_ms
    if fixed is None and run.start_ms < max(0, job.release_ms):
        return False
    if fixed is not None and run.start_ms != fixed:
        return False
    return bool(run.parts) or run.end_ms - run.start_ms == job.shapes[run.shape].duration_ms


def _with_reason(
    one: PlannedJob,
    before: Run | None,
    changed: Mapping[str, Run],
    causes: Mapping[str, str],
    reasons: Reasons,
    anew: str,
) -> PlannedJob:
    if before is None or one.run is None or one.run == before:
        return one
    if one.run == changed.get(one.id) and one.id in causes:
        return replace(one, moved_because=causes[one.id])
    return replace(one, moved_because=reasons.rerun(before, one.run, anew))


def _gain(problem: Problem, changed: Mapping[str, Run], plan: Plan) -> str:
    """What planning anew was good for, beyond changing the old plan as little as needed."""
    runs = {one.id: one.run for one in plan.jobs if one.run is not None}
    more = met(problem, runs)[0] - met(problem, changed)[0]
    if more > 0:
        return f"planned anew, {more} more job{' is' if more == 1 else 's are'} on time"
    if len(runs) > len(changed):
        return f"planned anew, {len(runs) - len(changed)} more can run"
    return "planned anew, it is better as a whole"
