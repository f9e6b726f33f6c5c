"""The question a certificate answers with "impossible"."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from .alone import Alone
from .frame import Frame
from .problem import Problem


@dataclass(frozen=True, kw_only=True)
class Question:
    """Can all binding deadlines of `problem` be met?

    `printed` is the problem whose capacity a certificate states in its figures: the inputs', where `problem` has a
    resource replaced by a constant. With `weight_above` (a share of the timed weight) the question is instead whether
    more weight than that can be on time; jobs in `must_meet` are never given up. `looser` is a problem that asks less
    (the constant resource unlimited): what it forces, `problem` forces too, and no job in it is merely too wide. With
    `all_run` jobs without a deadline are asked for too, as they are where an amount is to suffice.
    """

    problem: Problem
    printed: Problem
    looser: Problem | None = None
    weight_above: Fraction | None = None
    must_meet: frozenset[str] = frozenset()
    all_run: bool = False

    @cached_property
    def frame(self) -> Frame:
        """Heads and tails of all jobs."""
        return Frame(self.problem)

    @cached_property
    def frames(self) -> list[Frame]:
        """The frame of the problem, and of the looser one where there is one."""
        return [self.frame] if self.looser is None else [self.frame, Frame(self.looser)]

    @cached_property
    def owed(self) -> set[str]:
        """The jobs that every answer "yes" runs: the hard ones, what they wait for, or all."""
        jobs = self.problem.jobs
        waiting = [name for name, job in jobs.items() if self.all_run or job.is_hard]
        found = set(waiting)
        while waiting:
            fresh = set(jobs[waiting.pop()].after) - found
            found |= fresh
            waiting.extend(fresh)
        return found

    @cached_property
    def alone(self) -> Alone:
        """What each job can do alone."""
        return Alone(self.problem)
