"""How many cases a law looks at: few in the default tests, a sample in the stage `laws`, all of them by hand."""

from __future__ import annotations

import os


def size(*, default: int, sample: int, full: int) -> int:
    """The number that `GPUYIELD_LAWS` (`sample`, `full`, or not set) asks for."""
    return {"sample": sample, "full": full}.get(os.environ.get("GPUYIELD_LAWS", ""), default)
