"""Day by day on the Chronus/Philly trace: 1,200 GPUs, each job known from its submission on.

    python benchmarks/plan_online.py FOLDER_OF_TRACES [--gpus N] [--sample N]

Shares of the jobs that end in time, with a restart that costs 3 min where jobs may be paused; the same for what most
queues do (first come, first served) and for earliest deadline first.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np

from gpuyield.model.job import Problem
from gpuyield.plan.instance.profile import NEVER
from gpuyield.plan.online.day_by_day import NOT_PAUSED, EarliestDeadline, FirstCome, LeastSlack, Policy
from gpuyield.plan.online.replay import Submitted, replay
from gpuyield.units import MINUTE_MS
from plan_trace import read_trace

RESTART_MS = 3 * MINUTE_MS


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("folder", type=Path)
    options.add_argument("--gpus", type=int, default=1_200)
    options.add_argument("--sample", type=int, default=None, help="only so many jobs, in order of submission")
    chosen = options.parse_args()
    problem = read_trace(chosen.folder / "chronus_philly_slo.parquet", chosen.sample)
    fixed, pausable = submitted(problem, NOT_PAUSED), submitted(problem, RESTART_MS)
    show("preemptible", pausable, chosen.gpus, LeastSlack(), "(0.995, 0.999)")
    show("not_preemptible", fixed, chosen.gpus, LeastSlack(), "(0.885, 0.92)")
    show("first_come", fixed, chosen.gpus, FirstCome(), "")
    show("earliest_deadline", fixed, chosen.gpus, EarliestDeadline(), "")


def submitted(problem: Problem, restart_ms: int) -> Submitted:
    """The jobs of a problem on one resource as columns."""
    shapes = [job.shapes[0] for job in problem.jobs]
    return Submitted(
        gpus=np.array([sum(shape.demand.values()) for shape in shapes], dtype=np.int64),
        run_ms=np.array([shape.duration_ms for shape in shapes], dtype=np.int64),
        submit_ms=np.array([job.release_ms for job in problem.jobs], dtype=np.int64),
        deadline_ms=np.array([job.deadline_ms or NEVER for job in problem.jobs], dtype=np.int64),
        restart_ms=np.full(len(shapes), restart_ms, dtype=np.int64),
    )


def show(name: str, jobs: Submitted, gpus: int, policy: Policy, targets: str) -> None:
    began = time.perf_counter()
    found = replay(jobs, gpus, policy, tick_ms=MINUTE_MS)
    took = time.perf_counter() - began
    met = found.end_ms <= jobs.deadline_ms
    work = jobs.gpus * jobs.run_ms
    print(f"plan.online.{name}.deadlines {met.mean():.4f} share {targets}".rstrip())
    print(f"plan.online.{name}.gpu_time {work[met].sum() / work.sum():.4f} share")
    print(f"plan.online.{name}.pauses {found.pauses} pauses")
    print(f"plan.online.{name}.decision {1e6 * took / max(1, found.decisions):.0f} us, {found.decisions} decisions")


if __name__ == "__main__":
    main()
