"""The command line as a user meets it: a process with its own folder, its streams and its exit code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Done:
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


@dataclass(frozen=True)
class Console:
    """A folder to run commands in."""

    folder: Path

    def run(self, *arguments: str, env: dict[str, str] | None = None) -> Done:
        done = subprocess.run(
            [sys.executable, "-m", "gpuyield", *arguments],
            cwd=self.folder,
            env=_environment(env or {}),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        return Done(code=done.returncode, out=done.stdout, err=done.stderr)


def _environment(more: dict[str, str]) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GPUYIELD_")}
    return {**kept, "COLUMNS": "110", **more}
