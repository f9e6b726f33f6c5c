"""What the command never does: send on after Ctrl-C, send faster than allowed, show a key or what was said."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from doubles.command import Command, isolate
from doubles.model_server import RunningDouble, running_double
from gpuyield.demo.engine import EngineSettings
from gpuyield.measure.kept import probes_of
from measure.sharing import ended

_KEY, _PROMPT, _ANSWER = "s3cret-key", "s3cret-prompt", "s3cret-answer"
_GRACE_S = 10.0


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder that is also the home, with a key in the environment."""
    isolate(tmp_path, monkeypatch)
    monkeypatch.setenv("GPUYIELD_API_KEY", _KEY)
    return tmp_path


def requests(folder: Path, *prompts: str) -> str:
    """A file of requests that are answered in two tokens."""
    rows = [{"id": str(number), "prompt": prompt, "max_tokens": 2} for number, prompt in enumerate(prompts)]
    path = folder / "requests.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def measuring(folder: Path, server: RunningDouble, *more: str) -> subprocess.Popen[str]:
    """The command as a process of its own, with everything it is willing to tell."""
    options = ["--url", server.url, "--model", "double", "--objective", "ttft p95 20s", "--max-rate", "400"]
    return subprocess.Popen(
        [sys.executable, "-m", "gpuyield", "measure", *options, *more, "--apply", "--debug"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env=dict(os.environ),
    )


def test_ctrl_c_stops_everything_at_once_and_keeps_what_ended(folder: Path) -> None:
    path = requests(folder, "hello")
    with running_double(engine=EngineSettings(slots=64, step_s=0.2, output_tokens=2)) as server:
        process = measuring(folder, server, "--requests", path)
        children = _children_while(process, lambda: len(server.double.log) > 120)
        process.send_signal(signal.SIGINT)
        began_s = time.monotonic()
        code, said = ended(process)
        took_s = time.monotonic() - began_s
        _wait_until(lambda: server.double.visitors == 0)
        sent = len(server.double.log)
        _wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in children))

    (kept,) = (folder / ".gpuyield" / "measure").rglob("probes.jsonl")
    assert code == 130
    assert "Nothing is sent any more. The same command goes on after the last probe." in said
    assert took_s < _GRACE_S
    assert children, "there were sender processes"
    assert len(probes_of(kept.read_bytes())) == sum(line.startswith("ceiling") for line in said.splitlines()) > 0
    assert sent == len(server.double.log)


def test_neither_key_nor_prompt_nor_answer_is_ever_shown_or_written(folder: Path) -> None:
    texts = [f"{_PROMPT} [[answer:{_ANSWER}]]"] * 4
    broken = [f"{_PROMPT} [[answer:{_ANSWER}]] [[fault:{fault}]]" for fault in ("fails", "error_event", "cut_off")]
    with running_double(engine=EngineSettings(slots=64, step_s=0.002, output_tokens=2)) as server:
        path = requests(folder, *texts, *broken)
        fine = measuring(
            folder, server, "--requests", path, "--level", "quick", "--out", "m.html", "--max-duration", "1s"
        )
        said = [ended(fine)[1]]
        path = requests(folder, *broken)
        said.append(ended(measuring(folder, server, "--requests", path, "--level", "quick"))[1])
        keys = set(server.double.authorizations)
    (folder / "requests.jsonl").unlink()
    written = [one for one in folder.rglob("*") if one.is_file()]

    assert keys == {f"Bearer {_KEY}"}, "the server got it"
    assert "the first request failed" in said[1]
    assert {one.suffix for one in written} >= {".json", ".html", ".parquet"}
    for secret in (_KEY, _PROMPT, _ANSWER):
        assert secret not in "".join(said)
        assert [one for one in written if secret.encode() in one.read_bytes()] == []


def test_a_key_on_the_command_line_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = Command(folder, capsys)

    named = command("measure", "--url", "http://127.0.0.1:9/v1", "--model", "m", "--key", "abc")
    inside = command(
        *("measure", "--url", "http://me:abc@127.0.0.1:9/v1", "--model", "m", "--objective", "error for 99%")
    )

    assert (named.code, inside.code) == (2, 2)
    assert "abc" not in inside.err


def _children_while(process: subprocess.Popen[str], enough: Callable[[], bool]) -> list[int]:
    """The sender processes at the moment when enough was sent."""
    _wait_until(lambda: enough() or process.poll() is not None, within_s=90)
    listed = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return [int(pid) for pid in listed]


def _wait_until(holds: Callable[[], bool], *, within_s: float = 20.0) -> None:
    give_up_s = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < give_up_s, "not within its time"
        time.sleep(0.02)
