"""The commands of the how-to page that need no cluster work one after the other."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from ports import free_port

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "measure-a-service.md"


@pytest.mark.live_measuring
@pytest.mark.timeout(300)
def test_a_newcomers_commands_measure_the_double_and_verify_the_answer(tmp_path: Path) -> None:
    port = free_port()
    (block,) = re.findall(r"```console\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    lines = block.replace(":8000/", f":{port}/").replace("--port 8000", f"--port {port}").splitlines()
    server, *commands = [shlex.split(line.removeprefix("gpuyield ").removesuffix(" &")) for line in lines]

    double = subprocess.Popen([sys.executable, "-m", "gpuyield", *server], cwd=tmp_path, stderr=subprocess.DEVNULL)
    try:
        _wait_for(f"http://127.0.0.1:{port}/v1/models")
        ran = [
            subprocess.run([sys.executable, "-m", "gpuyield", *words], cwd=tmp_path, capture_output=True, text=True)
            for words in commands
        ]
    finally:
        double.terminate()
        double.wait(timeout=30)

    codes = [one.returncode for one in ran]
    assert codes == [0, 4, 0], "shown; quick certifies nothing; verified\n" + "\n".join(one.stderr for one in ran)
    found = json.loads((tmp_path / "chat.json").read_text())
    assert found["result"]["certified_rps"] is None
    # Sixteen slots, and made-up requests of some 70 tokens of 2 ms each.
    assert 60 < found["result"]["estimate_rps"] < 180
    assert any(one["witness"]["gpu"] for one in found["probes"] if one["witness"])
    assert (tmp_path / "chat.html").stat().st_size > 10_000


def _wait_for(url: str) -> None:
    until_s = time.monotonic() + 60
    while True:
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except OSError:
            assert time.monotonic() < until_s, "the double does not answer"
            time.sleep(0.1)
