"""A search that has not ended yet: its probes and raw records, so that the same command goes on where it stopped."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any  # columns of several types

import msgspec
import numpy as np
from numpy.typing import NDArray

from gpuyield.errors import SourceError
from gpuyield.ledger.parquet import join_parquet, read_columns, write_columns
from gpuyield.ledger.whole import write_whole
from gpuyield.measure.kept import probe_line, probes_of
from gpuyield.measure.representative import Sent
from gpuyield.measure.served import Served, difference
from gpuyield.model.measure import RECORD_NUMBERS, Arrivals, Bench, Phase, Probe, ProbePlan, Records, Run
from gpuyield.steps.measure_asked import Asked


class Kept:
    """The folder of one question; what a probe left is on disk before the next one begins.

    `served` None: only shards see the service, and what it is is kept with their first probe.
    """

    def __init__(self, folder: Path, asked: Asked, served: Served | None) -> None:
        self._folder = folder / question_key(asked, served)
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
        write_whole(self._probes, b"".join(lines))

    def recording(self, bench: Bench) -> Bench:
        """The same bench, which keeps the raw records of each probe."""
        return _Recording(bench, self)

    def record(self, plan: ProbePlan, arrivals: Arrivals, records: Records) -> None:
        """Keep the raw records of a probe."""
        self._folder.mkdir(parents=True, exist_ok=True)
        write_columns(self._records(plan.number), record_columns(plan, arrivals, records))

    def records(self, target: Path) -> int:
        """Write the raw records of all probes to one Parquet file; how many rows."""
        paths = sorted(self._folder.glob("records-*.parquet"))
        return join_parquet(paths, target) if paths else 0

    def sent(self) -> Sequence[Sent]:
        """What each probe sent that was no burst: a burst has no steady state.

        Raises:
            DeclarationError: What was kept of a probe cannot be read.
        """
        steady = [one.plan.number for one in self.probes() if one.plan.phase is not Phase.CEILING]
        found = [read_columns(self._records(number)) for number in steady]
        return [
            Sent(
                scheduled_ns=one["scheduled_ns"].astype(np.int64),
                input_tokens=one["input_tokens"].astype(np.int64),
                output_tokens=one["output_tokens"].astype(np.int64),
            )
            for one in found
            if len(one["scheduled_ns"])
        ]

    def _records(self, number: int) -> Path:
        return self._folder / f"records-{number:04}.parquet"

    def same_service(self, served: Served) -> str:
        """What changed of the service since the first probe that was kept, in a sentence; empty when nothing did.

        Raises:
            SourceError: What was kept of it is something else.
        """
        path = self._folder / "served.json"
        if not path.exists():
            self._folder.mkdir(parents=True, exist_ok=True)
            write_whole(path, msgspec.json.encode(served))
            return ""
        try:
            first = msgspec.json.decode(path.read_bytes(), type=Served)
        except msgspec.MsgspecError as err:
            raise SourceError(
                f"no description of a service ({err}).", where=str(path), fix="Remove the folder to begin anew."
            ) from err
        return difference(first, replace(served, started=first.started), when="before the probe")

    def forget(self) -> None:
        """The search has ended: its document holds everything."""
        shutil.rmtree(self._folder, ignore_errors=True)


class _Recording:
    def __init__(self, bench: Bench, kept: Kept) -> None:
        self._bench = bench
        self._kept = kept

    def run(self, plan: ProbePlan, arrivals: Arrivals) -> Run:
        """Run a probe and keep its records."""
        run = self._bench.run(plan, arrivals)
        self._kept.record(plan, arrivals, run.records)
        return run


def record_columns(plan: ProbePlan, arrivals: Arrivals, records: Records) -> Mapping[str, NDArray[Any]]:
    """Raw records as the columns of a file."""
    return {
        "probe": np.full(len(records), plan.number, dtype=np.int64),
        "request": arrivals.request,
        **{name: getattr(records, name) for name in RECORD_NUMBERS},
        "status": records.status,
        **{f"grade_{name}": grades for name, grades in records.grades.items()},
    }


def question_key(asked: Asked, served: Served | None) -> str:
    """What must be the same for probes to belong together."""
    parts = [
        asked.target.url,
        asked.model,
        repr(asked.spoken),
        repr(asked.objectives),
        asked.level,
        asked.seed,
        asked.max_rps,
        asked.schedule.name,
        "" if asked.judge is None else asked.judge.asked.name,
        asked.requests_sha256 or "made up",
        "" if asked.trace is None else hashlib.sha256(asked.trace.offset_ns.tobytes()).hexdigest(),
        "in the cluster" if served is None else served.digest,
        # What another version kept has other columns.
        RECORD_NUMBERS,
    ]
    return hashlib.sha256("\n".join(map(str, parts)).encode()).hexdigest()[:32]
