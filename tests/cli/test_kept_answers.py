"""What a command keeps: never in the place of what somebody else keeps, and an answer does not depend on it."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cli.console import Console

NIGHT = ("--gpus", "4", "--origin", "2026-11-30T21:00:00Z")


@pytest.fixture
def jobs(console: Console) -> Path:
    path = console.folder / "jobs.json"
    path.write_text('[{"id": "a", "gpus": 2, "duration_s": 3600, "deadline": "2026-12-01T00:00:00Z"}]')
    return path


def test_a_page_leaves_the_decision_that_lies_there_as_it_is(console: Console, jobs: Path) -> None:
    mine = console.folder / "decide.json"
    mine.write_text("of last month")

    done = console.run("report", "--jobs", jobs.name, *NIGHT, "--out", "night.html")

    assert done.code == 0, done.err
    assert mine.read_text() == "of last month"
    assert "gpuyield verify night.decide.json" in done.out
    assert console.run("verify", "night.decide.json").code == 0


@pytest.mark.parametrize("command", ["decide", "plan", "report"])
def test_an_answer_is_given_where_no_ledger_can_be_made_and_says_so(console: Console, jobs: Path, command: str) -> None:
    (console.folder / "file").write_text("")

    done = console.run(command, "--jobs", jobs.name, *NIGHT, "--ledger", "file/ledger")

    assert done.code == 0, done.err
    assert "No copy of this answer is in the ledger" in done.out
    assert "--out FILE" in done.out


def test_an_interrupted_collect_says_what_is_kept_and_how_to_go_on(console: Console) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(60)
        port = silent.getsockname()[1]
        (console.folder / "gpuyield.yaml").write_text(
            "apiVersion: gpuyield.dev/v1alpha1\nkind: Cluster\nmetadata: {name: quiet}\n"
            f'sources: {{prometheus: {{url: "http://127.0.0.1:{port}"}}}}\n'
        )
        collecting = subprocess.Popen(
            [sys.executable, "-m", "gpuyield", "collect"],
            cwd=console.folder,
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
        )
        asked, _ = silent.accept()
        with asked:
            os.kill(collecting.pid, signal.SIGINT)
            _, said = collecting.communicate(timeout=60)

    assert collecting.returncode == 130
    assert said == (
        "Interrupted. Every day that was read whole is in .gpuyield and stays. "
        "The same command goes on with the rest.\n"
    )


def test_a_killed_decide_leaves_a_whole_document_that_verify_accepts(console: Console, jobs: Path) -> None:
    """Two job files in turn, killed while they are decided: what lies there is always one of both, whole."""
    other = console.folder / "other.json"
    other.write_text(jobs.read_text().replace('"gpus": 2', '"gpus": 3'))
    command = ("decide", *NIGHT, "--out", "decide.json", "--jobs")
    assert console.run(*command, jobs.name).code == 0
    started = time.monotonic()
    assert console.run(*command, other.name).code == 0
    length_s = time.monotonic() - started
    dice = random.Random(7)

    for kill in range(4):
        deciding = subprocess.Popen(
            [sys.executable, "-m", "gpuyield", *command, (jobs, other)[kill % 2].name],
            cwd=console.folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        with contextlib.suppress(subprocess.TimeoutExpired):
            deciding.wait(timeout=length_s * dice.uniform(0.7, 1.0))
        deciding.kill()
        deciding.wait()

        verified = console.run("verify", "decide.json")

        assert verified.code == 0, verified.out + verified.err
