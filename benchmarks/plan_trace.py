"""The Chronus/Philly trace through the command line: 30,735 GPU jobs with published deadlines, on the fewest GPUs.

    python benchmarks/plan_trace.py FOLDER_OF_TRACES [--sample JOBS] [--time 10] [--seeds N]

Parquet in, document and canonical inputs out, then `verify`, each a process of its own. The time limit counts the
planning; reading, writing and the checks of the input come on top. Compiling comes before.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import duckdb

from gpuyield.model.job import Capacity, PlanJob, Problem, Shape
from gpuyield.steps.compiled import make_ready
from gpuyield.units import MINUTE_MS

POOL = 2_000
ORIGIN = "2026-12-01T00:00:00Z"
WANTED = """
    select job_id, num_gpu, submit_time, duration, expect_time_list
    from read_parquet($path) where num_gpu > 0 order by submit_time, job_id
    """


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("folder", type=Path)
    options.add_argument("--sample", type=int, default=None, help="only so many jobs, in order of submission")
    options.add_argument("--time", type=float, default=10)
    options.add_argument("--seeds", type=int, default=3)
    chosen = options.parse_args()
    make_ready(1_000)
    rows = read_rows(chosen.folder / "chronus_philly_slo.parquet", chosen.sample)
    needed, took, checked = [], [], []
    with tempfile.TemporaryDirectory() as folder:
        jobs, plan = Path(folder) / "jobs.parquet", Path(folder) / "plan.json"
        write_jobs(rows, jobs)
        for seed in range(chosen.seeds):
            asked = ["--jobs", str(jobs), "--gpus", str(POOL), "--origin", ORIGIN, "--objective", "fewest-gpus"]
            took.append(run(["plan", *asked, "--time-limit", f"{chosen.time:g}s", "--seed", str(seed)], plan))
            document = json.loads(plan.read_text(encoding="utf-8"))
            needed.append(document["gpus"]["gpu"]["needed"])
            checked.append(run(["verify", str(plan)], None))
    most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(f"plan.trace.needed {median(needed):g} GPUs (1160, 1145)")
    print(f"plan.trace.lower_bound {document['gpus']['gpu']['lower_bound']} GPUs (1128, 1128)")
    print(f"plan.trace.at_once {document['peak_if_started_at_once']['gpu']} GPUs (-, -)")
    print(f"plan.trace.end_to_end {median(took):.1f} s (30, 30)")
    print(f"plan.trace.verify {median(checked):.1f} s (20, 20)")
    print(f"plan.trace.memory {most:.0f} MiB (1024, 1024)")


def run(arguments: list[str], out: Path | None) -> float:
    """How long the command took, in seconds."""
    written = [] if out is None else ["--out", str(out)]
    began = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "gpuyield", *arguments, *written, "--quiet"],
        check=True,
        stdout=subprocess.DEVNULL,
        cwd=None if out is None else out.parent,
    )
    return time.perf_counter() - began


def read_rows(path: Path, sample: int | None) -> list[tuple[object, int, int, int, str]]:
    """Id, GPUs, submission, run time and times to finish within, in minutes."""
    return duckdb.connect().execute(WANTED, {"path": str(path)}).fetchall()[:sample]


def write_jobs(rows: list[tuple[object, int, int, int, str]], path: Path) -> None:
    """The jobs as a job file; of several deadlines the last."""
    connection = duckdb.connect()
    connection.execute("create table jobs (id text, gpus int, duration_s bigint, release bigint, deadline bigint)")
    listed = [
        (f"job-{number}", gpus, length * 60, submitted * 60, (submitted + int(str(within).split("-")[-1])) * 60)
        for number, gpus, submitted, length, within in rows
    ]
    columns = {name: [row[at] for row in listed] for at, name in enumerate(("id", "gpus", "s", "r", "d"))}
    connection.execute(
        "insert into jobs select unnest($id), unnest($gpus), unnest($s), unnest($r), unnest($d)", columns
    )
    connection.execute(f"copy jobs to '{path}' (format parquet)")


def read_trace(path: Path, sample: int | None) -> Problem:
    """The same as a problem on a pool that is large enough."""
    jobs = tuple(
        PlanJob(
            id=f"job-{number}",
            shapes=(Shape(demand={"gpu": gpus}, duration_ms=length * MINUTE_MS),),
            release_ms=submitted * MINUTE_MS,
            deadline_ms=(submitted + int(str(within).split("-")[-1])) * MINUTE_MS,
        )
        for number, gpus, submitted, length, within in read_rows(path, sample)
    )
    return Problem(origin_ms=0, jobs=jobs, capacity=Capacity(steps={"gpu": ((0, POOL),)}))


if __name__ == "__main__":
    main()
