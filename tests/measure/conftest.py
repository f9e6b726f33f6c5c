"""A command line of its own for each test."""

from __future__ import annotations

from pathlib import Path

import pytest

from doubles.command import Command, isolate


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Commands in an empty folder."""
    isolate(tmp_path, monkeypatch)
    return Command(tmp_path, capsys)
