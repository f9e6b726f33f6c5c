"""Mistakes between jobs: ids that are there twice, predecessors that are not there, jobs that wait for each other."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from gpuyield.declare.row import Row
from gpuyield.declare.tree import shown
from gpuyield.declare.values import did_you_mean
from gpuyield.errors import Mistake
from gpuyield.model.job import PlanJob

_LOOKED_UP = 20
"""For so many unknown predecessors the nearest name is looked for, which takes a look at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadJob:
    """What could be read of a row; `job` is None where something is wrong."""

    row: Row
    name: str | None
    after: tuple[str, ...]
    job: PlanJob | None


def mistakes_between(jobs: Sequence[ReadJob], known_ids: Collection[str]) -> Iterable[Mistake]:
    """Duplicate ids, unknown predecessors and cycles."""
    first: dict[str, Row] = {}
    for one in jobs:
        if one.name is None:
            continue
        if one.name in first:
            place = first[one.name].where(("id",))
            yield Mistake(
                what=f'id "{shown(one.name)}" is there twice (first at {place}).',
                where=one.row.where(("id",)),
                fix="Give each job an id of its own.",
            )
        if one.name in known_ids:
            yield Mistake(
                what=f'id "{shown(one.name)}" is there already.',
                where=one.row.where(("id",)),
                fix="Give each job an id of its own.",
            )
        first.setdefault(one.name, one.row)
    looked_up = 0
    for one in jobs:
        for other in one.after:
            if other not in first and other not in known_ids:
                others = [name for name in first if name != one.name] if looked_up < _LOOKED_UP else []
                looked_up += 1
                yield Mistake(
                    what=f'after names "{shown(other)}", which is no job here.',
                    where=one.row.where(("after",)),
                    fix=did_you_mean(other, others) if others else "Name a job of this file.",
                )
    waits = {one.name: [name for name in one.after if name in first] for one in jobs if one.name is not None}
    for cycle in _cycles(waits):
        names = " -> ".join(shown(name) for name in [*cycle, cycle[0]][:12])
        yield Mistake(
            what=f"jobs wait for each other: {names}.",
            where=first[cycle[0]].where(("after",)),
            fix="Remove one of these from after.",
        )


def _cycles(after: Mapping[str, Sequence[str]]) -> Iterable[list[str]]:
    """Circles of jobs that wait for each other, one of each group that it can find by walking on."""
    waiting = {name: sum(other in after for other in others) for name, others in after.items()}
    followers: dict[str, list[str]] = {}
    for name, others in after.items():
        for other in others:
            followers.setdefault(other, []).append(name)
    free = [name for name, count in waiting.items() if count == 0]
    while free:
        for name in followers.get(free.pop(), ()):
            waiting[name] -= 1
            if waiting[name] == 0:
                free.append(name)
    stuck = {name for name, count in waiting.items() if count > 0}
    seen: set[str] = set()
    for name in after:
        if name not in stuck or name in seen:
            continue
        trail: dict[str, None] = {}
        here = name
        while here not in trail and here not in seen:
            trail[here] = None
            here = next(other for other in after[here] if other in stuck)
        if here not in seen:
            names = list(trail)
            yield names[names.index(here) :]
        seen.update(trail)
