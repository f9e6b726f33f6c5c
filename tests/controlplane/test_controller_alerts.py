"""The alerts under the real promtool: each speaks when it must, and keeps quiet otherwise."""

from __future__ import annotations

import subprocess
from pathlib import Path

import binaries
import pytest

from required import missing

pytestmark = pytest.mark.controlplane

RULES = Path(__file__).resolve().parents[2] / "deploy" / "prometheus"


def test_the_alerts_speak_when_they_must_and_only_then() -> None:
    try:
        promtool = binaries.program("promtool")
    except binaries.BuildError as error:
        missing("CONTROLPLANE", str(error))

    checked = subprocess.run([promtool, "check", "rules", "rules.yaml"], cwd=RULES, capture_output=True, text=True)
    tested = subprocess.run([promtool, "test", "rules", "rules.test.yaml"], cwd=RULES, capture_output=True, text=True)

    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert tested.returncode == 0, tested.stdout + tested.stderr
