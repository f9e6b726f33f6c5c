"""`interval` and `cut`: more GPU time is forced into some spans than they hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any  # JSON has no narrower type than this.

from .frame import Frame
from .problem import Problem
from .question import Question
from .report import Refused
from .steps import Spans
from .values import field, items, record, text, whole

_WHERE = "the certificate"
_MOST_GPU_MS = 10**25


def check_interval(stated: dict[str, Any], question: Question) -> None:
    """The listed jobs must spend more in `[from_ms, to_ms)` than it holds."""
    window = read_window(stated)
    _no_weight(question)

    def forced(name: str, resource: str) -> int:
        return max(frame.forced(name, resource, *window) for frame in question.frames)

    _check(stated, question, Spans([window]), forced)


def check_cut(stated: dict[str, Any], question: Question) -> None:
    """The listed jobs must spend more in the windows together than they hold."""
    spans = read_spans(stated)
    _no_weight(question)

    def forced(name: str, resource: str) -> int:
        return max(frame.forced_in_spans(name, resource, spans) for frame in question.frames)

    _check(stated, question, spans, forced)


def overloads(frame: Frame, resource: str, spans: Spans) -> bool:
    """All jobs together must spend more in the spans than they hold."""
    windows = list(spans)
    if len(windows) == 1:
        required = sum(frame.forced(name, resource, *windows[0]) for name in frame.problem.jobs)
    else:
        required = sum(frame.forced_in_spans(name, resource, spans) for name in frame.problem.jobs)
    return required > held_gpu_ms(frame.problem, resource, spans)


def held_gpu_ms(problem: Problem, resource: str, spans: Spans) -> int:
    """What the capacity of a resource holds in the spans."""
    steps = problem.capacity.get(resource)
    return 0 if steps is None else sum(steps.integral(low, high) for low, high in spans)


def read_window(stated: dict[str, Any]) -> tuple[int, int]:
    """`from_ms` and `to_ms`, not before the origin and not empty."""
    low = whole(field(stated, "from_ms", _WHERE), f"{_WHERE}'s from_ms", low=0)
    high = whole(field(stated, "to_ms", _WHERE), f"{_WHERE}'s to_ms")
    if low >= high:
        raise Refused(f"{_WHERE}'s span [{low}, {high}) is empty.")
    return low, high


def read_spans(stated: dict[str, Any]) -> Spans:
    """`windows`: in order, disjoint, none empty, none before the origin."""
    found: list[tuple[int, int]] = []
    for at, entry in enumerate(items(field(stated, "windows", _WHERE), f"{_WHERE}'s windows")):
        pair = items(entry, f"{_WHERE}'s windows[{at}]")
        if len(pair) != 2:
            raise Refused(f"{_WHERE}'s windows[{at}] is not [from_ms, to_ms].")
        low, high = (whole(edge, f"{_WHERE}'s windows[{at}]", low=0) for edge in pair)
        if low >= high or (found and low < found[-1][1]):
            raise Refused(f"{_WHERE}'s windows are not in order, disjoint and non-empty.")
        found.append((low, high))
    if not found:
        raise Refused(f"{_WHERE} has no windows.")
    return Spans(found)


def _check(stated: dict[str, Any], question: Question, spans: Spans, forced: Callable[[str, str], int]) -> None:
    resource = text(field(stated, "resource", _WHERE), f"{_WHERE}'s resource")
    required = _sum_of_parts(stated, question, resource, forced)
    if required != whole(field(stated, "required_gpu_ms", _WHERE), f"{_WHERE}'s required_gpu_ms", high=_MOST_GPU_MS):
        raise Refused(f"required_gpu_ms is not the sum of the forced parts ({required}).")
    held = held_gpu_ms(question.problem, resource, spans)
    if required <= held:
        raise Refused(f"{required} GPU-ms are forced into the span, and it holds {held}: nothing is proven.")
    _check_figures(stated, question, resource, spans, required)


def _sum_of_parts(stated: dict[str, Any], question: Question, resource: str, forced: Callable[[str, str], int]) -> int:
    total, seen = 0, set[str]()
    for at, entry in enumerate(items(field(stated, "jobs", _WHERE), f"{_WHERE}'s jobs")):
        part = record(entry, f"{_WHERE}'s jobs[{at}]")
        name = text(field(part, "id", f"{_WHERE}'s jobs[{at}]"), f"{_WHERE}'s jobs[{at}].id")
        if name in seen or name not in question.problem.jobs:
            raise Refused(f'{_WHERE} lists "{name[:60]}", which is {"listed twice" if name in seen else "no job"}.')
        seen.add(name)
        claimed = whole(
            field(part, "forced_gpu_ms", f"{_WHERE}'s jobs[{name[:60]}]"),
            f"{_WHERE}'s jobs[{name[:60]}].forced_gpu_ms",
            low=0,
            high=_MOST_GPU_MS,
        )
        shown = forced(name, resource)
        if claimed > shown:
            raise Refused(f'{claimed} GPU-ms of "{name[:60]}" are said to be forced into the span; {shown} are.')
        total += claimed
    return total


def _check_figures(stated: dict[str, Any], question: Question, resource: str, spans: Spans, required: int) -> None:
    capacity = whole(field(stated, "capacity_gpu_ms", _WHERE), f"{_WHERE}'s capacity_gpu_ms", low=0, high=_MOST_GPU_MS)
    allowed = {held_gpu_ms(one, resource, spans) for one in (question.printed, question.problem)}
    if capacity not in allowed:
        raise Refused(f"capacity_gpu_ms is {capacity}; the inputs hold {min(allowed)}.")
    extra = max(0, -((capacity - required) // spans.length_ms))
    if whole(field(stated, "extra_gpus", _WHERE), f"{_WHERE}'s extra_gpus") != extra:
        raise Refused(f"extra_gpus is not {extra}, as required, capacity and the span say.")


def _no_weight(question: Question) -> None:
    if question.weight_above is not None:
        raise Refused("This kind of certificate says nothing about weight on time.")
