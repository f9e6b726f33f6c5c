"""Runs that are no search, over real sockets: a trace in order and on time, and a closed loop; neither certifies."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from doubles.command import Command
from doubles.model_server import RunningDouble, running_double
from gpuyield.demo.engine import EngineSettings
from gpuyield.ledger.parquet import read_parquet
from measure.busy import measured_when_quiet

_ROWS = {1: 15, 10: 150}
"""How many requests of the trace are replayed at each scale: some seconds each."""


@pytest.fixture
def server() -> Iterator[RunningDouble]:
    with running_double(engine=EngineSettings(slots=500, step_s=0.0005)) as running:
        yield running


def in_trace(came: list[int], lengths: list[int]) -> list[int]:
    """Of each answer that came, which row of the trace it is: the first of its length that is left."""
    left = {length: [row for row, one in enumerate(lengths) if one == length] for length in set(lengths)}
    return [left[length].pop(0) for length in came]


def trace_file(folder: Path, rows: list[tuple[float, int, int]]) -> str:
    path = folder / "trace.jsonl"
    keys = ("at_s", "prompt_tokens", "output_tokens")
    path.write_text("".join(json.dumps(dict(zip(keys, row, strict=True))) + "\n" for row in rows))
    return str(path)


@pytest.mark.live_measuring
@pytest.mark.parametrize("scale", [1, 10])
def test_the_azure_conversation_trace_is_replayed_in_order_and_on_time(
    command: Command, server: RunningDouble, shared_data: Path, tmp_path: Path, scale: int
) -> None:
    table = read_parquet(shared_data / "traces" / "azure_llm2023_conv.parquet")
    at, _, answers = (table.columns.index(name) for name in ("TIMESTAMP", "ContextTokens", "GeneratedTokens"))
    rows = table.rows[: _ROWS[scale]]
    came = [one for one in (row[at] for row in rows) if isinstance(one, datetime)]
    recorded_s = np.array([(one - came[0]).total_seconds() for one in came])
    path = tmp_path / "slice.csv"
    lines = [",".join(map(str, row)) for row in rows]
    path.write_text("\n".join([",".join(table.columns), *lines]) + "\n")

    def replayed(attempt: int) -> dict[str, Any]:
        server.double.log.clear()
        done = command(
            *("measure", "--url", server.url, "--model", "double", "--trace", str(path), "--replay"),
            *("--scale", str(scale), "--max-rate", "500", "--apply", "-o", "json"),
        )
        assert done.code in (0, 4), done.err
        return done.document

    found = measured_when_quiet(replayed, why_invalid=lambda found: str(found["sender"]["why"]))

    log = server.double.log[1:]
    arrived_s = np.array([row.arrived_ns for row in log]) / 1e9
    late_s = (arrived_s - arrived_s[0]) - recorded_s / scale
    order = in_trace([row.tokens for row in log], [int(str(row[answers])) for row in rows])
    planned_s = recorded_s[order] / scale
    assert sorted(order) == list(range(len(rows))), "each with its own length"
    assert (np.maximum.accumulate(planned_s) - planned_s).max() < 0.05, "none overtakes one that was due before"
    assert np.percentile(np.abs(late_s - np.median(late_s)), 95) < 0.05
    assert (found["completed"], found["failed"], found["certifies"]) == (len(rows), 0, False)
    assert found["sender"]["overtaken_most_s"] < 0.05


def test_a_replay_is_shown_first_and_never_exceeds_the_highest_rate(
    command: Command, server: RunningDouble, tmp_path: Path
) -> None:
    path = trace_file(tmp_path, [(number * 0.1, 50, 5) for number in range(100)])
    asked = ("measure", "--url", server.url, "--model", "double", "--trace", path, "--replay")

    shown = command(*asked, "--scale", "2")
    refused = command(*asked, "--scale", "20", "--max-rate", "50", "--apply")

    assert shown.code == 0
    assert (
        "100 recorded requests in 5s, 2 times as fast as recorded: 20.2 a second, 20 in the busiest one."
        in " ".join(shown.out.split())
    )
    assert "--replay --scale 2 --apply" in " ".join(shown.out.split())
    assert refused.code == 2
    assert "its busiest second sends 100 requests, and 50 a second are allowed" in refused.err
    assert server.double.connections == 0


def test_a_trace_without_order_in_its_file_is_sent_in_the_order_of_time(
    command: Command, server: RunningDouble, tmp_path: Path
) -> None:
    path = trace_file(tmp_path, [(0.4, 3, 4), (0.0, 5, 2), (0.2, 900, 3), (0.6, 7, 1)])

    done = command(
        *("measure", "--url", server.url, "--model", "double", "--trace", path, "--replay", "--apply"),
        *("--objective", "e2e p95 20s", "-o", "json"),
    )

    assert done.code in (0, 4), done.err
    assert [row.tokens for row in server.double.log[1:]] == [2, 3, 4, 1]
    assert server.double.counted.prompt_tokens == 5 + (5 + 900 + 3 + 7), "the first request is sent once before"
    assert done.document["kept"] == {"e2e": 1.0}


def test_a_closed_loop_keeps_so_many_running_and_says_that_it_certifies_nothing(
    command: Command, server: RunningDouble, tmp_path: Path
) -> None:
    asked = ("measure", "--url", server.url, "--model", "double", "--closed-loop", "4", "--apply", "--out", "loop.json")

    done = command(*asked)

    found = json.loads((command.folder / "loop.json").read_text())
    assert done.code in (0, 4), done.err
    assert "certifies nothing" in " ".join(done.out.split())
    assert (found["mode"], found["certifies"], found["completed"]) == ("closed_loop", False, 200)
    assert not {"certified_rps", "refuted_rps"} & set(found)
    begun = sorted((row.arrived_ns, 1) for row in server.double.log[1:])
    ended = sorted((row.last_ns, -1) for row in server.double.log[1:])
    running = np.cumsum([step for _, step in sorted([*begun, *ended])])
    assert running.max() <= 4


@pytest.mark.parametrize(
    ("options", "what"),
    [
        (("--replay",), "nothing to replay"),
        (("--replay", "--closed-loop", "2"), "--replay and --closed-loop are there together"),
        (("--replay", "--in-cluster"), "--replay and --in-cluster are there together"),
        (("--closed-loop", "2", "--shard", "round.json"), "--closed-loop and --shard are there together"),
        (("--scale", "3", "--objective", "ttft p95 1s"), "a search scales a trace itself"),
        (("--closed-loop", "2", "--gate", "--at-least", "3"), "certifies nothing"),
        (("--closed-loop", "100000"), "from 1 to 20,000"),
        (("--replay", "--scale", "0"), "no factor"),
        (("--arrivals", "recorded", "--objective", "ttft p95 1s"), "nothing is recorded"),
        (("--profile", "ledger", "--objective", "ttft p95 1s"), "--service NAME"),
    ],
)
def test_what_cannot_be_run_is_said_before_anything_is_sent(
    command: Command, options: tuple[str, ...], what: str
) -> None:
    done = command("measure", "--url", "http://127.0.0.1:9/v1", "--model", "m", *options)

    assert done.code == 2
    assert what in done.err
