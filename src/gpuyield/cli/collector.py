"""How often Python looks for cycles of objects while a command makes millions of them."""

from __future__ import annotations

import gc

SELDOM = (200_000, 50, 50)
"""New objects before a collection: a plan of 10,000 jobs then takes a tenth less time."""


def collect_seldom() -> None:
    """Let the collector look for cycles more seldom; what has no cycles goes at once, as ever."""
    gc.set_threshold(*SELDOM)
