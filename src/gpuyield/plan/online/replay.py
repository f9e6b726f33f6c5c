"""What would have come of jobs, had a policy run them that knows each from its submission on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuyield.plan.instance.profile import NEVER
from gpuyield.plan.online.day_by_day import Active, Column, Policy


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    """Jobs to be replayed, as columns of the same length."""

    gpus: Column
    run_ms: Column
    submit_ms: Column
    deadline_ms: Column
    restart_ms: Column


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """What came of each job: `end_ms` (`NEVER`: it did not run to its end), and how often one was paused in all."""

    end_ms: Column
    pauses: int
    decisions: int


def replay(jobs: Submitted, pool: int, policy: Policy, *, tick_ms: int) -> Replayed:
    """Run the jobs as a policy decides that knows each from its submission on; it is asked every `tick_ms`.

    Nothing is asked where nothing waits; a job ends exactly when its run time is over.
    """
    return _Replay(jobs, pool, policy).run(tick_ms)


class _Replay:
    def __init__(self, jobs: Submitted, pool: int, policy: Policy) -> None:
        self.jobs, self.pool, self.policy = jobs, pool, policy
        self.order = np.argsort(jobs.submit_ms, kind="stable")
        self.known = 0
        self.active = np.zeros(0, dtype=np.int64)
        self.left_ms = jobs.run_ms.astype(np.int64).copy()
        self.running = np.zeros(len(jobs.gpus), dtype=np.bool_)
        self.end_ms = np.full(len(jobs.gpus), NEVER, dtype=np.int64)
        self.pauses = self.decisions = 0

    def run(self, tick_ms: int) -> Replayed:
        now = int(self.jobs.submit_ms.min(initial=0)) // tick_ms * tick_ms
        while self.known < len(self.order) or len(self.active):
            changed = self._submit(now)
            changed |= self._end(now)
            if len(self.active) and (changed or not self.running[self.active].all()):
                self._decide(now)
            now = self._next(now, tick_ms)
        return Replayed(end_ms=self.end_ms, pauses=self.pauses, decisions=self.decisions)

    def _submit(self, now: int) -> bool:
        """Make known what was submitted; what is wider than the pool never runs."""
        first = self.known
        while self.known < len(self.order) and self.jobs.submit_ms[self.order[self.known]] <= now:
            at = int(self.order[self.known])
            self.policy.submitted(int(self.jobs.gpus[at]), int(self.jobs.run_ms[at]))
            self.known += 1
        if self.known > first:
            new = self.order[first : self.known]
            self.active = np.concatenate([self.active, new[self.jobs.gpus[new] <= self.pool]])
        return self.known > first

    def _end(self, now: int) -> bool:
        over = self.running[self.active] & (self.left_ms[self.active] <= 0)
        if not over.any():
            return False
        ended = self.active[over]
        self.end_ms[ended] = now + self.left_ms[ended]
        self.running[ended] = False
        self.active = self.active[~over]
        return True

    def _decide(self, now: int) -> None:
        jobs, which = self.jobs, self.active
        self.decisions += 1
        decision = self.policy.decide(
            now,
            self.pool,
            Active(
                gpus=jobs.gpus[which],
                run_ms=jobs.run_ms[which],
                left_ms=self.left_ms[which],
                deadline_ms=jobs.deadline_ms[which],
                restart_ms=jobs.restart_ms[which],
                running=self.running[which],
            ),
        )
        self.running[which[list(decision.start)]] = True
        paused = which[list(decision.pause)]
        self.running[paused] = False
        self.left_ms[paused] += jobs.restart_ms[paused]
        self.pauses += len(paused)
        self.running[which[list(decision.give_up)]] = False
        self.active = np.delete(which, list(decision.give_up))

    def _next(self, now: int, tick_ms: int) -> int:
        """The next tick; where all that is known runs, the first at which something changes."""
        runs = self.running[self.active]
        step = 1
        if runs.all():
            waits = [int(self.left_ms[self.active].min())] if len(self.active) else []
            if self.known < len(self.order):
                waits.append(int(self.jobs.submit_ms[self.order[self.known]]) - now)
            step = max(1, -(-min(waits, default=0) // tick_ms))
        self.left_ms[self.active[runs]] -= step * tick_ms
        return now + step * tick_ms
