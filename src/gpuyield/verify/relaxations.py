"""Relaxations: each is applied to the inputs and its witness replayed; "irreducible" needs a certificate."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any  # JSON has no narrower type than this.

from .certificates import refute
from .problem import Problem
from .proofs import is_obvious, with_more
from .question import Question
from .report import Findings, NotRechecked, Refused
from .runs import Run, replay, witnessed_runs
from .steps import FOREVER
from .values import choice, field, items, record, seconds_ms, text, whole

KINDS = ("add-gpus", "move-deadline", "drop")
_MOST_STEPS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class _Relaxed:
    """The problem after the relaxation, and all those one GPU, one ms or one job short of it.

    There may be as many `steps` as jobs, each a problem as large as the whole: `smaller` makes one at a time.
    """

    problem: Problem
    steps: int
    smaller: Callable[[], Iterator[Problem]]


def check_relaxations(value: Any, problem: Problem, runs: Mapping[str, Run], findings: Findings) -> None:
    """Check each of `relaxations`."""
    for at, entry in enumerate(items(value, "relaxations")):
        where = f"relaxations[{at}]"
        with findings.claim(where):
            stated = record(entry, where)
            relaxed = _relaxed(stated, problem, where)
            _check_witness(stated, relaxed.problem, runs, where)
        _check_irreducible(entry, problem, where, findings)


def _check_witness(stated: dict[str, Any], relaxed: Problem, runs: Mapping[str, Run], where: str) -> None:
    witness = stated.get("witness")
    try:
        replay(relaxed, witnessed_runs(relaxed, runs, {} if witness is None else witness, f"{where}.witness"))
    except Refused as err:
        if witness is None:
            if is_obvious(Question(problem=relaxed, printed=relaxed)):
                raise Refused("It does not suffice: a job fits nowhere, or all together do not.") from err
            raise NotRechecked("It carries no witness.") from err
        raise Refused(f"Its witness does not show that it suffices: {err}") from err


def _check_irreducible(entry: Any, problem: Problem, where: str, findings: Findings) -> None:
    if not isinstance(entry, dict) or entry.get("irreducible") is None:
        return
    with findings.claim(f"{where}.irreducible"):
        if entry["irreducible"] is not True:
            raise Refused("irreducible is neither true nor null.")
        certificates = entry.get("certificates")
        listed = (
            items(certificates, "certificates") if certificates is not None else [field(entry, "certificate", "It")]
        )
        relaxed = _relaxed(entry, problem, where)
        if relaxed.steps * len(listed) > _MOST_STEPS**2:
            raise NotRechecked("Too many smaller relaxations to re-check.")
        for at, one in enumerate(relaxed.smaller()):
            _check_smaller(one, problem, listed, at)


def _check_smaller(smaller: Problem, problem: Problem, listed: list[Any], at: int) -> None:
    why = "It carries no certificate."
    for certificate in listed:
        try:
            refute(certificate, Question(problem=smaller, printed=problem))
        except Refused as err:
            why = str(err)
        else:
            return
    raise Refused(f"Nothing shows that less (step {at}) does not suffice: {why}")


def _relaxed(stated: dict[str, Any], problem: Problem, where: str) -> _Relaxed:
    kind = choice(field(stated, "kind", where), f"{where}.kind", KINDS)
    return {"add-gpus": _add_gpus, "move-deadline": _move_deadlines, "drop": _drop}[kind](stated, problem, where)


def _add_gpus(stated: dict[str, Any], problem: Problem, where: str) -> _Relaxed:
    resource = text(field(stated, "resource", where), f"{where}.resource")
    amount = whole(field(stated, "amount", where), f"{where}.amount", low=1, high=10**9)
    low = problem.moment(field(stated, "from", where), f"{where}.from")
    to = field(stated, "to", where)
    high = FOREVER // 2 if to is None else problem.moment(to, f"{where}.to")
    if low >= high:
        raise Refused("Its window is empty.")
    more = with_more(problem, resource, amount, (low, high))
    fewer = with_more(problem, resource, amount - 1, (low, high)) if amount > 1 else problem
    return _Relaxed(problem=more, steps=1, smaller=lambda: iter([fewer]))


def _move_deadlines(stated: dict[str, Any], problem: Problem, where: str) -> _Relaxed:
    moves: dict[str, int] = {}
    for at, entry in enumerate(items(field(stated, "jobs", where), f"{where}.jobs")):
        move = record(entry, f"{where}.jobs[{at}]")
        name = text(field(move, "id", where), f"{where}.jobs[{at}].id")
        if name in moves or name not in problem.jobs or problem.jobs[name].deadline_ms is None:
            raise Refused(f'"{name[:60]}" is named twice, is no job, or has no deadline.')
        moves[name] = seconds_ms(field(move, "by_s", where), f"{where}.jobs[{at}].by_s")
        if moves[name] <= 0:
            raise Refused(f'The deadline of "{name[:60]}" is not moved to a later time.')
    if not moves:
        raise Refused("It moves no deadline.")
    return _Relaxed(
        problem=_moved(problem, moves),
        steps=len(moves),
        smaller=lambda: (_moved(problem, {**moves, name: by - 1}) for name, by in moves.items()),
    )


def _moved(problem: Problem, moves: Mapping[str, int]) -> Problem:
    jobs = {}
    for name, by in moves.items():
        job = problem.jobs[name]
        assert job.deadline_ms is not None
        jobs[name] = replace(job, deadline_ms=job.deadline_ms + by)
    return problem.with_jobs(jobs)


def _drop(stated: dict[str, Any], problem: Problem, where: str) -> _Relaxed:
    names = [text(one, f"{where}.jobs") for one in items(field(stated, "jobs", where), f"{where}.jobs")]
    dropped = set(names)
    if not names or len(dropped) != len(names) or not dropped <= set(problem.jobs):
        raise Refused("It drops no job, one twice, or one that is not there.")
    return _Relaxed(
        problem=problem.without(dropped),
        steps=len(names),
        smaller=lambda: (problem.without(dropped - {name}) for name in names),
    )
