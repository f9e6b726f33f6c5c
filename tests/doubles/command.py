"""A command line run inside this process, in a folder and a home of its own."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gpuyield.cli.edge import run


@dataclass(frozen=True, slots=True)
class Ended:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        """stdout as one JSON document."""
        found = json.loads(self.out)
        assert isinstance(found, dict)
        return found


@dataclass(frozen=True, slots=True)
class Command:
    """Runs commands in `folder`, with an empty home and no setting of the machine."""

    folder: Path
    capsys: pytest.CaptureFixture[str]

    def __call__(self, *arguments: str) -> Ended:
        code = run(arguments)
        seen = self.capsys.readouterr()
        return Ended(code, seen.out, seen.err)


def isolate(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a folder the working directory and its `home` the home, with nothing that names a cluster."""
    import os

    (folder / "home").mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("HOME", str(folder / "home"))
    for name in [one for one in os.environ if one.startswith(("GPUYIELD_", "KUBE"))]:
        monkeypatch.delenv(name)
