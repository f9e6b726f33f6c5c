"""Fewest GPUs for the Chronus/Philly trace: 30,735 GPU jobs with published deadlines, all met.

python benchmarks/plan_trace.py FOLDER_OF_TRACES [--sample N]
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import duckdb

from gpuyield.model.job import Capacity, PlanJob, Problem, Shape
from gpuyield.plan import make_plan
from gpuyield.units import MINUTE_MS

WORK = 1_000_000
POOL = 2_000


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("folder", type=Path)
    options.add_argument("--sample", type=int, default=None, help="only so many jobs, in order of submission")
    chosen = options.parse_args()
    problem = read_trace(chosen.folder / "chronus_philly_slo.parquet", chosen.sample)
    began, cpu = time.perf_counter(), time.process_time()
    plan = make_plan(problem, work=WORK)
    need = plan.need("gpu")
    print(f"plan.trace.needed {need.needed} GPUs (1160, 1145)")
    print(f"plan.trace.lower_bound {need.lower_bound} GPUs (1128, 1128)")
    print(f"plan.trace.at_once {plan.peak_if_started_at_once['gpu']} GPUs")
    print(f"plan.trace.time {time.perf_counter() - began:.1f} s (10, 10)")
    print(f"plan.trace.processor {time.process_time() - cpu:.1f} s")


def read_trace(path: Path, sample: int | None) -> Problem:
    """The trace's GPU jobs, the last of several deadlines, on a pool that is large enough."""
    wanted = """
        select job_id, num_gpu, submit_time, duration, expect_time_list
        from read_parquet($path) where num_gpu > 0 order by submit_time, job_id
        """
    rows = duckdb.connect().execute(wanted, {"path": str(path)}).fetchall()
    jobs = tuple(
        PlanJob(
            id=f"job-{number}",
            shapes=(Shape(demand={"gpu": gpus}, duration_ms=length * MINUTE_MS),),
            release_ms=submitted * MINUTE_MS,
            deadline_ms=(submitted + int(str(within).split("-")[-1])) * MINUTE_MS,
        )
        for number, gpus, submitted, length, within in rows[:sample]
    )
    return Problem(origin_ms=0, jobs=jobs, capacity=Capacity(steps={"gpu": ((0, POOL),)}))


if __name__ == "__main__":
    main()
