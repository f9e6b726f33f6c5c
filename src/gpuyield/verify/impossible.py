"""`impossible`: jobs that cannot meet their deadline even alone."""

from __future__ import annotations

from fractions import Fraction
from typing import Any  # JSON has no narrower type than this.

from .alone import is_impossible, most_lasting
from .frame import loose_heads, shortest_held
from .problem import Job, Shape
from .question import Question
from .report import Refused
from .steps import FOREVER, Steps
from .values import choice, field, items, number, record, seconds_ms, text

_WHERE = "the certificate"
_REASONS = ("too-long", "too-wide", "no-flavor", "chain")


def check(stated: dict[str, Any], question: Question) -> None:
    """Every listed job is impossible for the stated reason, with these figures."""
    if question.weight_above is not None:
        raise Refused("This kind of certificate says nothing about weight on time.")
    entries = items(field(stated, "jobs", _WHERE), f"{_WHERE}'s jobs")
    if not entries:
        raise Refused(f"{_WHERE} names no job.")
    seen: set[str] = set()
    for at, entry in enumerate(entries):
        listed = record(entry, f"{_WHERE}'s jobs[{at}]")
        name = text(field(listed, "id", f"{_WHERE}'s jobs[{at}]"), f"{_WHERE}'s jobs[{at}].id")
        if name in seen or name not in question.problem.jobs:
            raise Refused(f'{_WHERE} lists "{name[:60]}", which is {"listed twice" if name in seen else "no job"}.')
        seen.add(name)
        _check_job(listed, question, question.problem.jobs[name])
    if not seen & question.owed:
        raise Refused(f"{_WHERE} names only jobs that no deadline and no fixed start rests on.")


def _check_job(listed: dict[str, Any], question: Question, job: Job) -> None:
    where = f'"{job.id[:60]}"'
    if not is_impossible(question.alone, question.frame, job):
        raise Refused(f"{where} can meet its deadline alone.")
    reason = choice(field(listed, "reason", where), f"{where}: reason", _REASONS)
    if "need" not in listed or "have" not in listed:
        raise Refused(f"{where} has no need or have.")
    need, have = listed["need"], listed["have"]
    {"too-long": _too_long, "too-wide": _too_wide, "no-flavor": _no_flavor, "chain": _chain}[reason](
        need, have, question, job
    )


def _too_long(need: Any, have: Any, question: Question, job: Job) -> None:
    end_ms = FOREVER if job.deadline_ms is None else job.deadline_ms
    there_ms = max(0, end_ms - job.earliest_ms)
    shortest = {min(shape.duration_ms for shape in job.shapes)}
    held = [job.shapes[at].duration_ms for at in question.frame.shapes[job.id]]
    known = [one.duration_ms for one in job.shapes if set(one.demand) <= set(question.problem.capacity)]
    shortest |= {min(durations) for durations in (held, known) if durations}
    shortest = {duration for duration in shortest if duration > there_ms}
    stated = (seconds_ms(need, "need"), seconds_ms(have, "have"))
    if stated not in {(duration, there_ms) for duration in shortest} | _too_little_room(question, job):
        raise Refused(
            f'"{job.id[:60]}" is not too long by these figures: '
            f"{min(shortest, default=0) / 1000:g} s needed, {there_ms / 1000:g} s there."
        )


def _too_little_room(question: Question, job: Job) -> set[tuple[int, int]]:
    """For every shape: its duration, and the most of it that there is room for behind its predecessors."""
    heads = {question.frame.heads[job.id], loose_heads(question.problem)[job.id]}
    pairs = {
        (shape.duration_ms, question.alone.room_ms(job, shape, head, job.deadline_ms))
        for shape in job.shapes
        for head in heads
    }
    return {(duration, there) for duration, there in pairs if duration > there}


def _too_wide(need: Any, have: Any, question: Question, job: Job) -> None:
    if question.alone.can_meet(job, job.earliest_ms, job.deadline_ms):
        raise Refused(f'"{job.id[:60]}" is not too wide.')
    pairs: set[tuple[Fraction, Fraction]] = set()
    for shape in job.shapes:
        for resource, amount in shape.demand.items():
            steps = question.printed.capacity.get(resource)
            if steps is not None:
                there = _most_lasting(job, shape, steps)
                pairs.add((Fraction(amount), Fraction(there)))
    if (number(need, "need"), number(have, "have")) not in {(a, b) for a, b in pairs if a > b}:
        figures = "; ".join(sorted(f"{amount}, {there}" for amount, there in pairs)[:5])
        raise Refused(f'"{job.id[:60]}" is not too wide by these figures; (needed, there): {figures}.')


def _most_lasting(job: Job, shape: Shape, steps: Steps) -> int:
    if job.fixed_ms is not None:
        return steps.lowest(max(0, job.fixed_ms), job.fixed_ms + shape.duration_ms)
    end = job.deadline_ms
    if end is None:
        end = max([0, *steps.times]) + shape.duration_ms + job.earliest_ms
    return most_lasting(steps, shape.duration_ms, job.earliest_ms, end)


def _no_flavor(need: Any, have: Any, question: Question, job: Job) -> None:
    limits = question.problem.quotas.limits
    capacity = {name: steps for name, steps in question.problem.capacity.items() if name not in limits}
    present = {name for name, steps in capacity.items() if max(steps.amounts) > 0}
    if any(set(shape.named) <= present for shape in job.shapes):
        raise Refused(f'A flavor that "{job.id[:60]}" names is there.')
    named = {str(shape.flavor) for shape in job.shapes if shape.flavor is not None}
    resources = {name for shape in job.shapes for name in shape.named}
    if _words(need, "need") not in ({*named}, resources):
        raise Refused(f'need is not what "{job.id[:60]}" names.')
    listed = set(capacity)
    if _words(have, "have") not in [
        group for names in (present, listed) for group in (names, {name.removeprefix("gpu/") for name in names})
    ]:
        raise Refused("have is not what is there.")


def _chain(need: Any, have: Any, question: Question, job: Job) -> None:
    if job.deadline_ms is None or not job.after:
        raise Refused(f'"{job.id[:60]}" has no deadline, or no predecessor.')
    shortest = shortest_held(question.problem)
    heads = (question.frame.heads[job.id], loose_heads(question.problem)[job.id])
    ends = {head + shortest[job.id] for head in heads}
    if seconds_ms(need, "need") not in ends or seconds_ms(have, "have") != job.deadline_ms:
        raise Refused(
            f'"{job.id[:60]}" is not late by these figures: its chain ends {min(ends) / 1000:g} s after the origin, '
            f"its deadline is {job.deadline_ms / 1000:g} s after it."
        )
    if seconds_ms(need, "need") <= seconds_ms(have, "have"):
        raise Refused(f'The chain of "{job.id[:60]}" ends in time.')


def _words(value: Any, where: str) -> set[str]:
    return {text(one, where) for one in (items(value, where) if not isinstance(value, str) else [value])}
