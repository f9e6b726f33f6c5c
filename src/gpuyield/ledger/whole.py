"""Files that are there whole or not at all: written under a name beside theirs, which they take in one step.

A writer that is killed leaves `.NAME.PID.part`. Nothing reads such a file, and the next writer of NAME removes it once
nobody has touched it for ten minutes: until then it may be that of a rival, perhaps on another machine.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

ABANDONED_S = 600
_LONGEST = 40
"""Letters of a file's name in the name beside it: at four bytes each that leaves room below the usual limit of 255."""


def write_whole(target: Path, data: bytes) -> None:
    """Put these bytes in the place of a file, on disk before it takes its name.

    Raises:
        OSError: No room, or no rights; what was there stays.
    """
    with beside(target) as temporary, temporary.open("wb") as out:
        out.write(data)
        out.flush()
        os.fsync(out.fileno())


@contextmanager
def beside(target: Path) -> Iterator[Path]:
    """A name in the same folder that no other process uses; what is written there takes the file's place at the end.

    After an error nothing of it is left behind, and the file stays as it was.
    """
    start = f".{target.name[:_LONGEST]}."
    temporary = target.with_name(f"{start}{os.getpid()}.part")
    try:
        yield temporary
        temporary.replace(target)
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
    with suppress(OSError):
        _remove_abandoned(target, start)


def _remove_abandoned(target: Path, start: str) -> None:
    now_s = target.stat().st_mtime
    with os.scandir(target.parent) as files:
        for one in files:
            named = one.name.startswith(start) and one.name.endswith(".part")
            if named and now_s - one.stat(follow_symlinks=False).st_mtime > ABANDONED_S:
                os.unlink(one.path)
