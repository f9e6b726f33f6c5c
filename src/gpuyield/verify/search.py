"""`search`: a decision tree in which every branch is closed, replayed from the root."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any  # JSON has no narrower type than this.

from .frame import Frame
from .interval import overloads, read_spans, read_window
from .problem import Problem
from .question import Question
from .report import Refused
from .steps import Spans
from .values import choice, field, items, record, text, whole
from .wide_gangs import outlast

MOST_NODES = 100_000
TOLERANCE = Fraction(1, 10**9)
_MOST_WORK = 40_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class _State:
    """Where a branch stands: what was decided, and which weight is given up."""

    frame: Frame
    decided: frozenset[str]
    missed: Fraction


def check(stated: dict[str, Any], question: Question) -> None:
    """Replay the tree."""
    nodes = items(field(stated, "branches", "the certificate"), "the certificate's branches")
    if not 1 <= len(nodes) <= MOST_NODES:
        raise Refused(f"A search has 1 to {MOST_NODES} nodes, this one {len(nodes)}.")
    if len(nodes) * len(question.problem.jobs) > _MOST_WORK:
        raise Refused("The search is too large to be replayed: nodes x jobs exceed 40,000,000.")
    waiting = [_State(frame=root_frame(stated, question), decided=frozenset(), missed=Fraction(0))]
    for at, entry in enumerate(nodes):
        if not waiting:
            raise Refused(f"branches[{at}] follows a tree that is already closed.")
        node, state = record(entry, f"branches[{at}]"), waiting.pop()
        try:
            waiting.extend(reversed(_branches(node, state, question)))
        except Refused as err:
            raise Refused(f"branches[{at}]: {err}") from err
    if waiting:
        raise Refused(f"{len(waiting)} branches of the search are open.")


def _branches(node: dict[str, Any], state: _State, question: Question) -> list[_State]:
    if "closed" in node:
        _close(node, state, question)
        return []
    split = choice(field(node, "split", "a node"), "split", ("start", "order", "shape", "on-time"))
    if split == "on-time":
        return _on_time(node, state, question)
    frame = state.frame
    name = _job(node, "first" if split == "order" else "id", frame)
    if split == "start":
        at_ms = whole(field(node, "at_ms", "a node"), "at_ms")
        return _each(state, [frame.starting_before(name, at_ms), frame.starting_from(name, at_ms)])
    if split == "shape":
        return _each(state, [frame.with_shape(name, at) for at in frame.usable_at(name)])
    second = _job(node, "second", frame)
    if any(frame.job(one).restart_ms is not None for one in (name, second)):
        raise Refused("A job that may be paused can run around another: that is no order.")
    if name == second or not frame.cannot_overlap(name, second):
        raise Refused(f'"{name[:60]}" and "{second[:60]}" may run at once.')
    return _each(state, [frame.ordered(name, second), frame.ordered(second, name)])


def _each(state: _State, frames: list[Frame]) -> list[_State]:
    return [_State(frame=frame, decided=state.decided, missed=state.missed) for frame in frames]


def _on_time(node: dict[str, Any], state: _State, question: Question) -> list[_State]:
    if question.weight_above is None:
        raise Refused("on-time is split only for a bound on the weight on time.")
    name = text(field(node, "id", "a node"), "id")
    job = question.problem.jobs.get(name)
    if job is None or job.wanted_ms is None or name in state.decided:
        raise Refused(f'"{name[:60]}" has no deadline and no due time, or is decided.')
    decided = state.decided | {name}
    kept = state.frame.on_time(name, job.wanted_ms, job.fixed_ms)
    return [
        _State(frame=kept, decided=decided, missed=state.missed),
        _State(frame=state.frame, decided=decided, missed=state.missed + job.weight),
    ]


def _close(node: dict[str, Any], state: _State, question: Question) -> None:
    frame = state.frame
    reason = choice(node["closed"], "closed", ("interval", "cut", "wide-gangs", "impossible", "weight"))
    if reason == "weight":
        if question.weight_above is None:
            raise Refused("weight closes a branch only for a bound on the weight on time.")
        total = timed_weight(question.problem)
        if total - state.missed > (question.weight_above + TOLERANCE) * total:
            raise Refused("More weight than the bound is still there.")
        return
    if frame.is_contradiction:
        return
    if reason == "impossible":
        name = _job(node, "id", frame)
        if frame.usable(name):
            raise Refused(f'"{name[:60]}" still has a usable shape.')
        return
    resource = text(field(node, "resource", "a node"), "resource")
    if reason == "wide-gangs":
        names = [text(one, "jobs") for one in items(field(node, "jobs", "a node"), "jobs")]
        outlast(frame, resource, read_window(node), names)
        return
    spans = Spans([read_window(node)]) if reason == "interval" else read_spans(node)
    if not overloads(frame, resource, spans):
        raise Refused("The span holds what is forced into it.")


def _job(node: dict[str, Any], name: str, frame: Frame) -> str:
    """A job that the branch says must run; nothing can be split on one that may be given up."""
    job_id = text(field(node, name, "a node"), name)
    if job_id not in frame.problem.jobs:
        raise Refused(f'"{job_id[:60]}" is no job.')
    if not frame.must_run(job_id):
        raise Refused(f'Nothing says that "{job_id[:60]}" must run.')
    return job_id


def timed_weight(problem: Problem) -> Fraction:
    """The weight of all jobs that have a deadline or a due time."""
    return sum((job.weight for job in problem.jobs.values() if job.is_timed), start=Fraction(0))


def root_frame(stated: dict[str, Any], question: Question) -> Frame:
    """What must hold before any decision, on the grid that the certificate states."""
    grid_ms = whole(stated.get("grid_ms", 1), "grid_ms", low=1)
    problem = question.problem
    if grid_ms > 1:
        _check_grid(problem, grid_ms)
    if question.weight_above is None:
        return Frame(problem, grid_ms=grid_ms)
    given_up = {name for name, job in problem.jobs.items() if job.is_hard and name not in question.must_meet}
    return Frame(problem, grid_ms=grid_ms, optional=given_up)


def _check_grid(problem: Problem, grid_ms: int) -> None:
    steps = [at for one in problem.capacity.values() for at in one.rises()]
    jobs = problem.jobs.values()
    if any(job.restart_ms is not None for job in jobs):
        raise Refused("A grid needs jobs that are never paused.")
    times = [
        *steps,
        *(shape.duration_ms for job in jobs for shape in job.shapes),
        *(job.earliest_ms for job in jobs),
    ]
    off = next((time for time in times if time % grid_ms), None)
    if off is not None:
        raise Refused(f"grid_ms does not divide {off} ms.")
