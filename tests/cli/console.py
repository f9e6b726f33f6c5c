"""The command line as a user meets it: a process with its own folder, its streams and its exit code."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pty
import re
import subprocess
import sys
import termios
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpuyield.cli.edge import run


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
        """A command run in this process, which spares the start of another one."""
        out, err = io.StringIO(), io.StringIO()
        before, home = dict(os.environ), Path.cwd()
        os.environ.clear()
        os.environ.update(_environment(env or {}))
        os.chdir(self.folder)
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                code = run(arguments)
        finally:
            os.chdir(home)
            os.environ.clear()
            os.environ.update(before)
        return Done(code=code, out=out.getvalue(), err=err.getvalue())

    def start(self, *arguments: str, env: dict[str, str] | None = None) -> Done:
        """A command as a process of its own."""
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

    def on_screen(self, *arguments: str, columns: int) -> str:
        """What a command writes to a terminal of so many columns, without its signs for bold."""
        ours, theirs = pty.openpty()
        termios.tcsetwinsize(theirs, (50, columns))
        environment = {name: value for name, value in _environment({"TERM": "xterm"}).items() if name != "COLUMNS"}
        with subprocess.Popen(
            [sys.executable, "-m", "gpuyield", *arguments],
            cwd=self.folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=theirs,
            stderr=subprocess.DEVNULL,
        ):
            os.close(theirs)
            shown = b""
            # A terminal whose last writer has gone ends with an error.
            with contextlib.suppress(OSError):
                while part := os.read(ours, 65_536):
                    shown += part
        os.close(ours)
        return re.sub(r"\x1b\[[0-9;]*m", "", shown.decode()).replace("\r", "")


def _environment(more: dict[str, str]) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GPUYIELD_")}
    return {**kept, "COLUMNS": "110", **more}
