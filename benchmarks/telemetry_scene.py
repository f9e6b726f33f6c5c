"""The cluster of the telemetry benchmarks: 200 GPUs for 7 days, scraped every 60 s, four metrics of each card."""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

from gpuyield.demo.cluster import Scenario
from gpuyield.demo.exposition import Dialect, Series, all_series
from gpuyield.demo.scenario import make_scenario

TESTS = Path(__file__).resolve().parents[1] / "tests"
END_MS = 1_750_032_000_000
DAYS = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """A scenario and what was scraped of it."""

    scenario: Scenario
    series: list[Series]

    @property
    def samples(self) -> int:
        """All samples together."""
        return sum(len(one.times_ms) for one in self.series)


def make_scene(gpus: int) -> Scene:
    """The cluster of this size, with four activity metrics."""
    scenario = make_scenario(seed=7, gpus=gpus, days=DAYS, end_ms=END_MS)
    return Scene(scenario=scenario, series=all_series(scenario, Dialect(sm_active=True)))


def parse_options(what: str) -> argparse.Namespace:
    """`--sample N`: a cluster of N GPUs; `--server`: which real server is read."""
    parser = argparse.ArgumentParser(description=what)
    parser.add_argument("--sample", type=int, default=200, metavar="N", help="GPUs of the cluster (default 200)")
    parser.add_argument("--runs", type=int, default=3, help="the median of so many runs is printed (default 3)")
    parser.add_argument("--server", default="prometheus-2.42", help="the real server that is read")
    return parser.parse_args()


def print_figure(name: str, value: float, unit: str, floor: str, stretch: str) -> None:
    """One line as every benchmark prints it."""
    sys.stdout.write(f"{name} {value:.2f} {unit} ({floor}, {stretch})\n")
    sys.stdout.flush()


def say(text: str) -> None:
    """Progress, beside the figures."""
    sys.stderr.write(f"{text}\n")
