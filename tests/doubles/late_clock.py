"""A proxy whose clock is behind: what it passes on carries an old date."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from email.utils import formatdate

from doubles.answers import Asked, Said
from doubles.api_server import forwarded


def late_clock(url: str, *, behind_ms: int) -> Callable[[Asked], Said]:
    """Answers of the server at `url`, dated so far in the past."""

    def answer(asked: Asked) -> Said:
        dated = formatdate(time.time_ns() / 1e9 - behind_ms / 1000, usegmt=True)
        return replace(forwarded(url, asked.path, asked.fields), headers={"Date": dated})

    return answer
