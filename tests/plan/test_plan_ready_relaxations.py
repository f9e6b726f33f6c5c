"""Relaxations of large problems: a deadline is moved by what lacks, not by a slot of the grid."""

from __future__ import annotations

from itertools import pairwise

from gpuyield.model.plan import Drop, MoveDeadline
from gpuyield.plan.case import Case
from gpuyield.plan.instance.budget import Budget
from gpuyield.plan.instance.completed import complete
from gpuyield.plan.relaxation.ready import ready_relaxations
from plan.small import UNIT_MS, job, problem


def test_the_last_of_a_long_chain_is_moved_by_the_second_that_it_lacks() -> None:
    count, hours = 400, 60
    names = [f"job-{at:03}" for at in range(count)]
    first = job(names[0], 1, hours)
    chain = [job(name, 1, hours, after=(before,)) for before, name in pairwise(names[:-1])]
    last = job(names[-1], 1, hours, deadline=count * hours, after=(names[-2],))
    case = Case.of(problem(first, *chain, last)).with_later({names[-1]: -1000})
    best = complete(case, {})

    moved, dropped = ready_relaxations(case, best, [], Budget(10_000))

    assert isinstance(moved, MoveDeadline)
    assert moved.jobs == ((names[-1], 1000),)
    assert moved.witness[names[-1]].end_ms == count * hours * UNIT_MS
    assert isinstance(dropped, Drop)
    assert dropped.jobs == (names[-1],)
