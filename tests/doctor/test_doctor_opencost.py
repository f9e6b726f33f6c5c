"""A live OpenCost against our own integration: recorded answers of a real one, on a cluster whose truth is known."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from doubles.answers import Said, answering
from doubles.command import Command
from doubles.opencost_live import live_series, pods, replayed, runs_of
from gpuyield.collect.collect import collect
from gpuyield.collect.endpoint import endpoint
from gpuyield.collect.http import HttpClient
from gpuyield.collect.prometheus import Prometheus
from gpuyield.demo.api import serving
from gpuyield.ledger import Ledger
from gpuyield.model.declaration import Rules
from gpuyield.steps.crosscheck import seen_on_grid
from gpuyield.units import DAY_MS, MINUTE_MS, Window, day_window

STEP_MS = 5 * MINUTE_MS
PRICES = """
currency: EUR
prices:
  - {flavor: h100, gpu_hour: 2.5, basis: contracted, from: 2026-01-01, to: 2026-11-29T12:00:00Z}
  - {flavor: h100, gpu_hour: 3.0, basis: contracted, from: 2026-11-29T12:00:00Z}
  - {flavor: l4, gpu_hour: 0.7, basis: contracted, from: 2026-01-01}
"""


@pytest.fixture
def live(shared_data: Path) -> Path:
    return shared_data / "opencost" / "live"


@contextmanager
def collected(live: Path, day: Window, folder: Path) -> Iterator[str]:
    """A Prometheus that holds one day of the cluster, collected into the ledger; gives its URL."""
    with serving(live_series(live, day)) as url:
        http = HttpClient(endpoint(product="Prometheus", url=url, declared_at="here"))
        ledger = Ledger.create(folder / ".gpuyield")
        collect(source=Prometheus(http), ledger=ledger, window=day, rules=Rules(), now_ms=day.to_ms + DAY_MS)
        http.close()
        yield url


def declare(folder: Path, prometheus: str, opencost: str | None) -> None:
    sources = [f"prometheus: {{url: '{prometheus}'}}", *([f"opencost: {{url: '{opencost}'}}"] if opencost else [])]
    (folder / "gpuyield.yaml").write_text(
        "apiVersion: gpuyield.dev/v1alpha1\nkind: Cluster\nmetadata: {name: alpha}\n"
        f"sources: {{{', '.join(sources)}}}\n{PRICES}"
    )


def compared(command: Command, live: Path, day: str) -> dict[str, Any]:
    with collected(live, day_window(day), command.folder) as prometheus, answering(replayed(live)) as talk:
        declare(command.folder, prometheus, talk.url)
        done = command("doctor", "--opencost", "-o", "json")
    assert done.code == 0, done.err
    found = done.document["opencost"]
    assert isinstance(found, dict)
    return found


def test_each_difference_of_a_day_is_named_with_its_size(command: Command, live: Path) -> None:
    found = compared(command, live, "2026-11-27")

    differences = {one["pod"]: one["differences"] for one in found["pods"]}
    assert differences == {
        # One name, two pods of two hours: 02:00 to 21:55 to OpenCost.
        "team-blue/etl-0": {"merged names": pytest.approx(19.91667 - 4, abs=1e-4)},
        # 05:07 to 05:52, seen at 05:10 first and at 05:50 last.
        "team-blue/score-1-bbb": {"resolution": pytest.approx(-5 / 60, abs=1e-4)},
        "team-green/embed-84bc-1": {"shared devices": pytest.approx(-24 / 7)},
        "team-green/embed-84bc-2": {"shared devices": pytest.approx(-24 / 7)},
        "team-green/rank-6f6f-1": {"shared devices": pytest.approx(-6)},
        "team-green/rank-6f6f-2": {"shared devices": pytest.approx(-6)},
        "team-green/rank-6f6f-3": {"shared devices": pytest.approx(-6)},
    }
    assert found["pods_same"] == 3
    assert found["resolution_s"] == 300
    assert {one["cause"]: (one["pods"], round(one["gpu_h"], 2)) for one in found["differences"]} == {
        "resolution": (1, -0.08),
        "merged names": (1, 15.92),
        "shared devices": (5, -24.86),
    }


@pytest.mark.parametrize("day", ["2026-11-26", "2026-11-27", "2026-11-29"])
def test_ours_and_the_differences_are_opencosts_and_none_is_unexplained(command: Command, live: Path, day: str) -> None:
    found = compared(command, live, day)

    for one in found["pods"]:
        assert (one["opencost_gpu_h"] or 0) == pytest.approx(one["gpuyield_gpu_h"] + sum(one["differences"].values()))
    assert "unexplained" not in {one["cause"] for one in found["differences"]}


def test_what_ours_says_is_the_truth_of_the_cluster(command: Command, live: Path) -> None:
    found = compared(command, live, "2026-11-26")

    truth: dict[str, float] = defaultdict(float)
    day = day_window("2026-11-26")
    for pod in pods(live):
        gpus = sum(int(one.get("gpu", 0)) for one in pod["containers"])
        for run in runs_of(pod):
            cut = run.cut(day)
            truth[f"{pod['ns']}/{pod['name']}"] += gpus * cut.length_ms / 3_600_000 if cut else 0
    ours = {one["pod"]: one["gpuyield_gpu_h"] for one in found["pods"] if "shared devices" not in one["differences"]}
    assert ours == {pod: pytest.approx(truth[pod]) for pod in ours}
    assert set(ours) == {"team-blue/score-0-aaa", "team-red/train-1-xk2"}


def test_nodes_with_slices_are_named_and_others_are_equal(command: Command, live: Path) -> None:
    found = compared(command, live, "2026-11-27")

    nodes = {one["node"]: (one["opencost_gpu_h"], one["gpuyield_gpu_h"]) for one in found["nodes"]}
    assert nodes == {
        "gpu-h100-a": (96, pytest.approx(96)),
        "gpu-h100-b": (58, pytest.approx(58)),
        "gpu-l4-shared": (24, pytest.approx(24)),
        "gpu-mig-a": (0, pytest.approx(48)),
    }
    why = {one["node"]: one["why"] for one in found["nodes"]}
    assert why["gpu-h100-a"] == why["gpu-h100-b"] == ""
    assert why["gpu-mig-a"].startswith("shared devices; price detection: OpenCost counts no GPUs on this node")


def test_a_price_that_is_not_the_declared_one_is_named_and_a_change_within_the_day_is_followed(
    command: Command, live: Path
) -> None:
    found = compared(command, live, "2026-11-29")

    nodes = {one["node"]: one for one in found["nodes"]}
    # 2.5 until noon, 3.0 after it.
    assert (nodes["gpu-h100-a"]["opencost_gpu_hour"], nodes["gpu-h100-a"]["declared_gpu_hour"]) == (
        pytest.approx(2.75),
        pytest.approx(2.75),
    )
    assert nodes["gpu-h100-a"]["why"] == ""
    assert nodes["gpu-l4-shared"]["opencost_gpu_hour"] == pytest.approx(0.6)
    assert "price detection: The declared price is 0.7; ours is used." in nodes["gpu-l4-shared"]["why"]
    # The price of the second node did not rise in OpenCost.
    assert "price detection: The declared price is 2.75" in nodes["gpu-h100-b"]["why"]


def test_the_screen_says_why_in_words(command: Command, live: Path) -> None:
    day = day_window("2026-11-27")
    with collected(live, day, command.folder) as prometheus, answering(replayed(live)) as talk:
        declare(command.folder, prometheus, talk.url)
        done = command("doctor", "--opencost")

    assert "OpenCost looks every 5m" in done.out
    assert "merged names +15.92" in done.out
    assert "Pods of one name in one namespace are one pod to OpenCost" in done.out


@pytest.mark.parametrize("day", ["2026-11-26", "2026-11-27", "2026-11-28", "2026-11-29"])
def test_the_rule_of_looks_gives_every_recorded_row(live: Path, day: str) -> None:
    window = day_window(day)
    runs: dict[str, list[Window]] = defaultdict(list)
    for pod in pods(live):
        runs[pod["name"]] += runs_of(pod)
    number = (day_window(day).from_ms - day_window("2026-11-26").from_ms) // DAY_MS + 1
    rows = json.loads((live / f"alloc-pod-d{number}.json").read_text())["data"][0]
    recorded = {name: row["minutes"] for name, row in rows.items() if not name.startswith("__") and row["minutes"]}

    # At the end of the data the last sample is still looked back at.
    ended = day_window("2026-11-29").to_ms
    seen = {
        name: seen_on_grid([Window(one.from_ms, one.to_ms + (one.to_ms == ended)) for one in its], window, STEP_MS)
        for name, its in runs.items()
    }
    assert {name: minutes * MINUTE_MS for name, minutes in recorded.items()} == {
        name: length_ms for name, length_ms in seen.items() if length_ms
    }


def test_an_opencost_that_does_not_answer_is_exit_3_only_where_it_is_compared(command: Command, live: Path) -> None:
    with collected(live, day_window("2026-11-27"), command.folder) as prometheus:
        declare(command.folder, prometheus, "http://127.0.0.1:1")
        asked, compared_too = command("doctor"), command("doctor", "--opencost", "-o", "json")

    assert (asked.code, compared_too.code) == (0, 3)
    assert "Cannot reach OpenCost at http://127.0.0.1:1 (connection refused)." in asked.out
    assert compared_too.document["schema"] == "gpuyield/error/v1alpha1"
    assert compared_too.document["errors"][0]["what"].startswith("Cannot reach OpenCost")


def test_without_a_collected_day_there_is_nothing_to_compare(command: Command) -> None:
    with serving([]) as empty, answering([Said(body=b'{"code":200,"data":{}}')]) as talk:
        declare(command.folder, empty, talk.url)
        done = command("doctor", "--opencost", "-o", "json")

    assert done.code == 0
    check = next(one for one in done.document["checks"] if one["what"] == "OpenCost")
    assert (check["state"], check["cost"]) == ("missing", "The ledger holds no whole UTC day to compare with.")
    assert done.document["opencost"] is None


def test_comparing_with_an_opencost_that_nobody_declared_is_exit_2(command: Command) -> None:
    declare(command.folder, "http://127.0.0.1:1", None)

    done = command("doctor", "--opencost")

    assert done.code == 2
    assert done.err.startswith("sources.opencost: no OpenCost is declared. Write sources:")
