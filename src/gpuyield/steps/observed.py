"""The jobs that were seen, planned again: had our plan been used, and what if they had deadlines."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

from gpuyield.account import batch_capacity, observed_jobs, plan_jobs
from gpuyield.model.document import schema_name
from gpuyield.model.evidence import Gap
from gpuyield.model.job import Capacity, Problem
from gpuyield.model.plan import JobStatus, ObservedRow
from gpuyield.plan import make_plan, observed_table
from gpuyield.report.answer import Answer
from gpuyield.report.screens.conditional import conditional_answer as answer_of
from gpuyield.report.sentences import count
from gpuyield.steps.evidence import Evidence
from gpuyield.steps.plan import deadline
from gpuyield.units import DAY_MS, Window

OBSERVED_MS = 7 * DAY_MS
_ON_TIME_LIMIT = "10s"


def jobs_on_time(evidence: Evidence) -> Collection[str] | None:
    """Jobs that our plan runs in time on the GPUs that batch work had; None where no job has a deadline."""
    origin_ms = evidence.window.from_ms
    jobs = []
    for one in plan_jobs(observed_jobs(evidence.accounting), origin_ms=origin_ms):
        namespace, _, name = one.id.partition("/")
        promised = evidence.promises.jobs.get((namespace, name))
        limit = promised.limit_ms if promised else None
        jobs.append(replace(one, deadline_ms=None if limit is None else limit - origin_ms))
    promised_jobs = {one.id for one in jobs if one.deadline_ms is not None}
    if not promised_jobs:
        return None
    problem = Problem(
        origin_ms=origin_ms,
        jobs=tuple(jobs),
        capacity=batch_capacity(evidence.accounting, origin_ms=origin_ms),
        zone=evidence.setting.declaration.reporting_zone,
    )
    plan = make_plan(problem, should_stop=deadline(_ON_TIME_LIMIT), advise=False, bound=False)
    return {one.id for one in plan.jobs if one.status is JobStatus.PLANNED and one.id in promised_jobs}


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """The conditional table, of so many jobs, and what it leaves out."""

    rows: tuple[ObservedRow, ...]
    jobs: int
    gaps: tuple[Gap, ...]


NOTHING_OBSERVED = Observed(rows=(), jobs=0, gaps=())


def observed_rows(evidence: Evidence, *, seed: int = 0, should_stop: Callable[[], bool] = lambda: False) -> Observed:
    """GPUs needed if the batch jobs of the last week may each finish within so long."""
    window = evidence.window
    recent = Window(max(window.from_ms, window.to_ms - OBSERVED_MS), window.to_ms)
    came = [one for one in observed_jobs(evidence.accounting) if recent.from_ms <= one.created_ms < recent.to_ms]
    jobs = plan_jobs(came, origin_ms=recent.from_ms)
    if not jobs:
        return replace(NOTHING_OBSERVED, gaps=_left_out(len(came), ()))
    capacity = from_origin(batch_capacity(evidence.accounting, origin_ms=recent.from_ms))
    rows = observed_table(
        jobs,
        capacity,
        origin_ms=recent.from_ms,
        zone=evidence.setting.declaration.reporting_zone,
        seed=seed,
        should_stop=should_stop,
    )
    return Observed(rows=tuple(rows), jobs=len(jobs), gaps=_left_out(len(came) - len(jobs), rows))


def _left_out(unfinished: int, rows: Sequence[ObservedRow]) -> tuple[Gap, ...]:
    gaps = []
    if unfinished:
        reason = (
            f"{count(unfinished, 'batch job')} of the last week had not ended yet: how long they run is not known, and "
            "the table is without them."
        )
        gaps.append(Gap(reason=reason, where="conditional"))
    gaps += [
        Gap(
            reason=f"{row.finish_within}: no plan in which every job is in time was found, so the number is not known.",
            where="conditional",
        )
        for row in rows
        if row.gpus_needed is None
    ]
    return tuple(gaps)


def from_origin(capacity: Capacity) -> Capacity:
    """The same from the origin on: what was there before it is left out."""
    steps = {}
    for resource, listed in capacity.steps.items():
        before = [amount for at, amount in listed if at <= 0]
        after = tuple((at, amount) for at, amount in listed if at > 0)
        steps[resource] = ((0, before[-1]), *after) if before else after
    return Capacity(steps=steps)


def conditional_answer(evidence: Evidence, *, seed: int, should_stop: Callable[[], bool], gate: bool) -> Answer:
    """The answer of `gpuyield plan` where no job has a deadline: conditional, from the batch jobs of the ledger."""
    found = observed_rows(evidence, seed=seed, should_stop=should_stop)
    return answer_of(
        found.rows,
        jobs=found.jobs,
        schema=schema_name("plan"),
        gaps=found.gaps,
        zone=evidence.setting.zone,
        gate=gate,
    )
