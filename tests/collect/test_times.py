"""Times that sources get wrong, series that change their labels, series of one sample: right numbers or a gap."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from collect.conftest import Collector, minutes
from doubles.answers import Asked, Said, answering
from doubles.exposition_text import series, steady
from doubles.small_cluster import POD, busy_cluster, card, node, pod
from gpuyield.account import account, summarise
from gpuyield.demo.api import serving
from gpuyield.demo.exposition import Series
from gpuyield.errors import SourceError
from gpuyield.ledger import Ledger
from gpuyield.ledger.tables import RUNS, SAMPLES, SCRAPES
from gpuyield.units import DAY_MS, HOUR_MS, MINUTE_MS, Window, parse_instant

START_MS = parse_instant("2026-11-10T00:00:00Z")
DAY = Window(START_MS, START_MS + DAY_MS)
TIMES = minutes(START_MS, START_MS + 4 * HOUR_MS)
WINDOW = Window(START_MS, START_MS + 4 * HOUR_MS)


def figures(ledger: Ledger, window: Window = WINDOW) -> dict[str, int]:
    """GPU time of each leaf that has any."""
    leaves = summarise(account(ledger, window=window)).waterfall.leaves
    return {leaf.gpu_class.value: leaf.gpu_ms for leaf in leaves if leaf.gpu_ms}


def under(one: Series, **labels: str) -> Series:
    """A series under other labels besides its own."""
    return Series({**one.labels, **labels}, one.times_ms, one.values)


def only(found: Sequence[Series], times_ms: Sequence[int]) -> list[Series]:
    """The samples of series at some times alone."""
    kept = set(times_ms)
    pairs = [
        (one, [(at, value) for at, value in zip(one.times_ms.tolist(), one.values.tolist(), strict=True)])
        for one in found
    ]
    return [series(one.labels, [pair for pair in samples if pair[0] in kept]) for one, samples in pairs]


def test_each_moment_at_which_the_state_was_sampled_is_kept_once_by_target(
    ledger: Ledger, collected: Collector
) -> None:
    other = [at + 7_000 for at in TIMES]
    found = [under(one, instance="ksm-0:8080") for one in node(TIMES)]
    found += [under(one, instance="ksm-1:8080") for one in (*node(other), *pod(other))]
    with serving(found) as url:
        collected(url, ledger, DAY)
        digest = ledger.digest()
        collected(url, ledger, DAY, refresh=True)

    rows = ledger.read(SCRAPES)
    assert Counter(rows["target"].tolist()) == {"ksm-0:8080": len(TIMES), "ksm-1:8080": len(TIMES)}
    assert sorted(rows["ts_ms"].tolist()) == sorted([*TIMES, *other])
    assert ledger.digest() == digest


def test_samples_of_the_future_wait_until_their_time_has_come(
    tmp_path: Path, ledger: Ledger, collected: Collector
) -> None:
    """The source's clock is two hours ahead of ours."""
    at_once = Ledger.create(tmp_path / "at-once")
    now_ms = START_MS + 2 * HOUR_MS
    with serving(busy_cluster(TIMES)) as url:
        collected(url, ledger, Window(START_MS, now_ms), now_ms=now_ms)
        early = max(ledger.read(SAMPLES)["ts_ms"].tolist())
        collected(url, ledger, DAY)
        collected(url, at_once, DAY)

    assert early < now_ms
    assert ledger.digest() == at_once.digest()


@pytest.mark.parametrize("overlap", [0, 5], ids=["at once", "both for five minutes"])
def test_series_that_get_other_labels_in_the_middle_are_the_same_things(
    overlap: int, tmp_path: Path, ledger: Ledger, collected: Collector
) -> None:
    """A new exporter: another address, another version, a label more."""
    plain = Ledger.create(tmp_path / "plain")
    everything = busy_cluster(TIMES)
    half = len(TIMES) // 2
    before = [under(one, instance="10.0.0.1:9") for one in only(everything, TIMES[: half + overlap])]
    after = [
        under(one, instance="10.0.0.2:9", DCGM_FI_DRIVER_VERSION="580.1", service="new")
        for one in only(everything, TIMES[half:])
    ]
    with serving(everything) as url:
        collected(url, plain, DAY)
    with serving([*before, *after]) as url:
        collected(url, ledger, DAY)

    assert figures(ledger) == figures(plain)
    assert len(ledger.read(RUNS)["kind"]) == len(plain.read(RUNS)["kind"])


