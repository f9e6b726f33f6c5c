"""Where the planner's compiled code is kept between runs: a folder that only this user may write, for it is run.

Without such a folder (a read-only root, no home) every process compiles for itself.
"""

from __future__ import annotations

import os
import platform
import stat
from collections.abc import Callable, Mapping
from pathlib import Path

from gpuyield.plan.deadlines import SETTLED_TASKS
from gpuyield.plan.kernel.lanes import keep_in
from gpuyield.plan.kernel.search import PLAIN_TASKS
from gpuyield.plan.kernel.warm import warm, warm_learning


def make_ready(jobs: int, tell: Callable[[str], None] = lambda said: None) -> bool:
    """Compile or load what so many jobs need; whether anything had to be compiled.

    Few jobs need nothing, but take what is compiled already where their search turns out to be long.
    """
    keep_compiled()
    if jobs <= SETTLED_TASKS:
        return False

    def about(length: str) -> Callable[[], None]:
        return lambda: tell(f"compiling the planner, once for this version (about {length})")

    fresh = jobs > PLAIN_TASKS and warm(tell=about("half a minute"))
    fresh = warm_learning(tell=about("20 s")) or fresh
    if fresh:
        tell("compiled")
    return fresh


def keep_compiled(environment: Mapping[str, str] = os.environ) -> Path | None:
    """Name the folder to the planner; None where there is no private one that can be written."""
    folder = _cache_folder(environment)
    if folder is None or not _is_private(folder):
        return None
    keep_in(folder)
    return folder


def _cache_folder(environment: Mapping[str, str]) -> Path | None:
    named = environment.get("XDG_CACHE_HOME")
    try:
        base = Path(named) if named and Path(named).is_absolute() else Path.home() / ".cache"
    except RuntimeError:
        return None
    return base / "gpuyield" / f"planner-{platform.python_version()}"


def _is_private(folder: Path) -> bool:
    """Whether it is ours alone; it is made where it is missing."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.stat()
    except OSError:
        return False
    mine = not hasattr(os, "getuid") or found.st_uid == os.getuid()
    return mine and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and os.access(folder, os.W_OK)
