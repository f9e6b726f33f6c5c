"""The fewest of one resource, as a constant amount, that meets all deadlines: a witness and a proven floor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from gpuyield.model.job import amount_at
from gpuyield.model.plan import Certificate, GpuNeed, Run
from gpuyield.plan.case import Case
from gpuyield.plan.deadlines import (
    BOTH_CHOICES,
    LEARN_TASKS,
    SETTLED_TASKS,
    find_plan,
    first_that_meets_all,
    rule_schedules,
    search_tree,
    wide_gangs,
)
from gpuyield.plan.instance.budget import Budget
from gpuyield.plan.instance.frame import Frame
from gpuyield.plan.instance.profile import constant
from gpuyield.plan.instance.schedule import Placement, Schedule, meets_all
from gpuyield.plan.proof.cpsat import ask
from gpuyield.plan.proof.cpsat_model import Aim, Question
from gpuyield.plan.proof.exact import bound_tasks
from gpuyield.plan.proof.overload import interval_certificate, tightest
from gpuyield.plan.search.large import is_large, levelled_on
from gpuyield.plan.search.level import Movable, level, peak

PLENTY = 1 << 40
"""More of a resource than any set of jobs of a problem can hold at once."""
LEVEL_WORK_PER_JOB = 8
CLOSED_TASKS = 1_500
"""Beyond so many jobs with a deadline it is not tried to meet the floor."""


def fewest(case: Case, resource: int, known: Sequence[Schedule], budget: Budget, *, chosen: bool = False) -> GpuNeed:
    """The need of one resource; `known` are schedules of the same jobs that meet all deadlines.

    The amount is constant from the origin on, whatever its calendar; other resources keep theirs. Where a job is
    impossible no need is said, by the contract, but for the `chosen` resource of objective fewest-gpus, of which there
    may be as much as it takes; the floor is still said where more of it would help.
    """
    name = case.board.resources[resource]
    available = amount_at(case.steps[resource], 0)
    roomy = case.with_steps(resource, constant(case.steps[resource], _plenty(case)))
    if roomy.impossible:
        return GpuNeed(resource=name, available=available, needed=None, lower_bound=None)
    floor, certificate = _floor(case, roomy, resource)
    if case.impossible and not chosen:
        return GpuNeed(resource=name, available=available, needed=None, lower_bound=floor, certificate=certificate)
    best = _best_known(roomy, resource, known)
    if is_large(case):
        best = _levelled_large(roomy, resource, floor, best, budget, thorough=chosen)
    else:
        best = _levelled(roomy, resource, floor, best, budget)
    if best is None or not is_large(case):
        best = _searched(case, roomy, resource, floor, best, budget)
    most = CLOSED_TASKS if chosen else LEARN_TASKS
    if best is not None:
        floor, certificate, best = _closed(case, resource, floor, certificate, best, budget, most)
    said = None
    if best is not None and best[0] > floor and chosen:
        best, said = _asked(roomy, resource, floor, best, budget)
        floor, certificate, best = _closed(case, resource, floor, certificate, best, budget, most)
    return GpuNeed(
        resource=name,
        available=available,
        needed=None if best is None else best[0],
        lower_bound=floor,
        witness={} if best is None else best[1],
        certificate=certificate,
        said=said,
    )


def _asked(roomy: Case, resource: int, floor: int, best: _Found, budget: Budget) -> tuple[_Found, int | None]:
    """Fewer, where the solver finds them, and what it says is the least."""
    share = budget.share(budget.left // 2)
    word = ask(roomy, Question(aim=Aim.FEWEST, resource=resource, floor=floor), _schedule(roomy, best), share)
    budget.settle(share)
    found = word.schedule
    if found is not None and meets_all(roomy.board, found) and not found.missing():
        height = peak_of(found, resource)
        if height < best[0]:
            best = (height, roomy.runs(found))
    return best, int(word.bound) if word.is_best and word.bound is not None else None


_Found = tuple[int, Mapping[str, Run]]


def _plenty(case: Case) -> int:
    return min(
        PLENTY,
        sum(max((mode.gpus + _widest(mode.demand) for mode in task.modes), default=0) for task in case.board.tasks) + 1,
        10**9,
    )


def _widest(demand: Sequence[tuple[int, int]]) -> int:
    return max((amount for _, amount in demand), default=0)


def _floor(case: Case, roomy: Case, resource: int) -> tuple[int, Certificate | None]:
    """The best of the interval bound and the width of a gang that must run on it, with its certificate."""
    floor, certificate = 0, None
    forced = roomy.forced[resource]
    span = tightest(forced, ())
    if span:
        floor = span.extra
        certificate = interval_certificate(roomy.board, case.steps, roomy.windows, resource, span.from_ms, span.to_ms)
    if len(forced) and int(forced.demands.max()) > floor:
        widest = int(forced.demands.argmax())
        floor = int(forced.demands[widest])
        name = _too_wide(roomy, resource, int(forced.tasks[widest]), floor)
        certificate = {"kind": "search", "branches": [{"closed": "impossible", "id": name}]}
    return _raised_by_gangs(case, resource, floor, certificate)


def _too_wide(roomy: Case, resource: int, widest: int, amount: int) -> str:
    """A job without a usable shape on one less: the widest itself, or one behind it that no longer ends in time."""
    if not roomy.board.chained:
        return roomy.board.tasks[widest].job.id
    fewer = roomy.with_steps(resource, constant(roomy.steps[resource], amount - 1))
    frame = Frame(fewer.board, fewer.steps, 1)
    stuck = [task.job.id for task in fewer.board.tasks if frame.must_run(task.index) and not frame.usable(task.index)]
    return stuck[0]


def _raised_by_gangs(
    case: Case, resource: int, floor: int, certificate: Certificate | None
) -> tuple[int, Certificate | None]:
    """The floor, raised while gangs too wide for each other outlast their window on that amount."""
    if len(case.board.tasks) > 2_000:
        return floor, certificate
    while floor:
        trial = case.with_steps(resource, constant(case.steps[resource], floor))
        if trial.impossible:
            return floor, certificate
        wide = wide_gangs(trial)
        if wide is None or wide["resource"] != case.board.resources[resource]:
            return floor, certificate
        floor, certificate = floor + 1, wide
    return floor, certificate


def _best_known(roomy: Case, resource: int, known: Sequence[Schedule]) -> _Found | None:
    found: _Found | None = None
    for schedule in known:
        if meets_all(roomy.board, schedule) and not schedule.missing():
            height = peak_of(schedule, resource)
            if found is None or height < found[0]:
                found = (height, roomy.runs(schedule))
    return found


def peak_of(schedule: Schedule, resource: int) -> int:
    """The most of a resource that a schedule holds at once from the origin on."""
    runs = [one for one in schedule.placed if one is not None and one.mode.amount(resource) and one.end_ms > 0]
    if not runs:
        return 0
    rows = [
        (max(0, start_ms), end_ms, one.mode.amount(resource))
        for one in runs
        for start_ms, end_ms in one.segments
        if end_ms > 0
    ]
    starts, ends, demands = np.array(rows, dtype=np.int64).T
    return peak(starts, ends, demands)


def _levelled_large(
    roomy: Case, resource: int, floor: int, best: _Found | None, budget: Budget, *, thorough: bool
) -> _Found | None:
    """The better of what is known and what the kernel levels."""
    if best is not None and best[0] <= floor:
        return best
    schedule = levelled_on(roomy, resource, floor, 0, budget, thorough=thorough)
    found = None if schedule is None else _best_known(roomy, resource, [schedule])
    return found if best is None or (found is not None and found[0] < best[0]) else best


def _levelled(roomy: Case, resource: int, floor: int, best: _Found | None, budget: Budget) -> _Found | None:
    """A plan by levelling, where every job is free to move alone: one shape, one resource, no precedence."""
    board = roomy.board
    tasks = [task for task in board.tasks if task.fixed_ms is None]
    simple = (
        len(tasks) == len(board.tasks)
        and len(tasks) > SETTLED_TASKS
        and not board.chained
        and all(len(task.modes) == 1 and len(task.modes[0].demand) == 1 for task in tasks)
        and all(task.deadline_ms is not None for task in tasks)
        and all(task.modes[0].demand[0][0] == resource for task in tasks)
    )
    if not simple or (best is not None and best[0] <= floor):
        return best
    jobs = Movable(
        heads=np.array([task.release_ms for task in tasks], dtype=np.int64),
        tails=np.array([task.deadline_ms for task in tasks], dtype=np.int64),
        durations=np.array([task.modes[0].duration_ms for task in tasks], dtype=np.int64),
        demands=np.array([task.modes[0].demand[0][1] for task in tasks], dtype=np.int64),
    )
    share = budget.share(LEVEL_WORK_PER_JOB * len(tasks))
    starts = level(jobs, max(1, floor), share)
    budget.settle(share)
    height = peak(starts, starts + jobs.durations, jobs.demands)
    if best is not None and best[0] <= height:
        return best
    schedule = Schedule([Placement(task.modes[0], int(start)) for task, start in zip(tasks, starts, strict=True)])
    return (height, roomy.runs(schedule))


def _searched(case: Case, roomy: Case, resource: int, floor: int, best: _Found | None, budget: Budget) -> _Found | None:
    """Fewer and fewer, by halving, as long as a list rule finds a plan."""
    best = best or _best_known(roomy, resource, rule_schedules(roomy, budget, BOTH_CHOICES))
    if best is None and len(bound_tasks(roomy.board, roomy.windows)) <= SETTLED_TASKS:
        found = find_plan(roomy, budget, rules=False).schedule
        if found is not None and not found.missing():
            best = (peak_of(found, resource), roomy.runs(found))
    if best is None:
        return None
    low, high = floor, best[0]
    while low < high:
        middle = (low + high) // 2
        if not budget.spend(len(case.board.tasks)):
            return best
        trial = case.with_steps(resource, constant(case.steps[resource], middle))
        hit = first_that_meets_all(trial, budget)
        if hit is None or hit.missing():
            low = middle + 1
        else:
            height = peak_of(hit, resource)
            best, high = (height, trial.runs(hit)), min(middle, height)
    return best


def _closed(
    case: Case, resource: int, floor: int, certificate: Certificate | None, best: _Found, budget: Budget, most: int
) -> tuple[int, Certificate | None, _Found]:
    """Halve what is left between floor and best: an amount has a plan, or is proven to be too few, or stays open."""
    if len(bound_tasks(case.board, case.windows)) > most:
        return floor, certificate, best
    low = floor
    while low < best[0]:
        middle = (low + best[0]) // 2
        trial = case.with_steps(resource, constant(case.steps[resource], middle))
        found = find_plan(trial, budget, hint=_schedule(trial, best), most=most)
        if found.schedule is not None and not found.schedule.missing():
            best = (peak_of(found.schedule, resource), trial.runs(found.schedule))
            continue
        low = middle + 1
        if found.none_exists and not trial.hard_impossible:
            proof = found.certificate or search_tree(trial, budget)
            if proof is not None:
                floor, certificate = low, proof
    return floor, certificate, best


def _schedule(case: Case, found: _Found) -> Schedule:
    """The runs as a schedule of a case with the same jobs."""
    modes = [{mode.shape: mode for mode in task.modes} for task in case.board.tasks]
    return Schedule(
        [
            None
            if (run := found[1].get(task.job.id)) is None
            else Placement(modes[at][run.shape], run.start_ms, run.parts)
            for at, task in enumerate(case.board.tasks)
        ]
    )