def test_a_single_scrape_tells_of_one_interval_and_the_rest_is_a_gap(ledger: Ledger, collected: Collector) -> None:
    with serving(busy_cluster([START_MS + HOUR_MS])) as url:
        collected(url, ledger, DAY)
    found = summarise(account(ledger, window=WINDOW))

    assert found.waterfall.capacity_gpu_ms == 2 * MINUTE_MS
    assert any("silent" in gap.reason for gap in found.gaps)


def test_a_card_of_one_sample_holds_as_long_as_its_metrics_other_series_do(
    ledger: Ledger, collected: Collector
) -> None:
    times = minutes(START_MS, START_MS + 4 * HOUR_MS, 30_000)
    cards = [card((at, 50) for at in times), card([(START_MS + HOUR_MS, 50)], uuid="GPU-2", gpu="1")]
    held = [{**POD, "pod": f"train-{number}", "uid": f"u-{number}"} for number in (0, 1)]
    named = [under(one, pod=str(its["pod"]), namespace="team-a") for one, its in zip(cards, held, strict=True)]
    with serving(
        [*node(times), *(one for labels in held for one in pod(times, pod=labels["pod"], uid=labels["uid"])), *named]
    ) as url:
        collected(url, ledger, DAY)
    found = figures(ledger)

    assert found["unjudged.unverified"] == 2 * HOUR_MS + 15_000
    assert found["unobserved"] == 4 * HOUR_MS - 30_000


def capacity_double(samples: str) -> Callable[[Asked], Said]:
    """A server that has the capacity of one node alone, with these samples as they are on the wire."""
    metric = '{"__name__":"kube_node_status_capacity","node":"node-a","resource":"nvidia_com_gpu"}'

    def answer(asked: Asked) -> Said:
        if asked.path.endswith("/buildinfo"):
            return Said(body=b'{"status":"success","data":{"version":"2.42.0"}}')
        if not asked.path.endswith("/query"):
            return Said(body=b'{"status":"success","data":["kube_node_status_capacity"]}')
        mine = asked.fields["query"].startswith("kube_node_status_capacity{")
        rows = f'[{{"metric":{metric},"values":[{samples}]}}]' if mine else "[]"
        return Said(body=f'{{"status":"success","data":{{"resultType":"matrix","result":{rows}}}}}'.encode())

    return answer


def test_a_series_without_any_sample_is_as_if_it_were_not_there(ledger: Ledger, collected: Collector) -> None:
    with answering(capacity_double("")) as talk:
        report = collected(talk.url, ledger, DAY)

    assert len(ledger.read(RUNS)["kind"]) == 0
    assert report.gaps


@pytest.mark.parametrize("wrong", ["1e300", "-1e300", "-62135596800", "253402300800", "0"])
def test_a_sample_at_an_impossible_time_is_left_out(wrong: str, ledger: Ledger, collected: Collector) -> None:
    good = ",".join(f'[{at // 1000},"2"]' for at in TIMES)

    with answering(capacity_double(f'[{wrong},"9"],{good}')) as talk:
        collected(talk.url, ledger, DAY)

    rows = ledger.read(RUNS)
    assert set(rows["value"].tolist()) == {2.0}
    assert (min(rows["from_ms"]), max(rows["to_ms"])) == (TIMES[0], TIMES[-1])


def test_a_sample_whose_time_is_no_number_is_refused(ledger: Ledger, collected: Collector) -> None:
    with answering(capacity_double('[NaN,"9"]')) as talk, pytest.raises(SourceError) as caught:
        collected(talk.url, ledger, DAY)

    assert caught.value.exit_code == 3
    assert ledger.days(RUNS) == []


@pytest.mark.parametrize("seconds", [0.0, -1.0, 1e30, 253_402_300_800.0, START_MS / 1000 + 30 * 86_400])
def test_printed_times_that_cannot_be_true_change_no_figure(
    seconds: float, tmp_path: Path, ledger: Ledger, collected: Collector
) -> None:
    plain = Ledger.create(tmp_path / "plain")
    listed = TIMES[30:90]
    base = [*node(TIMES), *(one for one in pod(listed) if one.labels["__name__"] != "kube_pod_created")]
    names = ("kube_pod_created", "kube_pod_status_scheduled_time", "kube_pod_start_time", "kube_pod_completion_time")
    absurd = [steady(name, seconds, listed, **POD) for name in (*names, "kube_pod_container_state_started")]
    with serving(base) as url:
        collected(url, plain, DAY)
    with serving([*base, *absurd]) as url:
        collected(url, ledger, DAY)

    assert figures(ledger) == figures(plain)
    assert figures(plain)["unobserved"] == 60 * MINUTE_MS
