"""Account 200 GPUs x 7 days x 60 s from the ledger: seconds, the median of several runs, and the peak of memory."""

from __future__ import annotations

import resource
import statistics
import sys
import tempfile
import time
from pathlib import Path

from telemetry_scene import TESTS, make_scene, parse_options, print_figure, say

sys.path.insert(0, str(TESTS))

from e2e.path import accounted, by_class, collected, differences
from e2e.truth import true_waterfall
from gpuyield.demo.api import serving


def main() -> None:
    options = parse_options(__doc__ or "")
    scene = make_scene(options.sample)
    window = scene.scenario.window
    say(f"{scene.samples:,} samples in {len(scene.series):,} series")
    with tempfile.TemporaryDirectory() as home:
        with serving(scene.series) as url:
            ledger = collected(url, window, Path(home) / "ledger")
        scene.series.clear()
        say("collected")
        seconds = []
        for number in range(options.runs):
            started, used = time.perf_counter(), time.process_time()
            accounting = accounted(ledger, window)
            seconds.append(time.perf_counter() - started)
            say(f"run {number + 1}: {seconds[-1]:.2f} s, {time.process_time() - used:.2f} s of processor")
        wrong = differences(by_class(accounting), true_waterfall(scene.scenario))
    print_figure("telemetry_account", statistics.median(seconds), "s", "3", "1")
    print_figure("telemetry_account_wrong_cells", len(wrong), "cells", "0", "0")
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    say(f"peak of collecting and accounting in one process: {peak_mib} MiB")


if __name__ == "__main__":
    main()
