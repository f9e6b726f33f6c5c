"""Causes of waiting sum to the wait, and agree with a slow count millisecond by millisecond."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from gpuyield.decide.queue import explain_queue
from gpuyield.model.queue import Cause, Promise, Supply, Wait
from gpuyield.units import Window

END = 12


@st.composite
def wait(draw: st.DrawFn) -> Wait:
    low = draw(st.integers(0, END - 1))
    return Wait(
        job=draw(st.sampled_from("abcd")),
        gpus=draw(st.integers(1, 4)),
        window=Window(low, draw(st.integers(low + 1, END))),
        promise=draw(st.sampled_from(Promise)),
        team=draw(st.sampled_from(("x", "y", None))),
        flavors=draw(st.sampled_from(((), ("h100",), ("a100",)))),
    )


@st.composite
def supply(draw: st.DrawFn, name: str) -> Supply:
    times = sorted(draw(st.sets(st.integers(0, END), max_size=4)))
    steps = tuple((at, draw(st.integers(0, 4)), draw(st.integers(0, 4))) for at in times)
    return Supply(node=name, flavor=draw(st.sampled_from(("h100", "a100"))), steps=steps)


supplies = st.tuples(supply("n1"), supply("n2"), supply("n3"))
jobs_on_time = st.one_of(st.none(), st.sets(st.sampled_from("abcd")))


@given(st.lists(wait(), max_size=6), supplies, jobs_on_time, st.integers(0, END), st.integers(0, END))
def test_causes_sum_to_the_wait_over_any_split_of_the_window(
    waits: list[Wait], nodes: tuple[Supply, ...], on_time: set[str] | None, first: int, second: int
) -> None:
    low, high = sorted((first, second))

    whole = explain_queue(waits, nodes, Window(0, END), on_time=on_time, by=("team",))
    parts = [
        explain_queue(waits, nodes, Window(*edges), on_time=on_time, by=("team",))
        for edges in ((0, low), (low, high), (high, END))
    ]

    assert whole.total.gpu_ms == sum(one.gpu_ms for one in waits)
    assert sum(row.gpu_ms for row in whole.rows) == whole.total.gpu_ms
    for cause in Cause:
        assert whole.total.causes[cause] == sum(part.total.causes[cause] for part in parts)


@given(st.lists(wait(), max_size=6), supplies, jobs_on_time)
def test_a_count_millisecond_by_millisecond_finds_the_same(
    waits: list[Wait], nodes: tuple[Supply, ...], on_time: set[str] | None
) -> None:
    queue = explain_queue(waits, nodes, Window(0, END), on_time=on_time)

    slow: Counter[Cause] = Counter()
    for at in range(END):
        left: list[dict[str, object]] = []
        for one in nodes:
            state = [step for step in one.steps if step[0] <= at]
            if state:
                left.append({"flavor": one.flavor, "free": state[-1][1], "idle": state[-1][2]})
        order = sorted(range(len(waits)), key=lambda index: (waits[index].window.from_ms, index))
        for index in order:
            one_wait = waits[index]
            if one_wait.window.from_ms <= at < one_wait.window.to_ms:
                slow[_slow_cause(one_wait, left, on_time)] += one_wait.gpus
    assert {cause: found for cause, found in queue.total.causes.items() if found} == dict(slow)


def _slow_cause(wait: Wait, left: list[dict[str, object]], on_time: set[str] | None) -> Cause:
    if wait.promise is Promise.KEPT:
        return Cause.NOT_DUE_YET
    if wait.promise is Promise.IMPOSSIBLE:
        return Cause.IMPOSSIBLE
    nodes = [node for node in left if wait.flavors == () or node["flavor"] in wait.flavors]
    whole = sorted((node for node in nodes if _n(node, "free") >= wait.gpus), key=lambda node: _n(node, "free"))
    both = [node for node in nodes if _n(node, "free") + _n(node, "idle") >= wait.gpus]
    if whole:
        whole[0]["free"] = _n(whole[0], "free") - wait.gpus
    elif sum(_n(node, "free") for node in nodes) >= wait.gpus:
        return Cause.FRAGMENTED
    elif both:
        tightest = min(both, key=lambda node: _n(node, "free") + _n(node, "idle"))
        tightest["idle"] = _n(tightest, "idle") - (wait.gpus - _n(tightest, "free"))
        tightest["free"] = 0
        return Cause.HELD_IDLE
    if wait.promise is Promise.NONE:
        return Cause.UNDECLARED
    if on_time is not None and wait.job in on_time:
        return Cause.ORDER
    return Cause.UNEXPLAINED if whole or on_time is None else Cause.CAPACITY


def _n(node: dict[str, object], name: str) -> int:
    found = node[name]
    assert isinstance(found, int)
    return found
