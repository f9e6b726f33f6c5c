from __future__ import annotations

from dataclasses import replace

import pytest

from gpuyield.decide.queue import explain_queue, queue_document
from gpuyield.decide.waits import JobFacts, promise_of
from gpuyield.errors import DeclarationError
from gpuyield.model.queue import Cause, Promise, Queue, Supply, Wait
from gpuyield.units import Window

WINDOW = Window(0, 100)


def wait(
    gpus: int = 2,
    from_ms: int = 0,
    to_ms: int = 100,
    promise: Promise = Promise.MISSED,
    job: str = "a",
    flavors: tuple[str, ...] = (),
    team: str | None = "evals",
) -> Wait:
    return Wait(job=job, gpus=gpus, window=Window(from_ms, to_ms), promise=promise, flavors=flavors, team=team)


def node(*steps: tuple[int, int, int], name: str = "n1", flavor: str | None = "h100") -> Supply:
    return Supply(node=name, flavor=flavor, steps=steps)


def causes(queue: Queue) -> dict[Cause, int]:
    return {cause: found for cause, found in queue.total.causes.items() if found}


def test_a_kept_deadline_is_not_due_yet_and_an_unreachable_one_impossible() -> None:
    waits = [wait(promise=Promise.KEPT), wait(promise=Promise.IMPOSSIBLE, gpus=1)]

    queue = explain_queue(waits, [], WINDOW, on_time=set())

    assert causes(queue) == {Cause.NOT_DUE_YET: 200, Cause.IMPOSSIBLE: 100}


def test_free_gpus_that_are_not_together_are_fragmented() -> None:
    supplies = [node((0, 1, 0), (50, 0, 0)), node((0, 1, 0), name="n2")]

    queue = explain_queue([wait()], supplies, WINDOW, on_time=set())

    assert causes(queue) == {Cause.FRAGMENTED: 100, Cause.CAPACITY: 100}


def test_a_job_that_fits_on_idle_gpus_waits_for_those_who_hold_them() -> None:
    queue = explain_queue([wait(promise=Promise.NONE)], [node((0, 1, 0), (40, 1, 1))], WINDOW, on_time=None)

    assert causes(queue) == {Cause.UNDECLARED: 80, Cause.HELD_IDLE: 120}
    assert queue.idle_gpu_ms == 60


def test_idle_gpus_explain_no_more_waiting_than_they_could_have_ended() -> None:
    waits = [wait(job="first"), wait(job="second", from_ms=10), wait(job="third", from_ms=20)]

    queue = explain_queue(waits, [node((0, 0, 4))], WINDOW, on_time=set())

    # first and second take the four idle GPUs, third finds none
    assert causes(queue) == {Cause.HELD_IDLE: 200 + 180, Cause.CAPACITY: 160}


def test_a_job_that_our_plan_runs_in_time_waited_for_order_and_any_other_for_capacity() -> None:
    queue = explain_queue([wait(job="a"), wait(job="b")], [], WINDOW, on_time={"a"})

    assert causes(queue) == {Cause.ORDER: 200, Cause.CAPACITY: 200}


def test_without_a_deadline_nobody_can_say_whether_the_wait_harmed() -> None:
    queue = explain_queue([wait(promise=Promise.NONE)], [], WINDOW, on_time={"a"})

    assert causes(queue) == {Cause.UNDECLARED: 200}


def test_a_missed_deadline_beside_free_gpus_or_in_the_dark_is_unexplained() -> None:
    beside = explain_queue([wait()], [node((0, 8, 0))], WINDOW, on_time=set())
    dark = explain_queue([wait()], [], WINDOW, on_time=set(), blind=[Window(0, 25)])
    unplanned = explain_queue([wait()], [], WINDOW, on_time=None)

    assert causes(beside) == {Cause.UNEXPLAINED: 200}
    assert causes(dark) == {Cause.UNEXPLAINED: 50, Cause.CAPACITY: 150}
    assert causes(unplanned) == {Cause.UNEXPLAINED: 200}
    assert unplanned.gaps[0].gpu_ms == 200


def test_gpus_of_another_flavor_do_not_explain_a_wait() -> None:
    queue = explain_queue([wait(flavors=("a100",))], [node((0, 0, 8))], WINDOW, on_time=set())

    assert causes(queue) == {Cause.CAPACITY: 200}


def test_rows_split_the_wait_by_key_and_the_window_cuts_it() -> None:
    waits = [wait(from_ms=0, to_ms=300), wait(team=None, gpus=1, promise=Promise.KEPT)]

    document = queue_document(explain_queue(waits, [], Window(50, 100), on_time=set(), by=("team",)))

    assert document["waiting_gpu_ms"] == 150
    assert [(row["key"], row["waiting_gpu_ms"]) for row in document["rows"]] == [
        ({"team": "evals"}, 100),
        ({"team": None}, 50),
    ]


def test_another_dimension_is_refused() -> None:
    with pytest.raises(DeclarationError, match='"node" is nothing to split waiting by'):
        explain_queue([], [], WINDOW, on_time=None, by=("node",))


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        (None, Promise.NONE),
        (JobFacts(), Promise.NONE),
        (JobFacts(due_ms=100, finished_ms=100), Promise.KEPT),
        (JobFacts(due_ms=100, finished_ms=101), Promise.MISSED),
        (JobFacts(due_ms=100, shortest_ms=40), Promise.KEPT),
        (JobFacts(due_ms=100, shortest_ms=60), Promise.MISSED),
        (JobFacts(due_ms=100, created_ms=50, shortest_ms=60), Promise.IMPOSSIBLE),
    ],
)
def test_a_promise_is_judged_by_the_deadline_the_end_and_the_shortest_run(
    facts: JobFacts | None, expected: Promise
) -> None:
    assert promise_of(facts, now_ms=50) is expected


def test_waiting_is_split_by_family_and_workload_and_what_has_none_is_told_apart() -> None:
    waits = [
        Wait(job="evals/n-1", gpus=2, window=WINDOW, promise=Promise.KEPT, workload="n", family="nightly"),
        Wait(job="evals/n-2", gpus=2, window=WINDOW, promise=Promise.KEPT, workload="n", family="nightly"),
        Wait(job="evals/trial", gpus=1, window=WINDOW, promise=Promise.NONE, workload="trial"),
    ]

    by_family = explain_queue(waits, [], WINDOW, on_time=None, by=("family",))
    by_workload = explain_queue(waits, [], WINDOW, on_time=None, by=("workload",))

    assert {row.key["family"]: row.gpu_ms for row in by_family.rows} == {"nightly": 400, None: 100}
    assert {row.key["workload"]: row.gpu_ms for row in by_workload.rows} == {"n": 400, "trial": 100}


def test_a_pod_that_no_node_is_wide_enough_for_is_named_once() -> None:
    giant = Wait(
        job="search/giant", gpus=16, window=Window(0, 50), promise=Promise.IMPOSSIBLE, workload="giant", widest_node=8
    )

    queue = explain_queue([giant, replace(giant, window=Window(60, 80))], [], WINDOW, on_time=None)

    assert causes(queue) == {Cause.IMPOSSIBLE: 16 * 70}
    assert queue_document(queue)["too_wide"] == [{"job": "search/giant", "gpus": 16, "widest_node": 8}]
