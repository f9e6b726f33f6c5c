from __future__ import annotations

from pathlib import Path

import pytest

from doubles.command import Command, isolate


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    isolate(tmp_path, monkeypatch)
    return Command(tmp_path, capsys)
