"""Finished Workloads are kept in the ledger, also after Kueue has deleted them."""

from __future__ import annotations

from pathlib import Path

from doubles.kueue_objects import job, seen, workload
from gpuyield.collect.kueue.finished import finished_work, read_finished, write_finished
from gpuyield.ledger import Ledger
from gpuyield.plan.online.durations import PastRun, learn
from gpuyield.steps.live import LiveHistory, past_runs
from gpuyield.steps.run_history import RunHistory

ENDED = "2026-11-30T23:50:00Z"


def test_what_has_finished_is_kept_when_it_is_gone(tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "ledger")
    first = seen(
        workloads=[workload("a-1", 2, on="h100", finished=ENDED), workload("b-1", 1)],
        jobs=[job("a-1")],
    )
    second = seen(workloads=[workload("a-2", 2, on="h100", finished="2026-12-01T00:10:00Z")], jobs=[job("a-2")])

    for one in (first, second, second):
        write_finished(ledger, finished_work(one))

    kept = read_finished(ledger)
    assert kept == (*finished_work(first), *finished_work(second))
    assert [(one.name, one.flavors, one.gpus, one.run_ms, one.succeeded) for one in kept] == [
        ("a-1", ("h100",), 2, 20 * 60_000, True),
        ("a-2", ("h100",), 2, 40 * 60_000, True),
    ]


def test_a_run_that_is_remembered_and_still_there_counts_once() -> None:
    found = finished_work(seen(workloads=[workload("a-1", 2, on="h100", finished=ENDED)], jobs=[job("a-1")]))

    runs = past_runs((*found, *found))

    # Once for the family of its namespace, once for that name anywhere.
    assert [(one.family, one.run_ms) for one in runs] == [("a", 20 * 60_000), ("evals/a", 20 * 60_000)]


def test_enough_runs_in_the_ledger_count_before_too_few_workloads() -> None:
    of_a, of_b = [PastRun(family="a", run_ms=100)] * 9, [PastRun(family="b", run_ms=700)] * 9
    ledger = RunHistory(lambda: learn(of_a))

    history = LiveHistory(learn([*of_b, PastRun(family="a", run_ms=900), PastRun(family="c", run_ms=1)]), ledger)

    assert [known.planned_ms for name in "abc" if (known := history(name))] == [100, 700, 700]
    assert history("d") is None


def test_an_empty_ledger_remembers_nothing(tmp_path: Path) -> None:
    assert read_finished(Ledger.create(tmp_path / "ledger")) == ()
