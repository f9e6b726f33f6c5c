"""Few jobs that may miss their time: which of them, so that the least weight is missed? Every set is tried.

Where the best plan known meets all hard deadlines, only due times may be missed. Else hard deadlines may be given up,
too, and whoever waits for a job that is given up is given up with it. A fixed job is given up only where there is no
room for it beside the other fixed ones; which of those that clash is tried, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from itertools import combinations, product

from gpuyield.plan.case import Case
from gpuyield.plan.deadlines import QUICK_WORK, settled
from gpuyield.plan.instance.board import Task
from gpuyield.plan.instance.budget import Budget
from gpuyield.plan.instance.completed import complete
from gpuyield.plan.instance.schedule import Schedule, meets_all, merit_of
from gpuyield.plan.instance.windows import windows_of
from gpuyield.plan.proof.exact import Answer, bound_tasks

SUBSET_TASKS = 12
MOST_TASKS = 40
SUBSET_WORK = 80_000


def least_missed(case: Case, best: Schedule, budget: Budget) -> Schedule | None:
    """A plan that misses less weight than the best one known; the best one where there is none.

    None where there are too many jobs, or where the work was not enough to try all that misses less.
    """
    misses = _Misses(case, best)
    if len(misses.free) > SUBSET_TASKS or len(case.board.tasks) > MOST_TASKS:
        return None
    share = budget.share(SUBSET_WORK)
    found = _first(case, best, misses, share)
    budget.settle(share)
    return found


def _first(case: Case, best: Schedule, misses: _Misses, budget: Budget) -> Schedule | None:
    merit, is_sure = merit_of(case.board, best), True
    clashes = misses.clashes(budget)
    if not clashes:
        return None
    for missed, clash in misses.lighter_first(merit.weight_on_time, clashes):
        if not budget.spend(len(case.board.tasks)):
            return None
        found = misses.plan_without(missed, clash, budget)
        if found is not None and merit_of(case.board, found) > merit:
            return found if is_sure else None
        is_sure = is_sure and not misses.is_open
    return best if is_sure else None


class _Misses:
    """The jobs that may miss their time (`free`), the fixed ones that may clash, and plans in which a set misses."""

    def __init__(self, case: Case, best: Schedule) -> None:
        self.case, self.is_open = case, False
        self.all_met = meets_all(case.board, best)
        self.doomed = {one.task for one in case.impossible}
        self.free = [task.index for task in case.board.tasks if self._may_miss(task)]
        self.fixed = [] if self.all_met else self._fixed()

    def _may_miss(self, task: Task) -> bool:
        if task.index in self.doomed or not _is_timed(task):
            return False
        if self.all_met or task.fixed_ms is not None:
            return task.due_ms is not None and (task.deadline_ms is None or task.due_ms < task.deadline_ms)
        return True

    def _fixed(self) -> list[int]:
        tasks = self.case.board.tasks
        bound = bound_tasks(self.case.board, self.case.windows)
        return [at for at in bound if tasks[at].fixed_ms is not None and at not in self.doomed]

    def clashes(self, budget: Budget) -> list[frozenset[int]]:
        """The least sets of fixed jobs without which the others have room; none where that is too much to try."""
        least: list[frozenset[int]] = []
        for size in range(len(self.fixed) + 1):
            for gone in map(frozenset, combinations(self.fixed, size)):
                if any(known <= gone for known in least):
                    continue
                if gone and len(self.free) + len(self.fixed) > SUBSET_TASKS:
                    return []
                kept = [at for at in self.fixed if at not in gone]
                answer = settled(self.case, self.case.windows, kept, budget, QUICK_WORK).answer
                if answer is Answer.OPEN or not budget.spend(1 + len(kept)):
                    return []
                if answer is Answer.PLAN:
                    least.append(gone)
            if frozenset() in least:
                break
        return least

    def lighter_first(
        self, on_time: Decimal, clashes: Iterable[frozenset[int]]
    ) -> Iterator[tuple[frozenset[int], frozenset[int]]]:
        """Sets to miss, and the clash to give up with each, least weight first while more is on time than so much."""
        tasks = self.case.board.tasks
        timed = [task for task in tasks if _is_timed(task) and task.index not in self.doomed]
        total = sum((task.weight for task in timed), start=Decimal(0))
        sets = []
        for clash, number in product(clashes, range(1 << len(self.free))):
            gone = [at for place, at in enumerate(self.free) if number >> place & 1]
            weight = sum((tasks[at].weight for at in clash.union(gone) if _is_timed(tasks[at])), start=Decimal(0))
            if total - weight >= on_time:
                sets.append((weight, len(gone) + len(clash), gone, sorted(clash)))
        sets.sort()
        return ((frozenset(gone), frozenset(clash)) for *_, gone, clash in sets)

    def plan_without(self, missed: frozenset[int], clash: frozenset[int], budget: Budget) -> Schedule | None:
        """A plan in which all others are on time; None without one."""
        case = self.case
        dropped = self.doomed | clash
        if not self.all_met:
            dropped |= {at for at in missed if case.board.tasks[at].deadline_ms is not None}
        ends = {task.index: _end(task, missed, dropped) for task in case.board.tasks}
        windows = windows_of(case.board, case.steps, ends)
        kept = [at for at in bound_tasks(case.board, windows) if at not in dropped]
        if any(one in dropped for at in kept for one in case.board.tasks[at].before):
            return None
        answer = settled(case, windows, kept, budget, QUICK_WORK)
        self.is_open = answer.answer is Answer.OPEN
        return complete(case, answer.placed) if answer.answer is Answer.PLAN else None


def _is_timed(task: Task) -> bool:
    return (task.deadline_ms, task.due_ms) != (None, None)


def _end(task: Task, missed: frozenset[int], dropped: Sequence[int] | set[int]) -> int | None:
    if task.index in dropped:
        return None
    if task.index in missed:
        return task.deadline_ms
    return min((end for end in (task.deadline_ms, task.due_ms) if end is not None), default=None)
