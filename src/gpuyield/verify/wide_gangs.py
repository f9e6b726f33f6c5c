"""`wide-gangs`: jobs of which no two fit side by side need more time than there is."""

from __future__ import annotations

from typing import Any  # JSON has no narrower type than this.

from .frame import Frame
from .interval import read_window
from .question import Question
from .report import Refused
from .values import field, items, record, text

_WHERE = "the certificate"


def check(stated: dict[str, Any], question: Question) -> None:
    """No two of the listed jobs run at once on the resource, and together they outlast the window."""
    if question.weight_above is not None:
        raise Refused("This kind of certificate says nothing about weight on time.")
    names = [
        text(
            field(record(entry, f"{_WHERE}'s jobs[{at}]"), "id", f"{_WHERE}'s jobs[{at}]"), f"{_WHERE}'s jobs[{at}].id"
        )
        for at, entry in enumerate(items(field(stated, "jobs", _WHERE), f"{_WHERE}'s jobs"))
    ]
    resource = text(field(stated, "resource", _WHERE), f"{_WHERE}'s resource")
    outlast(question.frame, resource, read_window(stated), names)


def outlast(frame: Frame, resource: str, window: tuple[int, int], names: list[str]) -> None:
    """Refuse unless the named jobs exclude each other in the window and outlast it."""
    if len(set(names)) != len(names) or len(names) < 2:
        raise Refused("wide-gangs needs two or more jobs, each listed once.")
    narrowest: list[int] = []
    needed_ms = 0
    for name in names:
        if name not in frame.problem.jobs:
            raise Refused(f'{_WHERE} lists "{name[:60]}", which is no job.')
        usable = frame.usable(name)
        if not usable or not frame.must_run(name):
            raise Refused(f'Nothing says that "{name[:60]}" must run in the window.')
        narrowest.append(min(shape.demand.get(resource, 0) for shape in usable))
        needed_ms += min(frame.overlap(name, shape, *window) for shape in usable)
    steps = frame.problem.capacity.get(resource)
    most = 0 if steps is None else steps.highest(*window)
    first, second = sorted(narrowest)[:2]
    if first + second <= most:
        raise Refused(f"Two of the listed jobs ({first} and {second}) fit side by side into {most} of {resource}.")
    there_ms = 0
    if steps is not None:
        there_ms = sum(high - low for low, high, amount in steps.pieces(*window) if amount >= first)
    if needed_ms <= there_ms:
        raise Refused(f"The listed jobs need {needed_ms} ms one after the other, and {there_ms} ms are there.")
