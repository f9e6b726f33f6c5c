"""`lemmas`: small statements about starts, each of which follows from those before it; the last one is a contradiction.

To check one, suppose that it is false: that gives each job that it names a later earliest or an earlier latest start.
Then take the steps that it is said to follow from, one by one, until some job has no start left.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any  # JSON has no narrower type than this.

from .frame import Frame
from .question import Question
from .report import Refused
from .search import MOST_NODES, root_frame
from .values import choice, field, items, record, text, whole

_MOST_WORK = 60_000_000
_WHERE = "the certificate"
_FAR = 10**18


@dataclass(frozen=True, slots=True)
class _Literal:
    """A job starts at `at_ms` or later (`from`), or at `at_ms` or before (`by`)."""

    job: int
    is_from: bool
    at_ms: int


@dataclass(frozen=True, slots=True)
class _Together:
    """Jobs that cannot all run at an instant."""

    jobs: tuple[int, ...]
    at_ms: int


@dataclass(frozen=True, slots=True)
class _Order:
    """A job that ends before another starts."""

    first: int
    second: int


_Step = _Together | _Order | tuple[_Literal, ...]


class _Starts:
    """The earliest and the latest start of every job under a supposition; only what it changes is kept."""

    def __init__(self, jobs: _Jobs) -> None:
        self.jobs = jobs
        self.heads: dict[int, int] = {}
        self.lasts: dict[int, int] = {}
        self.is_contradiction = False

    def head(self, job: int) -> int:
        return self.heads.get(job, self.jobs.heads[job])

    def last(self, job: int) -> int:
        return self.lasts.get(job, self.jobs.lasts[job])

    def starts_from(self, job: int, at_ms: int) -> None:
        at_ms = -(-at_ms // self.jobs.grid_ms) * self.jobs.grid_ms
        if at_ms > self.head(job):
            self.heads[job] = at_ms
            self.is_contradiction = self.is_contradiction or at_ms > self.last(job)

    def starts_by(self, job: int, at_ms: int) -> None:
        at_ms = at_ms // self.jobs.grid_ms * self.jobs.grid_ms
        if at_ms < self.last(job):
            self.lasts[job] = at_ms
            self.is_contradiction = self.is_contradiction or at_ms < self.head(job)

    def take(self, step: _Step) -> None:
        """What follows from one step; nothing, where it leaves more than one way out."""
        if isinstance(step, _Order):
            length = self.jobs.durations[step.first]
            self.starts_from(step.second, self.head(step.first) + length)
            self.starts_by(step.first, self.last(step.second) - length)
        elif isinstance(step, _Together):
            self._take_together(step)
        else:
            self._take_lemma(step)

    def _take_together(self, step: _Together) -> None:
        free = -1
        for job in step.jobs:
            if self.head(job) > step.at_ms - self.jobs.durations[job] and self.last(job) <= step.at_ms:
                continue
            if free >= 0:
                return
            free = job
        if free < 0:
            self.is_contradiction = True
        elif self.head(free) > step.at_ms - self.jobs.durations[free]:
            self.starts_from(free, step.at_ms + 1)
        elif self.last(free) <= step.at_ms:
            self.starts_by(free, step.at_ms - self.jobs.durations[free])

    def _take_lemma(self, lemma: tuple[_Literal, ...]) -> None:
        free = None
        for one in lemma:
            if self.last(one.job) < one.at_ms if one.is_from else self.head(one.job) > one.at_ms:
                continue
            if free is not None:
                return
            free = one
        if free is None:
            self.is_contradiction = True
        elif free.is_from:
            self.starts_from(free.job, free.at_ms)
        else:
            self.starts_by(free.job, free.at_ms)

    def suppose_not(self, one: _Literal) -> None:
        """The opposite of a literal."""
        if one.is_from:
            self.starts_by(one.job, one.at_ms - 1)
        else:
            self.starts_from(one.job, one.at_ms + 1)


class _Jobs:
    """What is known of the jobs that the certificate numbers: of several shapes the least of each."""

    def __init__(self, names: list[str], frame: Frame, grid_ms: int) -> None:
        self.names, self.frame, self.grid_ms = names, frame, grid_ms
        if len(set(names)) != len(names):
            raise Refused(f"{_WHERE} numbers a job twice.")
        self.heads: list[int] = []
        self.lasts: list[int] = []
        self.durations: list[int] = []
        for name in names:
            if name not in frame.problem.jobs:
                raise Refused(f'{_WHERE} names "{name[:60]}", which is no job.')
            usable = frame.usable(name)
            if not usable or not frame.must_run(name) or frame.job(name).restart_ms is not None:
                raise Refused(f'Nothing says that "{name[:60]}" must run, in one piece.')
            self.heads.append(frame.heads[name])
            self.lasts.append(max(frame.latest_start(name, shape) for shape in usable))
            self.durations.append(min(shape.duration_ms for shape in usable))

    def demand(self, job: int, resource: str) -> int:
        """The least that it holds of a resource while it runs."""
        return min(shape.demand.get(resource, 0) for shape in self.frame.usable(self.names[job]))


def check(stated: dict[str, Any], question: Question) -> None:
    """Check every lemma; the last one says nothing, so it is a contradiction."""
    if question.weight_above is not None:
        raise Refused("This kind of certificate says nothing about weight on time.")
    grid_ms = whole(stated.get("grid_ms", 1), "grid_ms", low=1)
    frame = root_frame(stated, question)
    names = [text(one, f"{_WHERE}'s jobs") for one in items(field(stated, "jobs", _WHERE), f"{_WHERE}'s jobs")]
    jobs = _Jobs(names, frame, grid_ms)
    facts = [_fact(one, jobs, at) for at, one in enumerate(items(field(stated, "facts", _WHERE), f"{_WHERE}'s facts"))]
    entries = items(field(stated, "lemmas", _WHERE), f"{_WHERE}'s lemmas")
    if not 1 <= len(entries) <= MOST_NODES:
        raise Refused(f"There are 1 to {MOST_NODES} lemmas, here {len(entries)}.")
    known: list[tuple[_Literal, ...]] = []
    work = 0
    for at, entry in enumerate(entries):
        where = f"lemmas[{at}]"
        lemma = record(entry, where)
        says = tuple(_literal(one, jobs, where) for one in items(field(lemma, "says", where), where))
        steps = [_step(one, known, facts, where) for one in items(field(lemma, "from", where), where)]
        work += 1 + len(says) + sum(_size(step) for step in steps)
        if work > _MOST_WORK:
            raise Refused("The lemmas are too many to be checked.")
        if not _follows(says, steps, jobs):
            raise Refused(f"{where} does not follow from what it is said to follow from.")
        known.append(says)
    if known[-1]:
        raise Refused("The last lemma is no contradiction: nothing is proven.")


def _follows(says: tuple[_Literal, ...], steps: list[_Step], jobs: _Jobs) -> bool:
    starts = _Starts(jobs)
    for one in says:
        starts.suppose_not(one)
    for step in steps:
        if starts.is_contradiction:
            break
        starts.take(step)
    return starts.is_contradiction


def _size(step: _Step) -> int:
    if isinstance(step, _Order):
        return 2
    return len(step.jobs if isinstance(step, _Together) else step) + 1


def _step(value: Any, known: list[tuple[_Literal, ...]], facts: list[_Together | _Order], where: str) -> _Step:
    """Whole numbers name lemmas from 0 on, negative ones facts: -1 the first."""
    number = whole(value, f"{where}'s from")
    if number >= len(known) or -1 - number >= len(facts):
        raise Refused(f"{where} follows from something that is not said before it.")
    return known[number] if number >= 0 else facts[-1 - number]


def _literal(value: Any, jobs: _Jobs, where: str) -> _Literal:
    parts = items(value, where)
    if len(parts) != 3:
        raise Refused(f"{where} says something that is not [job, from or by, ms].")
    job = whole(parts[0], where, low=0, high=len(jobs.names) - 1)
    word = choice(parts[1], where, ("from", "by"))
    return _Literal(job, word == "from", whole(parts[2], where, low=-_FAR, high=_FAR))


def _fact(value: Any, jobs: _Jobs, at: int) -> _Together | _Order:
    where = f"facts[{at}]"
    stated = record(value, where)
    key = "order" if "order" in stated else "together"
    numbers = [
        whole(one, f"{where}.{key}", low=0, high=len(jobs.names) - 1)
        for one in items(field(stated, key, where), f"{where}.{key}")
    ]
    if len(set(numbers)) != len(numbers):
        raise Refused(f"{where} names a job twice.")
    if key == "order":
        if len(numbers) != 2 or jobs.names[numbers[0]] not in jobs.frame.job(jobs.names[numbers[1]]).after:
            raise Refused(f"{where}: the second job does not wait for the first.")
        return _Order(numbers[0], numbers[1])
    resource = text(field(stated, "resource", where), f"{where}.resource")
    at_ms = whole(field(stated, "at_ms", where), f"{where}.at_ms", low=0, high=_FAR)
    if at_ms % jobs.grid_ms:
        raise Refused(f"{where}.at_ms is not on the grid.")
    steps = jobs.frame.problem.capacity.get(resource)
    there = 0 if steps is None else steps.lowest(at_ms, at_ms + jobs.grid_ms)
    held = sum(jobs.demand(one, resource) for one in numbers)
    if held <= there:
        raise Refused(f"{where}: the jobs hold {held} of {resource}, and {there} are there.")
    return _Together(tuple(numbers), at_ms)
