"""What a command keeps: never in the place of what somebody else keeps, and an answer does not depend on it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
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
