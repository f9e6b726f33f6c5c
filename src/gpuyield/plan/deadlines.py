"""One question, "can all hard deadlines of this problem be met?", and the two ways to answer it.

`find_plan` looks for a plan that meets them; `prove` looks for a certificate that none does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from gpuyield.model.plan import Certificate
from gpuyield.plan.case import Case
from gpuyield.plan.instance.board import Board
from gpuyield.plan.instance.budget import Budget, never
from gpuyield.plan.instance.completed import complete
from gpuyield.plan.instance.schedule import (
    Manner,
    Schedule,
    ShapeChoice,
    list_orders,
    meets_all,
    serial_schedule,
)
from gpuyield.plan.instance.slots import settle_in_slots
from gpuyield.plan.instance.windows import Windows
from gpuyield.plan.proof.cut import cut_certificate
from gpuyield.plan.proof.dual_feasible import dual_feasible
from gpuyield.plan.proof.exact import Answer, Settled, bound_tasks, settle
from gpuyield.plan.proof.impossible import impossible_certificate
from gpuyield.plan.proof.learn import learn
from gpuyield.plan.proof.overload import Overload, interval_certificate, tightest
from gpuyield.plan.proof.tree import search_certificate
from gpuyield.plan.proof.wide_gangs import one_at_a_time
from gpuyield.plan.search.large import is_large, large_schedules, meeting_all

BOTH_CHOICES = (Manner(ShapeChoice.SLOWEST), Manner(ShapeChoice.EARLIEST))
SETTLED_TASKS = 60
"""Beyond so many jobs with a deadline the exact lane is not tried."""
FEW_TASKS = 14
"""So many are settled by trying orders; of more only what is soon settled, before learning from dead ends."""
SETTLE_WORK = 40_000
QUICK_WORK = 5_000
"""What the exact lane may spend on one of many variants of a problem."""
LEARN_TASKS = 400
LEARN_SHARE = 2
"""How much more than that learning from dead ends may spend."""
TREE_NODES = 3_000
TREE_WORK = 40_000


def rule_schedules(case: Case, budget: Budget, manners: Sequence[Manner] = (Manner(),)) -> list[Schedule]:
    """One schedule per list rule and manner, while the budget lasts."""
    return list(_rule_schedules(case, budget, manners))


def has_choice(board: Board) -> bool:
    """Whether how jobs are placed makes a difference: some have several shapes, or may be paused."""
    return any(len(task.modes) > 1 or task.job.restart_ms is not None for task in board.tasks)


def first_that_meets_all(case: Case, budget: Budget) -> Schedule | None:
    """The first schedule of the list rules that meets all hard deadlines; None without one."""
    strict = [replace(manner, all_or_nothing=True) for manner in BOTH_CHOICES]
    return next((one for one in _rule_schedules(case, budget, strict) if meets_all(case.board, one)), None)


def _rule_schedules(case: Case, budget: Budget, manners: Sequence[Manner]) -> Iterator[Schedule]:
    if is_large(case):
        yield from large_schedules(case, budget, manners)
        return
    several = has_choice(case.board)
    first = True
    for order in list_orders(case.board, case.windows):
        for number, manner in enumerate(manners):
            if number and not several and manner.overrun == manners[0].overrun:
                continue
            if not budget.spend(len(order)) and not first:
                return
            first = False
            yield serial_schedule(case.board, case.steps, case.windows, order, manner)


@dataclass(frozen=True, slots=True)
class Finding:
    """A plan that meets all deadlines, or whether there is proven to be none (in one piece each), and by what."""

    schedule: Schedule | None
    none_exists: bool = False
    certificate: Certificate | None = None


def find_plan(
    case: Case,
    budget: Budget,
    *,
    rules: bool = True,
    work: int = SETTLE_WORK,
    hint: Schedule | None = None,
    most: int = LEARN_TASKS,
) -> Finding:
    """Look for a plan that meets all hard deadlines: list rules first, then the exact lanes for small problems.

    `hint` is a schedule that nearly does, `most` the number of jobs beyond which the lanes are not tried.
    """
    if case.hard_impossible:
        return Finding(None, none_exists=True)
    if rules:
        schedule = first_that_meets_all(case, budget)
        if schedule is not None:
            return Finding(schedule)
    if is_large(case):
        schedule = meeting_all(case, budget)
        if schedule is not None:
            return Finding(schedule)
    tasks = bound_tasks(case.board, case.windows)
    paused = any(case.board.tasks[at].job.restart_ms is not None for at in tasks)
    found = _settled_or_learned(case, tasks, budget, work, hint, most, paused=paused)
    if not paused or found.schedule is not None or found.certificate is not None:
        return found
    proof = cut_certificate(case.board, case.steps, case.windows, case.forced, budget)
    if proof is not None:
        return Finding(None, none_exists=True, certificate=proof)
    if SETTLED_TASKS < len(tasks) <= most:
        whole = _learned(case.in_one_piece(), tasks, budget, work, hint)
        found = found if whole.schedule is None else whole
    return found


def _settled_or_learned(
    case: Case, tasks: Sequence[int], budget: Budget, work: int, hint: Schedule | None, most: int, *, paused: bool
) -> Finding:
    if len(tasks) > SETTLED_TASKS:
        return _learned(case, tasks, budget, work, hint) if len(tasks) <= most else Finding(None)
    quick = work if paused or len(tasks) <= FEW_TASKS else min(work, QUICK_WORK)
    found = settled(case, case.windows, tasks, budget, quick)
    if found.answer is Answer.PLAN:
        return Finding(complete(case, found.placed))
    if found.answer is Answer.OPEN:
        return _learned(case, tasks, budget, work, hint)
    return Finding(None, none_exists=True)


def _learned(case: Case, tasks: Sequence[int], budget: Budget, work: int, hint: Schedule | None = None) -> Finding:
    """The same by learning from dead ends, which also proves that there is none."""
    share = budget.share(LEARN_SHARE * work)
    found = learn(case.board, case.steps, tasks, hint, share)
    budget.settle(share)
    if found.answer is Answer.PLAN:
        return Finding(complete(case, found.placed))
    return Finding(None, none_exists=found.answer is Answer.NONE, certificate=found.certificate)


def settled(case: Case, windows: Windows, tasks: Sequence[int], budget: Budget, work: int) -> Settled:
    """The given tasks searched to the end: in one piece each, then slot by slot where some may be paused.

    `NONE` speaks of jobs in one piece.
    """
    share = budget.share(work)
    found = settle(case.board, case.steps, windows, tasks, share)
    budget.settle(share)
    if found.answer is Answer.PLAN or all(case.board.tasks[at].job.restart_ms is None for at in tasks):
        return found
    share = budget.share(work)
    placed = settle_in_slots(case.board, case.steps, windows, tasks, share)
    budget.settle(share)
    return found if placed is None else Settled(Answer.PLAN, placed)


def worst_overload(case: Case) -> tuple[int, Overload] | None:
    """The resource and span with most extra needed, GPU resources before others."""
    best: tuple[tuple[bool, Overload], int] | None = None
    gpus = set(case.board.gpu_resources())
    for resource, (forced, steps) in enumerate(zip(case.forced, case.steps, strict=True)):
        found = tightest(forced, steps)
        if found and (best is None or (resource in gpus, found) > best[0]):
            best = ((resource in gpus, found), resource)
    return None if best is None else (best[1], best[0][1])


def prove(case: Case, budget: Budget, *, known: Finding | None = None, work: int = SETTLE_WORK) -> Certificate | None:
    """A certificate that not all hard deadlines can be met; None where none was found.

    `known` is what the exact lanes already know, None: they have not been asked.
    """
    if case.hard_impossible:
        return _impossible_certificate(case, budget)
    quick = quick_proof(case, budget)
    if quick is not None:
        return quick
    return searched_proof(case, budget, known or find_plan(case, budget, rules=False, work=work), work=work)


def searched_proof(case: Case, budget: Budget, known: Finding, *, work: int = SETTLE_WORK) -> Certificate | None:
    """The certificate of what the exact lanes know; None where they found a plan, or nothing."""
    if known.certificate is not None or not known.none_exists:
        return known.certificate
    return search_tree(case, budget) or _learned(case, bound_tasks(case.board, case.windows), budget, work).certificate


def quick_proof(case: Case, budget: Budget) -> Certificate | None:
    """The certificate of an overloaded interval or of gangs that do not fit each other; None where there is neither."""
    over = worst_overload(case)
    if over:
        resource, span = over
        interval = interval_certificate(case.board, case.steps, case.windows, resource, span.from_ms, span.to_ms)
        if interval["required_gpu_ms"] > interval["capacity_gpu_ms"]:
            return interval
    return wide_gangs(case, budget.should_stop)


def _impossible_certificate(case: Case, budget: Budget) -> Certificate | None:
    roots = [one for one in case.hard_impossible if not one.is_behind]
    roots = roots or [one for one in case.impossible if not one.is_behind]
    found = impossible_certificate(case.board, roots)
    if found is not None:
        return found
    for one in roots:
        share = budget.share(TREE_WORK)
        tree = search_certificate(case.board, case.steps, [one.task], TREE_NODES, share)
        budget.settle(share)
        if tree is not None:
            return tree
    return None


def wide_gangs(case: Case, should_stop: Callable[[], bool] = never) -> Certificate | None:
    """Gangs of which no two fit side by side, or that leave too much idle beside each other; None without any."""
    given = (case.board, case.steps, case.windows, case.forced)
    return one_at_a_time(*given) or dual_feasible(*given, should_stop)


def search_tree(case: Case, budget: Budget) -> Certificate | None:
    """A replayable tree, grown on as few jobs as still have no plan; None where it does not close."""
    tasks = bound_tasks(case.board, case.windows)
    rigid = [at for at in tasks if case.board.tasks[at].job.restart_ms is None]
    if rigid != tasks:
        share = budget.share(SETTLE_WORK)
        settled = settle(case.board, case.steps, case.windows, rigid, share)
        budget.settle(share)
        if settled.answer is not Answer.NONE:
            return None
    core = _core(case, rigid, budget)
    share = budget.share(TREE_WORK)
    tree = search_certificate(case.board, case.steps, core, TREE_NODES, share)
    budget.settle(share)
    return tree


def _core(case: Case, tasks: list[int], budget: Budget) -> list[int]:
    """Jobs that have no plan already by themselves, as few as leaving one out at a time finds."""
    core = list(tasks)
    for at in tasks:
        if case.board.tasks[at].fixed_ms is not None:
            continue
        share = budget.share(SETTLE_WORK // 10)
        fewer = [one for one in core if one != at]
        settled = settle(case.board, case.steps, case.windows, fewer, share)
        budget.settle(share)
        if settled.answer is Answer.NONE:
            core = fewer
    return core
