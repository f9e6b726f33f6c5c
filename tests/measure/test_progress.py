"""What a person sees while load is sent: on a terminal one line that moves, elsewhere only what has ended."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import subprocess
import sys
import termios
from collections.abc import Iterator
from pathlib import Path

import pytest

from doubles.model_server import RunningDouble, running_double
from gpuyield.demo.engine import EngineSettings

_SPINNING = re.compile(r"[\u2800-\u28ff] ([^\n\u2800-\u28ff]*)")


@pytest.fixture
def server() -> Iterator[RunningDouble]:
    with running_double(engine=EngineSettings(slots=32, step_s=0.005)) as running:
        yield running


def on_a_terminal(folder: Path, server: RunningDouble, *more: str) -> str:
    """What stderr shows of a quick search."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (50, 200))
    requests = folder / "requests.jsonl"
    requests.write_text("".join(json.dumps({"prompt": "hi", "max_tokens": 6}) + "\n" for _ in range(20)))
    options = (
        "--requests",
        str(requests),
        "--url",
        server.url,
        "--model",
        "double",
        "--objective",
        "ttft p95 20s",
        "--max-rate",
        "400",
    )
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"} | {"TERM": "xterm"}
    with subprocess.Popen(
        [sys.executable, "-m", "gpuyield", "measure", *options, "--level", "quick", "--apply", *more],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=theirs,
    ):
        os.close(theirs)
        shown = b""
        # A terminal whose last writer has gone ends with an error.
        with contextlib.suppress(OSError):
            while part := os.read(ours, 65_536):
                shown += part
    os.close(ours)
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown.decode()).replace("\r", "\n")


@pytest.mark.live_measuring
def test_a_terminal_shows_rate_attainment_requests_in_flight_and_the_time_left_and_the_page_is_drawn(
    tmp_path: Path, server: RunningDouble
) -> None:
    shown = on_a_terminal(tmp_path, server, "--out", "page.html")

    moving = [one.strip() for one in _SPINNING.findall(shown)]
    assert any("asking the service" in one for one in moving)
    flights = [one for one in moving if re.match(r"search at [\d.]+ requests/s: ", one)]
    assert flights, shown[-1500:]
    assert all(re.search(r"\d+ of \d+ answered", one) for one in flights)
    assert any(re.search(r"ttft kept by [\d.]+ %", one) for one in flights)
    assert any(re.search(r"\d+ in flight, \S+ left$", one) for one in flights)
    assert "search at" in shown.rsplit("Ctrl-C stops at once.", 1)[-1]
    assert (tmp_path / "page.html").read_text().startswith("<!doctype html>")
    assert json.loads((tmp_path / "page.json").read_text())["schema"] == "gpuyield/measure/v1alpha1"


def test_quiet_shows_nothing(tmp_path: Path, server: RunningDouble) -> None:
    assert on_a_terminal(tmp_path, server, "--quiet", "--max-duration", "1s").strip() == ""
