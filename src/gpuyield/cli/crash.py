"""A crash file: where our bug is, without any value of the user's."""

from __future__ import annotations

import platform
import traceback
from datetime import UTC, datetime
from pathlib import Path

from gpuyield import __version__
from gpuyield.errors import Mistake


def crash_mistake(err: BaseException, verb: str) -> Mistake:
    """What to tell about an unforeseen error, with its details in a file (modules, lines and types; no values)."""
    at = datetime.now(UTC)
    name = f"gpuyield-crash-{at:%Y%m%dT%H%M%SZ}.txt"
    try:
        Path(name).write_text(_details(err, verb), encoding="utf-8")
    except OSError:
        return Mistake(
            what=f"Unexpected error in {verb} (this is our bug).",
            fix="No details could be written here. Re-run with --debug to see them.",
        )
    return Mistake(
        what=f"Unexpected error in {verb} (this is our bug).",
        fix=f"Details without values: ./{name}. Re-run with --debug to see it here.",
    )


def _details(err: BaseException, verb: str) -> str:
    lines = [f"gpuyield {__version__}, Python {platform.python_version()}, {platform.system()}, command {verb}"]
    seen: BaseException | None = err
    while seen is not None:
        lines.append(f"{type(seen).__module__}.{type(seen).__qualname__}")
        lines += [
            f"  {_short(frame.filename)}:{frame.lineno} in {frame.name}"
            for frame in traceback.extract_tb(seen.__traceback__)
        ]
        seen = seen.__cause__ or seen.__context__
    return "\n".join(lines) + "\n"


def _short(filename: str) -> str:
    parts = Path(filename).parts
    for root in ("gpuyield", "site-packages"):
        if root in parts:
            return "/".join(parts[len(parts) - 1 - parts[::-1].index(root) :])
    return Path(filename).name
