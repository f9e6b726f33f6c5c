"""A search that has not ended yet: its probes and raw records, so that the same command goes on where it stopped."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any  # columns of several types

import numpy as np
from numpy.typing import NDArray

from gpuyield.ledger.parquet import join_parquet, write_columns
from gpuyield.measure.kept import probe_line, probes_of
from gpuyield.measure.served import Served
from gpuyield.model.measure import Arrivals, Bench, Probe, ProbePlan, Records, Run
from gpuyield.steps.measure_asked import Asked


class Kept:
    """The folder of one question; what a probe left is on disk before the next one begins."""

    def __init__(self, folder: Path, asked: Asked, served: Served) -> None:
        self._folder = folder / _key(asked, served)
        self._probes = self._folder / "probes.jsonl"

    def probes(self) -> Sequence[Probe]:
        """Those of before, in order.

        Raises:
            SourceError: The file holds something else.
        """
        try:
            data = self._probes.read_bytes()
        except FileNotFoundError:
            return []
        return probes_of(data, where=str(self._probes))

    def keep(self, probe: Probe) -> None:
        """Add one; a line that a crash cut off goes."""
        lines = [probe_line(one) for one in (*self.probes(), probe)]
        self._folder.mkdir(parents=True, exist_ok=True)
        temporary = self._probes.with_suffix(f".{os.getpid()}.part")
        with temporary.open("wb") as file:
            file.write(b"".join(lines))
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self._probes)

    def recording(self, bench: Bench) -> Bench:
        """The same bench, which keeps the raw records of each probe."""
        return _Recording(bench, self._folder)

    def records(self, target: Path) -> int:
        """Write the raw records of all probes to one Parquet file; how many rows."""
        paths = sorted(self._folder.glob("records-*.parquet"))
        return join_parquet(paths, target) if paths else 0

    def forget(self) -> None:
        """The search has ended: its document holds everything."""
        shutil.rmtree(self._folder, ignore_errors=True)


class _Recording:
    def __init__(self, bench: Bench, folder: Path) -> None:
        self._bench = bench
        self._folder = folder

    def run(self, plan: ProbePlan, arrivals: Arrivals) -> Run:
        """Run a probe and keep its records."""
        run = self._bench.run(plan, arrivals)
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._folder / f"records-{plan.number:04}.parquet"
        write_columns(path, _columns(plan, arrivals, run.records))
        return run


def _columns(plan: ProbePlan, arrivals: Arrivals, records: Records) -> Mapping[str, NDArray[Any]]:
    names = ("scheduled_ns", "sent_ns", "first_ns", "last_ns", "end_ns", "output_tokens", "reads", "gap_max_ns")
    return {
        "probe": np.full(len(records), plan.number, dtype=np.int64),
        "request": arrivals.request,
        **{name: getattr(records, name) for name in names},
        "status": records.status,
        **{f"grade_{name}": grades for name, grades in records.grades.items()},
    }


def _key(asked: Asked, served: Served) -> str:
    """What must be the same for probes to belong together."""
    parts = [
        asked.target.url,
        asked.model,
        repr(asked.spoken),
        repr(asked.objectives),
        asked.level,
        asked.seed,
        asked.max_rps,
        asked.process.name,
        asked.requests_sha256 or "made up",
        served.digest,
    ]
    return hashlib.sha256("\n".join(map(str, parts)).encode()).hexdigest()[:32]
