"""gpuyield demo server: a double whose speed is that of its options."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from cli.console import Console


def answer_of(folder: Path, *options: str) -> tuple[float, dict[str, Any]]:
    """Start a double, ask it once for four tokens and end it; how many seconds it took, and what it says at the end."""
    serving = subprocess.Popen(
        [sys.executable, "-m", "gpuyield", "demo", "server", "--port", "0", "-o", "json", *options],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with serving:
        assert serving.stderr is not None
        ready = re.search(r"http://127\.0\.0\.1:\d+/v1", serving.stderr.readline())
        assert ready is not None
        body = {"model": "double", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 4}
        request = urllib.request.Request(
            f"{ready[0]}/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        started = time.monotonic()
        with urllib.request.urlopen(request, timeout=30) as answered:
            answered.read()
        length_s = time.monotonic() - started
        serving.send_signal(signal.SIGINT)
        said, _ = serving.communicate(timeout=30)
    assert serving.returncode == 0
    return length_s, json.loads(said)


@pytest.mark.parametrize(
    "options",
    [
        pytest.param(("--step", "100ms"), id="step"),
        pytest.param(("--step", "1ms", "--sequence", "100ms"), id="sequence"),
        pytest.param(("--step", "1ms", "--prompt-token", "400ms"), id="prompt token"),
    ],
)
def test_each_option_of_its_speed_slows_it_down(tmp_path: Path, options: tuple[str, ...]) -> None:
    length_s, said = answer_of(tmp_path, *options)

    assert length_s >= 0.4
    assert (said["requests"], said["finished"]) == (1, 1)


@pytest.mark.parametrize("spread", ["-1", "3.5", "4", "much"])
def test_a_spread_out_of_range_is_refused(console: Console, spread: str) -> None:
    done = console.run("demo", "server", f"--spread={spread}")

    assert done.code == 2
    assert "Write a number from 0 to 3." in done.err
