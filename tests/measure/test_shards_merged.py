"""What several shards report amounts to what one sender would have said, or to a mistake."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from doubles.model_server import running_double
from gpuyield.declare.objectives import parse_objective
from gpuyield.demo.engine import EngineSettings
from gpuyield.errors import SourceError
from gpuyield.measure.judge import judge
from gpuyield.measure.protocols.chat import Chat
from gpuyield.measure.sender.bench import LiveBench, Orders
from gpuyield.measure.sender.target import parse_target
from gpuyield.measure.served import Served
from gpuyield.measure.shards import (
    Report,
    Round,
    Shard,
    Symptoms,
    arrivals_sha256,
    clock_spread_s,
    mistakes_of,
    part_of,
    run_of,
)
from gpuyield.model.measure import RECORD_NUMBERS, Arrivals, Phase, ProbePlan, Records, ResponseStatus, Run
from gpuyield.steps.measure_round import read_shards, write_shard
from measure.sending import PATIENT, every, plan_for, prompts

_CALM = Symptoms(throttled_s=0.0, waited_s=None, duration_s=1.0, shortage="", lost_worker=False)
_OBJECTIVES = (parse_objective("ttft p95 20s"), parse_objective("error for 90%"))


def report(index: int) -> Report:
    """A shard that saw nothing of note."""
    return Report(
        round="r",
        index=index,
        files={},
        symptoms=_CALM,
        ceiling_share=None,
        changed="",
        served=Served(),
        usage=True,
        beat_ms=1_000,
        seen_ms=dict.fromkeys(range(7), 1_000),
    )


def round_of(plan: ProbePlan, arrivals: Arrivals, shards: int) -> Round:
    """A round of this probe."""
    return Round(
        name="r",
        plan=plan,
        shards=shards,
        start_at_ms=0,
        question_sha256="",
        arrivals_sha256=arrivals_sha256(arrivals),
    )


def recorded(arrivals: Arrivals, *, seed: int = 1) -> Records:
    """Made-up records of these arrivals, with some of every kind."""
    rng = np.random.default_rng(seed)
    count = len(arrivals)
    sent = arrivals.scheduled_ns + rng.integers(0, 10**6, count)
    first = sent + rng.integers(10**6, 10**8, count)
    last = first + rng.integers(10**6, 10**8, count)
    return Records(
        scheduled_ns=arrivals.scheduled_ns,
        sent_ns=sent,
        first_ns=first,
        last_ns=last,
        end_ns=last + 1000,
        output_tokens=rng.integers(2, 50, count),
        input_tokens=rng.integers(2, 50, count),
        reads=rng.integers(2, 50, count),
        gap_max_ns=rng.integers(10**5, 10**7, count),
        status=rng.choice([0, 0, 0, 1, 4], count).astype(np.int8),
        grades={"exact": rng.choice([0, 1], count).astype(np.int8)},
    )


def shards_of(arrivals: Arrivals, records: Records, number: int) -> list[Shard]:
    """The records as shards would leave them."""
    lags = records.sent_ns - records.scheduled_ns
    return [
        Shard(
            report=report(index),
            records=_every(records, index, number),
            lags_ns=lags[index::number],
            loop_lags_ns=lags[index::number] // 2,
        )
        for index in range(number)
    ]


def _every(records: Records, index: int, number: int) -> Records:
    return Records(
        **{name: getattr(records, name)[index::number] for name in RECORD_NUMBERS},
        status=records.status[index::number],
        grades={name: grades[index::number] for name, grades in records.grades.items()},
    )


@pytest.mark.parametrize("number", [1, 2, 3, 7])
def test_shards_merge_to_the_probe_of_one_sender(number: int, tmp_path: Path) -> None:
    arrivals = every(0.01, 400, kinds=20)
    plan = plan_for(arrivals)
    records = recorded(arrivals)
    (alone,) = shards_of(arrivals, records, 1)
    for one in shards_of(arrivals, records, number):
        write_shard(tmp_path, one, plan, part_of(arrivals, one.report.index, number))

    round_ = round_of(plan, arrivals, number)
    found = read_shards(tmp_path)
    merged = run_of(round_, arrivals, found, lag_limit_s=0.05)
    single = run_of(round_of(plan, arrivals, 1), arrivals, [alone], lag_limit_s=0.05)

    assert mistakes_of(round_, arrivals, found, where="here") == []
    assert judge(plan, merged, _OBJECTIVES) == judge(plan, single, _OBJECTIVES)
    assert judge(plan, merged, _OBJECTIVES) == judge(plan, Run(records=records, health=single.health), _OBJECTIVES)
    assert (merged.records.grades["exact"] == records.grades["exact"]).all()


def test_what_is_missing_doubled_or_of_another_probe_is_named_all_at_once() -> None:
    arrivals = every(0.01, 40, kinds=20)
    round_ = round_of(plan_for(arrivals), arrivals, 4)
    zero, one, two, _ = shards_of(arrivals, recorded(arrivals), 4)
    strange = replace(one, report=replace(one.report, round="another"))
    short = replace(two, records=_every(two.records, 0, 2))

    found = " ".join(one.what for one in mistakes_of(round_, arrivals, [zero, zero, strange, short], where="here"))

    assert "shard 3 of 4 reported nothing: the load was not whole" in found
    assert "shard 0 is there twice" in found
    assert "shard 1 belongs to another, not to r" in found
    assert "shard 2 has 5 requests that are not its part of the schedule" in found


def test_a_file_that_was_torn_or_changed_is_an_error(tmp_path: Path) -> None:
    arrivals = every(0.01, 40, kinds=20)
    plan = plan_for(arrivals)
    for one in shards_of(arrivals, recorded(arrivals), 2):
        write_shard(tmp_path, one, plan, part_of(arrivals, one.report.index, 2))
    path = tmp_path / "shard-00001.parquet"
    path.write_bytes(path.read_bytes()[:-1])
    (tmp_path / "shard-00000.lags.parquet").unlink()

    with pytest.raises(SourceError) as raised:
        read_shards(tmp_path)

    assert len(raised.value.mistakes) == 2


def test_clocks_that_may_be_far_apart_make_a_probe_invalid() -> None:
    arrivals = every(0.01, 400, kinds=20)
    plan = replace(plan_for(arrivals), batch_ns=10**9, batches=4)
    shards = shards_of(arrivals, recorded(arrivals), 2)
    apart = [
        replace(shards[0], report=replace(report(0), seen_ms={1: 4_010})),
        replace(shards[1], report=replace(report(1), beat_ms=4_000, seen_ms={0: 4_020})),
    ]

    fine = run_of(round_of(plan, arrivals, 2), arrivals, shards, lag_limit_s=0.05)
    wrong = run_of(round_of(plan, arrivals, 2), arrivals, apart, lag_limit_s=0.05)
    ceiling = replace(plan, phase=Phase.CEILING)
    burst = run_of(round_of(ceiling, arrivals, 2), arrivals, apart, lag_limit_s=0.05)

    assert fine.health.valid
    assert not wrong.health.valid
    assert "the clocks of the shards may be 3.02 s apart (limit 0.10 s)" in wrong.health.why
    assert burst.health.valid, "a burst only says where to look"


def test_how_far_clocks_are_apart_is_bounded_from_both_sides() -> None:
    one = replace(report(0), seen_ms={1: 1_110})
    other = replace(report(1), beat_ms=1_100, seen_ms={0: 1_130})

    assert clock_spread_s([one, other]) == pytest.approx(0.13)
    assert clock_spread_s([one, replace(other, seen_ms={})]) is None
    kept = [replace(one, clock_error_s=0.004), replace(other, seen_ms={}, clock_error_s=0.005)]
    assert clock_spread_s(kept) == pytest.approx(0.009)
    assert clock_spread_s([one]) == 0.0


def test_shards_that_see_different_services_make_a_probe_invalid() -> None:
    arrivals = every(0.01, 40, kinds=20)
    shards = shards_of(arrivals, recorded(arrivals), 2)
    shards[1] = replace(shards[1], report=replace(shards[1].report, served=Served(version="2")))

    run = run_of(round_of(plan_for(arrivals), arrivals, 2), arrivals, shards, lag_limit_s=0.05)

    assert run.changed == "The shards saw services that differ: not all replicas are the same."


def test_several_workers_send_exactly_the_schedule_of_one() -> None:
    count = 240
    lines = prompts(*[f"[[tag:r{number}]]" for number in range(count)])
    arrivals = every(0.002, count)
    arrived: dict[int, dict[str, int]] = {}
    for workers in (1, 2, 4):
        with running_double(engine=EngineSettings(slots=500, step_s=0.001, output_tokens=2)) as server:
            orders = Orders(
                target=parse_target(server.url),
                spoken=Chat(),
                lines=lines,
                model="double",
                limits=PATIENT,
                workers=workers,
            )
            with LiveBench(orders) as bench:
                run = bench.run(plan_for(arrivals), arrivals)
                arrived[workers] = {row.tag: row.arrived_ns - bench.started_ns for row in server.double.log}
        assert (run.records.status == ResponseStatus.OK).all()
        assert (run.records.scheduled_ns == arrivals.scheduled_ns).all()

    for workers, seen in arrived.items():
        assert sorted(seen) == sorted(f"r{number}" for number in range(count)), f"{workers} workers: each once"
        early = [seen[f"r{number}"] - int(arrivals.scheduled_ns[number]) for number in range(count)]
        assert min(early) >= 0, "none before its time"
