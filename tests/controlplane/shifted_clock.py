"""`gpuyield` on a machine whose wall clock is wrong by as many seconds as a file says, and jumps when the file changes.

python shifted_clock.py FILE COMMAND...
"""

from __future__ import annotations

import runpy
import sys
import time
from pathlib import Path

_FILE = ""
_time_ns = time.time_ns


def shifted_ns() -> int:
    """What the wrong clock shows."""
    return _time_ns() + int(float(Path(_FILE).read_text()) * 1e9)


if __name__ == "__main__":
    _FILE = sys.argv[1]
    time.time_ns = shifted_ns
    sys.argv = ["gpuyield", *sys.argv[2:]]
    runpy.run_module("gpuyield", run_name="__main__", alter_sys=True)
