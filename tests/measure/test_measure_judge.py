"""What each metric is, and what counts as a miss, on records small enough to be worked out by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal

import numpy as np
import pytest

from gpuyield.errors import DeclarationError, EvidenceError
from gpuyield.measure.judge import judge
from gpuyield.measure.objectives import marks, seconds_of
from gpuyield.model.declaration import Metric, Objective
from gpuyield.model.measure import (
    SECOND_NS,
    Grade,
    Phase,
    Probe,
    ProbePlan,
    ProbeStatus,
    Records,
    ResponseStatus,
    Run,
    SenderHealth,
)

MS = 1_000_000
OK = ResponseStatus.OK


def records(*rows: dict[str, int], grades: Mapping[str, Sequence[int]] | None = None) -> Records:
    """Rows in ms; what is not said did not happen, and sending was punctual."""

    def column(name: str, unit: int = MS) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        return np.array([row[name] * unit if name in row else -1 for row in rows], np.int64)

    scheduled = column("at")
    return Records(
        scheduled_ns=scheduled,
        sent_ns=np.where(column("sent") >= 0, column("sent"), scheduled),
        first_ns=column("first"),
        last_ns=column("last"),
        end_ns=column("end"),
        output_tokens=column("tokens", 1),
        input_tokens=np.full(len(rows), -1, np.int64),
        reads=np.array([row.get("reads", 0) for row in rows], np.int64),
        gap_max_ns=column("gap"),
        status=np.array([row.get("status", OK) for row in rows], np.int8),
        grades={name: np.array(one, np.int8) for name, one in (grades or {}).items()},
    )


def within(metric: Metric, limit_ms: int) -> Objective:
    return Objective(name=str(metric), metric=metric, at_most_us=limit_ms * 1000, share=Decimal("0.9"))


def test_latencies_count_from_the_scheduled_time() -> None:
    late = records(
        {"at": 100, "sent": 400, "first": 500, "last": 900, "end": 1_000, "tokens": 5, "reads": 5, "gap": 250}
    )

    found = [seconds_of(one, late)[0] for one in (Metric.TTFT, Metric.E2E, Metric.TPOT, Metric.ITL)]

    assert found == pytest.approx([0.4, 0.9, 0.1, 0.25])


def test_reads_stand_in_for_tokens_that_the_server_does_not_tell() -> None:
    silent = records({"at": 0, "first": 100, "last": 500, "end": 500, "reads": 3})

    assert seconds_of(Metric.TPOT, silent)[0] == pytest.approx(0.2)


def test_one_token_has_no_time_between_tokens_and_misses_no_limit_on_it() -> None:
    single = records({"at": 0, "first": 900, "last": 900, "end": 900, "tokens": 1, "reads": 1})

    assert np.isnan(seconds_of(Metric.TPOT, single)[0])
    for metric in (Metric.TPOT, Metric.ITL):
        assert not marks(within(metric, 1), single, give_up_ns=SECOND_NS).missed[0]


@pytest.mark.parametrize("metric", [Metric.TPOT, Metric.ITL])
def test_several_tokens_in_one_read_hide_the_time_between_them_and_miss_every_limit_on_it(metric: Metric) -> None:
    held_back = {"at": 0, "first": 900, "last": 900, "end": 900, "reads": 1}
    found = records(held_back | {"tokens": 50}, held_back, held_back | {"tokens": 1})

    assert np.isnan(seconds_of(metric, found)).all(), "unknown, and not 0"
    assert marks(within(metric, 60_000), found, give_up_ns=SECOND_NS).missed.tolist() == [True, True, False]


def test_a_count_of_one_token_beside_several_reads_does_not_excuse_from_a_limit() -> None:
    found = records({"at": 0, "first": 100, "last": 900, "end": 900, "tokens": 1, "reads": 5, "gap": 700})

    assert seconds_of(Metric.TPOT, found)[0] == pytest.approx(0.2)
    assert marks(within(Metric.TPOT, 100), found, give_up_ns=SECOND_NS).missed[0]


@pytest.mark.parametrize("status", [one for one in ResponseStatus if one not in (OK, ResponseStatus.IN_FLIGHT)])
@pytest.mark.parametrize("metric", [Metric.TTFT, Metric.TPOT, Metric.ITL, Metric.E2E])
def test_what_failed_fast_is_a_miss_of_every_objective(status: ResponseStatus, metric: Metric) -> None:
    failed = records(
        {"at": 0, "first": 1, "last": 2, "end": 2, "tokens": 2, "gap": 1, "status": status},
        grades={"exact": [Grade.UNGRADED]},
    )
    answered = Objective(name="answered", metric=Metric.ERROR, share=Decimal("0.9"))
    exact = Objective(name="exact", check="exact", share=Decimal("0.9"))

    found = [marks(one, failed, give_up_ns=SECOND_NS) for one in (within(metric, 1_000), answered, exact)]

    assert [bool(one.missed[0]) for one in found] == [True, True, True]
    assert not any(one.pending[0] for one in found)


def test_what_is_still_running_is_a_miss_over_its_limit_and_open_below_it() -> None:
    running = ResponseStatus.IN_FLIGHT
    found = records(
        {"at": 0, "status": running},
        {"at": 900, "status": running},
        {"at": 0, "first": 200, "status": running},
        {"at": 0, "first": 700, "status": running},
    )

    ttft = marks(within(Metric.TTFT, 500), found, give_up_ns=SECOND_NS)
    e2e = marks(within(Metric.E2E, 500), found, give_up_ns=SECOND_NS)
    tpot = marks(within(Metric.TPOT, 500), found, give_up_ns=SECOND_NS)

    assert (ttft.missed.tolist(), ttft.pending.tolist()) == ([True, False, False, True], [False, True, False, False])
    assert (e2e.missed.tolist(), e2e.pending.tolist()) == ([True, False, True, True], [False, True, False, False])
    assert (tpot.missed.tolist(), tpot.pending.tolist()) == ([False] * 4, [True] * 4)


def test_only_a_good_answer_meets_a_check() -> None:
    row = {"at": 0, "first": 1, "last": 1, "end": 1, "tokens": 1}
    found = records(row, row, row, grades={"exact": [Grade.GOOD, Grade.BAD, Grade.UNGRADED]})
    exact = Objective(name="exact", check="exact", share=Decimal("0.9"))

    assert marks(exact, found, give_up_ns=1).missed.tolist() == [False, True, True]
    with pytest.raises(EvidenceError, match="nothing graded"):
        marks(Objective(name="x", check="other", share=Decimal("0.9")), found, give_up_ns=1)


def test_the_queue_of_the_server_cannot_be_seen_from_outside() -> None:
    with pytest.raises(DeclarationError, match="no latency that a client can measure"):
        marks(within(Metric.QUEUE, 1), records({"at": 0}), give_up_ns=1)


def plan(batches: int = 10) -> ProbePlan:
    return ProbePlan(
        number=3,
        phase=Phase.CONFIRM,
        seed=1,
        rate_rps=10,
        warmup_ns=SECOND_NS,
        batch_ns=SECOND_NS,
        batches=batches,
        runout_ns=SECOND_NS,
        drain_ns=SECOND_NS,
    )


def steady(slow: set[int]) -> Records:
    """Ten a second for twelve seconds; those of `slow` (by number) take 800 ms to their first token, others 100."""
    rows = []
    for number in range(120):
        at = number * 100
        first = at + (800 if number in slow else 100)
        rows.append({"at": at, "first": first, "last": first + 50, "end": first + 50, "tokens": 6, "gap": 10})
    return records(*rows)


def test_only_requests_of_the_measured_span_are_counted_each_in_the_batch_of_its_scheduled_time() -> None:
    probe = judge(plan(), Run(records=steady({0, 5, 10, 11, 55, 119})), [within(Metric.TTFT, 500)])

    tally = probe.tallies[0]
    assert tally.attempts == (10,) * 10
    assert tally.misses == (2, 0, 0, 0, 1, 0, 0, 0, 0, 0)
    assert (probe.requests, probe.completed, probe.failed, probe.good, probe.sent) == (100, 100, 0, 97, 120)
    assert probe.latencies["ttft"].p50 == pytest.approx(0.1)
    assert probe.latencies["ttft"].p99 == pytest.approx(0.8)
    assert probe.e2e_mean_s == pytest.approx(0.15 + 3 * 0.7 / 100)


def test_a_kept_objective_passes_a_broken_one_fails_and_a_starved_sender_says_nothing() -> None:
    lenient = Objective(name="ttft", metric=Metric.TTFT, at_most_us=500_000, share=Decimal("0.5"))
    starved = SenderHealth(valid=False, why="give the sender a core of its own")

    kept = judge(plan(), Run(records=steady({10})), [lenient])
    broken = judge(plan(), Run(records=steady(set(range(120)))), [lenient])
    invalid = judge(plan(), Run(records=steady({10}), health=starved), [lenient])
    changed = judge(plan(), Run(records=steady({10}), changed="the model changed"), [lenient])

    assert [one.status for one in (kept, broken)] == [ProbeStatus.PASS, ProbeStatus.FAIL]
    assert (invalid.status, invalid.reason) == (ProbeStatus.INVALID, "give the sender a core of its own")
    assert (changed.status, changed.reason) == (ProbeStatus.INVALID, "the model changed")


def test_a_check_passes_only_when_the_lower_bound_of_the_good_share_reaches_what_is_asked_for() -> None:
    objective = Objective(name="exact", check="exact", share=Decimal("0.9"))

    def judged(good_of_ten: int, batches: int) -> Probe:
        """Evenly good: that many of each ten, one batch."""
        count = 10 * batches
        times = range(1000, 1000 + count * 100, 100)
        rows = [{"at": at, "first": at + 5, "last": at + 5, "end": at + 5, "tokens": 1} for at in times]
        grades = [Grade.GOOD if at % 10 < good_of_ten else Grade.BAD for at in range(count)]
        return judge(plan(batches), Run(records=records(*rows, grades={"exact": grades})), [objective])

    few, many, at_the_limit, bad = judged(10, 15), judged(10, 60), judged(9, 60), judged(7, 60)

    assert [1 - one.tallies[0].bounds.hi >= 0.9 for one in (few, many, at_the_limit, bad)] == [True, True, False, False]
    assert [one.status for one in (many, at_the_limit, bad)] == [
        ProbeStatus.PASS,
        ProbeStatus.UNDECIDED,
        ProbeStatus.FAIL,
    ]


def test_a_backlog_that_grows_fails_a_probe_whose_latencies_are_still_good() -> None:
    rows = []
    for number in range(120):
        at, taken = number * 100, 100 + number * 60
        rows.append({"at": at, "first": at + 50, "last": at + taken, "end": at + taken, "tokens": 2, "gap": 1})

    probe = judge(plan(), Run(records=records(*rows)), [within(Metric.TTFT, 500)])

    assert probe.backlog.grows
    assert probe.backlog.slope > 1
    assert (probe.status, probe.reason) == (ProbeStatus.FAIL, "the backlog grows")
