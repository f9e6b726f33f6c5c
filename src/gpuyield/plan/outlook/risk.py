"""How likely each job is late although it is planned in time: the plan carried out with sampled run times.

Run times are drawn from what is known of them (`PlanJob.spread_ms`); of a running job only those that are longer than
it has run already. A job is late in a sample if it ends after its deadline (without one: its due time). Nothing is
planned anew in a sample, so this is on the careful side. Deterministic by seed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any  # numba's compiled functions have no types.

import numpy as np

from gpuyield.model.job import PlanJob, Problem
from gpuyield.model.plan import Run
from gpuyield.plan.instance.board import Steps, Task, arrange
from gpuyield.plan.instance.profile import NEVER
from gpuyield.plan.outlook.execution import late_in

SAMPLES = 200


@dataclass(frozen=True, slots=True)
class _Piece:
    """A part of a run: the last part takes what a sample takes longer or less."""

    task: Task
    run: Run
    start_ms: int
    length_ms: int
    is_last: bool


def chances_of_lateness(
    problem: Problem,
    runs: Mapping[str, Run],
    *,
    seed: int = 0,
    samples: int = SAMPLES,
    execute: Callable[..., Any] = late_in,
) -> dict[str, Fraction]:
    """The share of samples in which each job is late, for the jobs that run, have a limit, and whose spread is known.

    `execute` is `late_in`, compiled or as it stands.
    """
    if not any(job.spread_ms and job.id in runs for job in problem.jobs):
        return {}
    board = arrange(problem)
    pieces = sorted(
        (piece for task in board.tasks if task.job.id in runs for piece in _pieces(task, runs[task.job.id])),
        key=lambda one: (one.start_ms, one.task.index),
    )
    last = {one.task.index: at for at, one in enumerate(pieces) if one.is_last}
    lengths = _lengths(pieces, seed, samples)
    first_before, before = _waits(pieces, last)
    times, amounts = _capacity(board.steps)
    demand = np.zeros((len(pieces), len(board.resources)), dtype=np.int64)
    for at, one in enumerate(pieces):
        mode = next(mode for mode in one.task.modes if mode.shape == one.run.shape)
        for resource, amount in mode.demand:
            demand[at, resource] = amount
    late = execute(
        np.array([one.start_ms for one in pieces], dtype=np.int64),
        lengths,
        demand,
        first_before,
        before,
        times,
        amounts,
        np.array([_limit(one.task.job) for one in pieces], dtype=np.int64),
    )
    return {
        one.task.job.id: Fraction(int(late[at]), samples)
        for at, one in enumerate(pieces)
        if one.is_last and one.task.job.spread_ms and _limit(one.task.job) < NEVER
    }


def _pieces(task: Task, run: Run) -> list[_Piece]:
    """What of a run is still to come at the origin."""
    left = [(max(0, start_ms), end_ms) for start_ms, end_ms in run.segments if end_ms > 0]
    return [
        _Piece(task, run, start_ms, end_ms - start_ms, at == len(left) - 1)
        for at, (start_ms, end_ms) in enumerate(left)
    ]


def _elapsed(run: Run) -> int:
    """How long it has run by the origin."""
    return sum(min(0, end_ms) - min(0, start_ms) for start_ms, end_ms in run.segments)


def _limit(job: PlanJob) -> int:
    limit = job.deadline_ms if job.deadline_ms is not None else job.due_ms
    return NEVER if limit is None else limit


def _lengths(pieces: list[_Piece], seed: int, samples: int) -> Any:
    """Run times by sample and piece; those of jobs without a spread as planned."""
    chance = np.random.default_rng(seed)
    lengths = np.empty((samples, len(pieces)), dtype=np.int64)
    for at, one in enumerate(pieces):
        lengths[:, at] = one.length_ms
        job = one.task.job
        if not job.spread_ms or not one.is_last:
            continue
        planned = job.shapes[one.run.shape].duration_ms
        scale = planned / job.shapes[0].duration_ms
        drawn = _draw(job, scale, _elapsed(one.run), chance.random(samples))
        lengths[:, at] = np.maximum(one.length_ms + drawn - planned, 1)
    return lengths


def _draw(job: PlanJob, scale: float, elapsed_ms: int, chance: Any) -> Any:
    """Run times longer than a job has run already, by chances of 0 to 1."""
    spread = np.array(job.spread_ms, dtype=np.float64) * scale
    shares = np.linspace(0.0, 1.0, len(spread))
    begin = float(np.interp(elapsed_ms, spread, shares)) if elapsed_ms else 0.0
    if begin >= 1.0:
        # It runs longer than any did: what is planned is all that is known.
        return np.full(len(chance), max(elapsed_ms + 1, job.shapes[0].duration_ms * scale)).astype(np.int64)
    drawn = np.interp(begin + (1.0 - begin) * chance, shares, spread)
    return np.maximum(np.ceil(drawn), elapsed_ms + 1).astype(np.int64)


def _waits(pieces: list[_Piece], last: Mapping[int, int]) -> tuple[Any, Any]:
    first, before = [0], []
    seen: dict[int, int] = {}
    for at, one in enumerate(pieces):
        earlier = seen.get(one.task.index)
        before += [last[other] for other in one.task.before if other in last] if earlier is None else [earlier]
        seen[one.task.index] = at
        first.append(len(before))
    return np.array(first, dtype=np.int64), np.array(before, dtype=np.int64)


def _capacity(steps: Sequence[Steps]) -> tuple[Any, Any]:
    """What exists of each resource from each instant on at which anything changes."""
    times = np.array(sorted({-NEVER, *(at for one in steps for at, _ in one)}), dtype=np.int64)
    amounts = np.zeros((len(times), len(steps)), dtype=np.int64)
    for resource, one in enumerate(steps):
        level = np.array([0, *(amount for _, amount in one)], dtype=np.int64)
        amounts[:, resource] = level[np.searchsorted([at for at, _ in one], times, side="right")]
    return times, amounts
