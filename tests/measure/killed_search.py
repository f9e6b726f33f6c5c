"""A search that is killed again and again: `killed_search.py FOLDER SEED KILLS`.

Each process goes on from what the killed one left on disk, as the command does; the last one is left alone, and what
it found is printed as JSON.
"""

from __future__ import annotations

import os
import random
import select
import signal
import sys
import time
from pathlib import Path
from typing import Any

import msgspec

from gpuyield.measure.search import Settings, search
from gpuyield.measure.served import read_served
from gpuyield.measure.shapes import shapes
from gpuyield.model.declaration import Declaration
from gpuyield.model.measure import Level
from gpuyield.steps.measure_asked import read_question
from gpuyield.steps.measure_kept import Kept
from gpuyield.steps.measure_question import Question


def main() -> None:
    folder, seed, kills = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    rng = random.Random(seed)
    began_s = time.monotonic()
    whole = _search(folder / "whole", seed)
    took_s = time.monotonic() - began_s
    kept = _kept(folder / "kept")
    progress = []
    for _ in range(kills):
        _killed(folder / "kept", seed, after_s=rng.uniform(0, took_s / 6))
        progress.append(len(kept.probes()))
    resumed = _search(folder / "kept", seed)
    rows = kept.records(folder / "records.parquet")
    found = {"whole": whole, "resumed": resumed, "progress": progress, "rows": rows}
    sys.stdout.buffer.write(msgspec.json.encode(found))


def _killed(folder: Path, seed: int, *, after_s: float) -> None:
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(ours)
        _search(folder, seed)
        os._exit(0)
    os.close(theirs)
    # Readable when the child has ended by itself.
    select.select([ours], [], [], after_s)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(ours)


def _search(folder: Path, seed: int) -> dict[str, Any]:
    """Every probe, how many requests were sent, and what was found."""
    shape = shapes()[0]
    settings = Settings(objectives=(shape.objective,), level=Level.QUICK, seed=seed, max_rps=float(shape.guess_rps))
    kept = _kept(folder)
    found = search(
        kept.recording(shape.bench()), shape.schedule().arrivals, settings, kept=kept.probes(), keep=kept.keep
    )
    probes = [f"{one.plan} {one.tallies}" for one in found.probes]
    return {"probes": probes, "sent": sum(one.sent for one in found.probes), "estimate": found.estimate_rps}


def _kept(folder: Path) -> Kept:
    asked = read_question(Question(url="http://127.0.0.1:9/v1", model="m", objectives=("ttft p95 1s",)), Declaration())
    return Kept(folder, asked, read_served(models=None, version=None, metrics=None))


if __name__ == "__main__":
    main()
