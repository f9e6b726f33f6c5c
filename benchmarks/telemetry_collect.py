"""Collect 200 GPUs x 7 days x 60 s from a live server: seconds, the collector's memory at its peak, room on disk.

The server is Debian's Prometheus 2.42 (or another generation), filled with the past first. Each run collects into
an empty ledger in a process of its own.
"""

from __future__ import annotations

import multiprocessing
import resource
import statistics
import sys
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path

from telemetry_scene import TESTS, make_scene, parse_options, print_figure, say

sys.path.insert(0, str(TESTS))

from gpuyield.ledger import Ledger
from gpuyield.ledger.tables import ALL_TABLES
from gpuyield.units import Window
from servers.stores import PROMETHEUS_2, PROMETHEUS_3, VICTORIA_1_79, VICTORIA_1_151, running

GENERATIONS = {one.name: one for one in (PROMETHEUS_2, VICTORIA_1_79, PROMETHEUS_3, VICTORIA_1_151)}


def collect_once(url: str, window: Window, folder: str, results: Connection) -> None:
    """Collect in this process; sends seconds, MiB at the peak, and samples read."""
    from e2e.path import collected

    started = time.perf_counter()
    collected(url, window, Path(folder))
    seconds = time.perf_counter() - started
    results.send((seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024))


def say_room(root: Path) -> float:
    """MiB of a new ledger, without files that no version needs; says rows and KiB of each table beside it."""
    ledger = Ledger.existing(root)
    ledger.vacuum()
    for table in ALL_TABLES:
        rows = len(ledger.read(table, columns=table.order[:1])[table.order[0]])
        if rows:
            say(f"  {table.name}: {rows:,} rows, {_bytes_in(root / table.name) / 1024:,.0f} KiB")
    return _bytes_in(root) / 1024**2


def _bytes_in(folder: Path) -> int:
    return sum(one.stat().st_size for one in folder.rglob("*") if one.is_file())


def main() -> None:
    options = parse_options(__doc__ or "")
    scene = make_scene(options.sample)
    window, samples = scene.scenario.window, scene.samples
    say(f"{samples:,} samples in {len(scene.series):,} series; filling {options.server}")
    spawn = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as home:
        started = time.perf_counter()
        folder = Path(home) / "server"
        folder.mkdir()
        with running(GENERATIONS[options.server], scene.series, folder) as url:
            scene.series.clear()
            say(f"filled in {time.perf_counter() - started:.0f} s")
            found: list[tuple[float, float]] = []
            for number in range(options.runs):
                here, there = spawn.Pipe(duplex=False)
                process = spawn.Process(target=collect_once, args=(url, window, f"{home}/ledger-{number}", there))
                process.start()
                there.close()
                found.append(here.recv())
                process.join()
                say(f"run {number + 1}: {found[-1][0]:.1f} s, {found[-1][1]:.0f} MiB")
            room = say_room(Path(home) / "ledger-0")
    print_figure("telemetry_collect", statistics.median(one[0] for one in found), "s", "60", "30")
    print_figure("telemetry_collect_memory", max(one[1] for one in found), "MiB", "1024", "512")
    print_figure("telemetry_ledger", room, "MiB", "-", "-")


if __name__ == "__main__":
    main()
