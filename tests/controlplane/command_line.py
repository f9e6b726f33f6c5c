"""The command line on a cluster: a process in a folder of its own, with one kubeconfig."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any


def gpuyield(kubeconfig: Path, *arguments: str, folder: Path, form: str = "json") -> tuple[int, str]:
    """Exit code and stdout of a command."""
    done = subprocess.run(
        [sys.executable, "-m", "gpuyield", *arguments, "-o", form],
        env={**os.environ, "KUBECONFIG": str(kubeconfig)},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, done.stdout


def asked(kubeconfig: Path, *arguments: str, folder: Path) -> tuple[int, dict[str, Any]]:
    """Exit code and document of a command."""
    code, said = gpuyield(kubeconfig, *arguments, folder=folder)
    return code, json.loads(said)
