"""Run times by family: what is planned, how often that is kept, and what is said where little is known."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC
from pathlib import Path

import numpy as np
import pytest

from gpuyield.declare.jobs import JobTerms, parse_jobs
from gpuyield.declare.rows import Rows, read_rows
from gpuyield.errors import DeclarationError
from gpuyield.model.duration import DurationBasis, FamilyDuration, between, ladder
from gpuyield.model.job import Shape
from gpuyield.plan.online.durations import LEAST_RUNS, PastRun, learn, quantile
from gpuyield.units import MINUTE_MS

FORECASTS = 100
"""Families with fewer are too small to judge a share by."""


def test_the_70th_percentile_of_what_ran_is_planned() -> None:
    known = learn([PastRun(family="eval", run_ms=minutes * MINUTE_MS) for minutes in range(1, 10)])

    family = known.of("eval")

    assert family is not None
    assert (family.basis, family.runs, family.p70_ms) == (DurationBasis.FAMILY, 9, 7 * MINUTE_MS)


def test_a_family_that_often_overran_is_planned_at_its_90th_percentile() -> None:
    chance = np.random.default_rng(0)
    steady = [PastRun(family="steady", run_ms=int(one)) for one in chance.uniform(95_000, 105_000, 200)]
    wild = [PastRun(family="wild", run_ms=int(one)) for one in chance.lognormal(11, 1.5, 200)]

    known = learn([*steady, *wild])

    first, second = known.of("steady"), known.of("wild")
    assert first is not None
    assert second is not None
    assert (first.quantile, second.quantile) == (0.7, 0.9)
    assert first.overran is not None
    assert second.overran is not None
    assert first.overran <= 0.2 < second.overran


def test_few_runs_are_no_evidence_and_what_is_declared_holds() -> None:
    runs = [PastRun(family="new", run_ms=MINUTE_MS)] * (LEAST_RUNS - 1)
    known = learn([*runs, *[PastRun(family="old", run_ms=9 * MINUTE_MS)] * 20])

    declared, borrowed = known.of("new", declared_ms=5 * MINUTE_MS), known.of("new")

    assert declared is not None
    assert (declared.basis, declared.planned_ms, declared.quantile) == (DurationBasis.DECLARED, 5 * MINUTE_MS, None)
    assert borrowed is not None
    assert (borrowed.basis, borrowed.runs) == (DurationBasis.ALL, LEAST_RUNS - 1)
    assert borrowed.coverage is None


def test_nothing_is_said_of_a_family_that_never_ran() -> None:
    assert learn([]).of("eval") is None
    assert learn([]).of(None) is None


def test_sums_take_the_mean_with_the_long_runs_in_it() -> None:
    known = learn([PastRun(family="tail", run_ms=run) for run in [1_000] * 9 + [91_000]])

    family = known.of("tail")

    assert family is not None
    assert (family.p50_ms, family.mean_ms) == (1_000, 10_000)


def test_a_quantile_leaves_room_for_what_was_not_seen_yet() -> None:
    values = [10, 20, 30, 40]

    found = [quantile(values, level) for level in (0.0, 0.2, 0.5, 0.8, 0.9)]

    assert found == [10, 10, 30, 40, 50]


def test_a_spread_rises_from_the_least_to_the_greatest() -> None:
    values = sorted(np.random.default_rng(1).integers(1, 1_000, 37).tolist())

    steps = ladder(values)

    assert (steps[0], steps[10], steps[-1]) == (values[0], values[18], values[-1])
    assert list(steps) == sorted(steps)


def test_a_spread_goes_through_the_quantiles_that_a_job_states() -> None:
    steps = between({0.5: 100, 0.7: 140, 0.9: 300})

    assert (steps[0], steps[10], steps[14], steps[18], steps[20]) == (100, 100, 140, 300, 450)


def test_a_job_that_names_only_its_family_is_planned_for_as_long_as_the_family_runs() -> None:
    known = learn([PastRun(family="eval", run_ms=minutes * MINUTE_MS) for minutes in range(1, 10)])
    rows = job_file([{"id": "a", "gpus": 2, "family": "eval"}])

    (job,) = parse_jobs(rows, terms(known.of))

    eval_runs = known.families["eval"]
    assert job.shapes == (Shape(demand={"gpu": 2}, duration_ms=eval_runs.planned_ms),)
    assert job.spread_ms == eval_runs.spread_ms


def test_a_job_without_a_run_time_whose_family_never_ran_is_a_mistake() -> None:
    rows = job_file([{"id": "a", "gpus": 2, "family": "eval"}])

    with pytest.raises(DeclarationError, match="the run time is missing"):
        parse_jobs(rows, terms(learn([]).of))


def test_a_run_time_that_a_job_states_is_taken_whatever_its_family_did() -> None:
    known = learn([PastRun(family="eval", run_ms=MINUTE_MS)] * 9)
    quantiles = {"p50": 60, "p70": 90, "p90": 240}
    rows = job_file([{"id": "a", "gpus": 2, "family": "eval", "quantiles": quantiles}])

    (job,) = parse_jobs(rows, terms(known.of))

    assert job.shapes[0].duration_ms == 90_000
    assert job.spread_ms == between({0.5: 60_000, 0.7: 90_000, 0.9: 240_000})


@pytest.mark.parametrize(
    ("file", "family", "length", "order"),
    [
        ("pwa_nasa_ipsc_1993", '"user" || app || procs', "run_s * 1000", "submit_s"),
        (
            "alibaba_gpu2023_openb_pods",
            "cpu_milli || '-' || memory_mib || '-' || num_gpu || '-' || gpu_milli",
            "(deletion_time - scheduled_time) * 1000",
            "creation_time",
        ),
    ],
)
def test_what_is_planned_covers_what_it_says_on_public_traces(
    shared_data: Path, file: str, family: str, length: str, order: str
) -> None:
    runs = read_runs(shared_data / "traces" / f"{file}.parquet", family, length, order)

    known = learn(runs)

    large = [one for one in known.families.values() if one.forecasts >= FORECASTS]
    assert len(large) >= 10
    assert max(abs(coverage(one) - (one.quantile or 0)) for one in large) <= 0.06
    for at in (0.7, 0.9):
        group = [one for one in known.families.values() if one.quantile == at and one.forecasts]
        covered = sum(coverage(one) * one.forecasts for one in group) / sum(one.forecasts for one in group)
        assert abs(covered - at) <= 0.03


def job_file(jobs: list[dict[str, object]]) -> Rows:
    return read_rows(Path("jobs.json"), json.dumps(jobs).encode())


def terms(history: Callable[[str], FamilyDuration | None]) -> JobTerms:
    return JobTerms(origin_ms=0, zone=UTC, milestones={}, gpu_resources=("gpu",), history=history)


def coverage(one: FamilyDuration) -> float:
    assert one.coverage is not None
    return one.coverage


def read_runs(path: Path, family: str, length: str, order: str) -> list[PastRun]:
    duckdb = pytest.importorskip("duckdb")
    if not path.is_file():
        pytest.skip(f"{path.name} is not there")
    wanted = f"select {family}, ({length})::bigint from read_parquet($path) where {length} > 0 order by {order}"
    rows = duckdb.connect().execute(wanted, {"path": str(path)}).fetchall()
    return [PastRun(family=str(name), run_ms=run_ms) for name, run_ms in rows]
