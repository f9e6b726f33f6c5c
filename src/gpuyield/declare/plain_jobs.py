"""Rows of job files that hold nothing but names and whole numbers, read at once: a hundred thousand in a second.

Whatever is unusual is left to the reader that knows all forms and says what is wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

from gpuyield.declare.tree import Plain
from gpuyield.model.job import PlanJob, Shape

_NAMES = ("queue", "team", "family")
_PLAIN_KEYS = frozenset(("id", "gpus", "duration_s", "release", "deadline", "due", "weight", *_NAMES))
_MOST_DIGITS = 9
_LONGEST_NAME = 100


class PlainJobs:
    """Reads plain rows; `gpu_resources` is what a job may run on. Shapes and weights that are alike are shared."""

    def __init__(self, gpu_resources: tuple[str, ...]) -> None:
        self._resources = gpu_resources
        self._shapes: dict[tuple[int, int], tuple[Shape, ...]] = {}
        self._weights: dict[str, Decimal] = {}

    def read(self, fields: Mapping[str, Plain]) -> PlanJob | None:
        """The job of a row; None where something is not plain."""
        if not fields.keys() <= _PLAIN_KEYS:
            return None
        name, gpus, duration_s = _name(fields, "id"), _whole(fields, "gpus", 0), _whole(fields, "duration_s", 0)
        release_s = _whole(fields, "release", 0)
        weight = fields.get("weight") or "1"
        queue, team, family = (_name(fields, key) for key in _NAMES)
        if not name or not gpus or not duration_s or release_s is None or None in (queue, team, family):
            return None
        deadline_s, due_s = _whole(fields, "deadline", -1), _whole(fields, "due", -1)
        if deadline_s is None or due_s is None or _whole(fields, "weight", 1) is None or not isinstance(weight, str):
            return None
        if -1 < deadline_s < release_s or -1 < due_s < release_s:
            return None
        return PlanJob(
            id=name,
            shapes=self._shared(gpus, duration_s * 1000),
            release_ms=release_s * 1000,
            deadline_ms=None if deadline_s < 0 else deadline_s * 1000,
            due_ms=None if due_s < 0 else due_s * 1000,
            weight=self._weight(weight),
            queue=queue or None,
            team=team or None,
            family=family or None,
        )

    def _shared(self, gpus: int, duration_ms: int) -> tuple[Shape, ...]:
        found = self._shapes.get((gpus, duration_ms))
        if found is None:
            found = anywhere(gpus, duration_ms, self._resources)
            self._shapes[gpus, duration_ms] = found
        return found

    def _weight(self, text: str) -> Decimal:
        found = self._weights.get(text)
        if found is None:
            found = self._weights[text] = Decimal(text)
        return found


def anywhere(gpus: int, duration_ms: int, resources: tuple[str, ...]) -> tuple[Shape, ...]:
    """One shape on each of the resources."""
    return tuple(
        Shape(flavor=name.partition("/")[2] or None, demand={name: gpus}, duration_ms=duration_ms) for name in resources
    )


def _whole(fields: Mapping[str, Plain], key: str, absent: int) -> int | None:
    """A whole number in its plain spelling; None where it is anything else."""
    value = fields.get(key)
    if value is None:
        return absent
    if not isinstance(value, str) or not value.isdecimal() or not value.isascii() or len(value) > _MOST_DIGITS:
        return None
    return None if value[0] == "0" and len(value) > 1 else int(value)


def _name(fields: Mapping[str, Plain], key: str) -> str | None:
    """A name on one line, "" where there is none; None where it is anything else."""
    value = fields.get(key)
    if value is None:
        return ""
    if not isinstance(value, str) or not value or len(value) > _LONGEST_NAME:
        return None
    return value if value.isprintable() and not value.isspace() else None
