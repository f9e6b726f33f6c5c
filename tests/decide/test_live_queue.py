"""What the queue of a live cluster says of itself: the jobs that wait now, and what Kueue counted in the last day."""

from __future__ import annotations

from typing import Any  # Documents are JSON.

import pytest

from gpuyield.decide.live.queue import live_queue_document
from gpuyield.model.kueue_counts import KueueCounts, Level, QueueCounts, Waits
from gpuyield.report.answer import Answer
from gpuyield.report.screens.waiting import live_queue_answer
from gpuyield.units import DAY_MS, Window, parse_zone

NOW = 1_796_000_000_000


def level(first: float, last: float, *, most: float = 50) -> Level:
    return Level(now=last, mean=(first + last) / 2, most=most, first=first, last=last, known=1.0)


def document(*queues: QueueCounts) -> dict[str, Any]:
    counts = KueueCounts(window=Window(NOW - DAY_MS, NOW), known=1.0, queues=queues) if queues else None
    return live_queue_document((), at_ms=NOW, by=(), gaps=(), counts=counts)


def answer(*queues: QueueCounts) -> Answer:
    return live_queue_answer(document(*queues), zone=parse_zone("Europe/Berlin"))


def test_the_queue_that_grew_most_is_told_first() -> None:
    told = answer(
        QueueCounts(queue="steady", waiting=level(20, 21)),
        QueueCounts(queue="shrinks", waiting=level(30, 3)),
        QueueCounts(queue="grows", waiting=level(2, 40)),
    )

    assert told.headline[1:] == (
        "Queue grows grew: 2.0 jobs waited in the first six hours of the last day, 40.0 in the last six.",
        "Queue shrinks shrank: 30.0 jobs waited in the first six hours of the last day, 3.0 in the last six.",
    )


@pytest.mark.parametrize(
    "waiting",
    [
        None,
        level(0.2, 0.9),
        Level(now=None, mean=5, most=9, first=None, last=5, known=0.2),
        Level(now=None, mean=5, most=9, first=5, last=None, known=0.2),
    ],
)
def test_nothing_is_said_of_a_change_that_is_not_known_or_small(waiting: Level | None) -> None:
    assert answer(QueueCounts(queue="main", waiting=waiting)).headline == ("No job waits now.",)


def test_what_was_counted_is_a_table_and_what_was_not_is_missing_and_not_nothing() -> None:
    counted = QueueCounts(
        queue="main",
        waiting=level(10, 20),
        reserved_gpus=level(6, 8),
        used_gpus=level(5, 7),
        admitted=120,
        evicted={"PodsReadyTimeout": 2, "Preempted": 9},
        waits=Waits(n=120, mean_s=400.0, p50_at_most_s=160.0, p90_at_most_s=None),
    )

    (table,) = answer(counted, QueueCounts(queue="silent")).tables

    assert table.rows == (
        ("main", 15, 50, 7, 6, 120, "at most 2m40s", "beyond the buckets", "2 PodsReadyTimeout, 9 Preempted"),
        ("silent", None, None, None, None, None, None, None, None),
    )


def test_the_document_has_all_of_it_and_none_where_nothing_is_known() -> None:
    assert document()["kueue"] is None
    found = document(QueueCounts(queue="main", waiting=level(10, 20)))["kueue"]

    assert found["queues"][0]["waiting"]["first"] == 10
    assert found["queues"][0]["evicted"] is None
    assert len(found["window"]) == 2
