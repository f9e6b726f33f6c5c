"""What Kueue counted of its queues: only the leader counts, counters begin at nothing, levels hold for five minutes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from gpuyield.collect.kueue.counts import ADMITTED, EVICTED, NAMES, PENDING, RESERVED, USED, WAIT, counts_of
from gpuyield.collect.prometheus import RawSeries
from gpuyield.model.exposition import samples_of
from gpuyield.model.kueue_counts import Level, QueueCounts
from gpuyield.units import HOUR_MS, MINUTE_MS, Window

DAY = Window(0, 24 * HOUR_MS)
BEAT = MINUTE_MS


def series(
    values: Sequence[float], *, since_ms: int = 0, beat_ms: int = BEAT, role: str = "leader", **labels: str
) -> RawSeries:
    """Samples of queue `main`, one a beat."""
    target = {"job": "kueue", "instance": labels.pop("instance", "a")}
    times = since_ms + beat_ms * np.arange(len(values), dtype=np.int64)
    of = {"cluster_queue": "main", "replica_role": role, **target, **labels}
    return RawSeries(labels=of, ts_ms=times, values=np.array(values, dtype=np.float64))


def counted(found: Mapping[str, Sequence[RawSeries]], window: Window = DAY) -> QueueCounts:
    (only,) = counts_of(found, window).queues
    return only


def level(found: Mapping[str, Sequence[RawSeries]], window: Window = DAY) -> Level:
    waiting = counted(found, window).waiting
    assert waiting is not None
    return waiting


def test_waiting_is_active_and_inadmissible_together_over_the_time_that_is_known() -> None:
    hours = 24 * 60
    active = series([4] * hours, status="active")
    stuck = series([0] * (hours // 2) + [10] * (hours // 2), status="inadmissible")

    found = level({PENDING: [active, stuck]})

    assert (found.now, found.mean, found.most) == (14, 9, 14)
    assert (found.first, found.last, found.known) == (4, 14, 1.0)


def test_a_level_that_was_not_scraped_is_unknown_and_not_nothing() -> None:
    found = level({PENDING: [series([6] * 60, status="active")]})

    assert (found.mean, found.most) == (6, 6)
    assert (found.now, found.first, found.last) == (None, None, None), "of the first quarter an hour is too little"
    assert found.known == pytest.approx(64 / (24 * 60), abs=1 / (24 * 60))


def test_what_is_no_number_is_no_sample() -> None:
    nan = float("nan")

    found = counted({PENDING: [series([nan, 3, nan], status="active")], ADMITTED: [series([1, nan, 4]), series([nan])]})

    assert found.waiting is not None
    assert (found.waiting.mean, found.admitted) == (3, 3)


def test_counters_of_which_nothing_is_there_are_unknown_and_not_nothing() -> None:
    pending = series([1, 1], status="active")
    of_a_follower = series([5, 6], role="follower")

    for there in ([], [of_a_follower]):
        found = counted({PENDING: [pending], ADMITTED: there, EVICTED: []})
        assert (found.admitted, found.evicted) == (None, None)


def test_it_is_told_of_how_much_of_the_window_kueue_was_heard() -> None:
    half = series([1] * 720, status="active")

    assert counts_of({PENDING: [half]}, DAY).known == pytest.approx(0.5, abs=0.01)
    assert counts_of({ADMITTED: [series([1, 2], role="follower")]}, DAY).known == 0


def test_followers_do_not_count_and_a_new_leader_goes_on() -> None:
    old = series([5] * 720, status="active", instance="a")
    idle = series([0] * 720, status="active", instance="b", role="follower")
    new = series([7] * 720, since_ms=12 * HOUR_MS, status="active", instance="b")

    found = level({PENDING: [old, idle, new]})

    assert (found.first, found.last, found.most) == (5, 7, 7)
    assert found.mean == pytest.approx(6, abs=0.02)


def test_a_counter_that_appears_at_a_target_that_was_scraped_before_began_at_nothing() -> None:
    pending = series([1] * 100, status="active")
    born = series([3, 3, 5], since_ms=50 * BEAT)
    old = series([100, 101, 104])

    assert counted({PENDING: [pending], ADMITTED: [born]}).admitted == 5
    assert counted({PENDING: [pending], ADMITTED: [old]}).admitted == 4


def test_a_counter_that_fell_began_anew_and_what_a_promoted_replica_counted_before_stays_out() -> None:
    restarted = series([8, 9, 1, 2], reason="Preempted")
    before = series([50, 60], role="follower", reason="Preempted", instance="b")
    after = series([2, 3], since_ms=10 * BEAT, reason="PodsReadyTimeout", instance="b")

    assert counted({EVICTED: [restarted, before, after]}).evicted == {"Preempted": 3, "PodsReadyTimeout": 3}


def test_gpus_are_summed_over_flavors_and_other_resources_stay_out() -> None:
    gpu, other = "nvidia.com/gpu", "cpu"
    found = counted(
        {
            RESERVED: [
                series([4] * 1440, flavor="h100", resource=gpu),
                series([2] * 1440, flavor="a100", resource=gpu),
                series([64] * 1440, flavor="h100", resource=other),
            ],
            USED: [series([3] * 1440, flavor="h100", resource=gpu)],
        }
    )

    assert found.reserved_gpus is not None
    assert found.used_gpus is not None
    assert (found.reserved_gpus.mean, found.used_gpus.mean) == (6, 3)
    assert found.waiting is None
    assert found.admitted is None
    assert found.evicted is None


def test_nothing_was_stopped_where_a_counter_of_stops_has_no_series() -> None:
    assert counted({ADMITTED: [series([1, 2])]}).evicted == {}


def test_waits_are_bounded_by_the_edges_of_their_buckets() -> None:
    edges = {"60": 5.0, "600": 9.0, "3600": 9.0, "+Inf": 10.0}
    found = counted(
        {
            f"{WAIT}_bucket": [series([0, number], le=edge, priority_class="") for edge, number in edges.items()],
            f"{WAIT}_sum": [series([0, 9000], priority_class="")],
            f"{WAIT}_count": [series([0, 10], priority_class="")],
        }
    ).waits

    assert found is not None
    assert (found.n, found.mean_s, found.p50_at_most_s, found.p90_at_most_s) == (10, 900, 60, 600)


def test_waits_beyond_the_last_edge_have_no_bound_and_none_has_no_mean() -> None:
    def waits(numbers: Mapping[str, float], count: float) -> tuple[object, ...]:
        parts = [series([0, number], le=edge) for edge, number in numbers.items()]
        its = counted(
            {f"{WAIT}_bucket": parts, f"{WAIT}_sum": [series([0, 50])], f"{WAIT}_count": [series([0, count])]}
        )
        assert its.waits is not None
        return its.waits.n, its.waits.mean_s, its.waits.p50_at_most_s, its.waits.p90_at_most_s

    assert waits({"60": 1, "+Inf": 4}, 4) == (4, 12.5, None, None)
    assert waits({"60": 0, "+Inf": 0}, 0) == (0, None, None, None)


@pytest.mark.parametrize("recorded", ["kueue-0.18.0-promoted-leader.prom", "kueue-2026-follower.prom"])
def test_recorded_pages_are_read_and_a_follower_tells_nothing(shared_data: Path, recorded: str) -> None:
    page = (shared_data / "telemetry" / recorded).read_text()
    found: dict[str, list[RawSeries]] = {name: [] for name in NAMES}
    for one in samples_of(page):
        if one.name in found:
            labels = {**one.labels, "job": "kueue", "instance": "a"}
            found[one.name].append(RawSeries(labels=labels, ts_ms=np.array([0]), values=np.array([one.value])))

    queues = {one.queue: one for one in counts_of(found, Window(0, MINUTE_MS)).queues}

    if "follower" in recorded:
        assert queues == {}
    else:
        main = queues["cluster-queue"]
        assert main.waiting is not None
        assert main.reserved_gpus is not None
        assert set(queues) == {"borrow-queue", "cluster-queue", "invalid-queue", "preempt-queue"}
