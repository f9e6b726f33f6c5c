"""An objective as canonical inputs write it: integers and decimal strings."""

from __future__ import annotations

from typing import Any  # a JSON document

from gpuyield.model.declaration import Objective


def objective_inputs(one: Objective) -> dict[str, Any]:
    """The objective; its window is no part of it."""
    return {
        "name": one.name,
        "metric": None if one.metric is None else str(one.metric),
        "check": one.check,
        "at_most_us": one.at_most_us,
        "score_at_least": None if one.score_at_least is None else format(one.score_at_least, "f"),
        "score_at_most": None if one.score_at_most is None else format(one.score_at_most, "f"),
        "share": format(one.share, "f"),
    }
