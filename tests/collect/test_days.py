"""The unit of work is the UTC day; whatever happens on the way, the ledger is the same."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from collect.conftest import Collector, minutes
from doubles.answers import Asked, Said, answering
from doubles.exposition_text import steady
from doubles.small_cluster import busy_cluster, card, node
from gpuyield.collect.days import coverage
from gpuyield.collect.prometheus import Prometheus
from gpuyield.demo.api import TimeSeriesStore, query_answer, serving
from gpuyield.demo.exposition import Series
from gpuyield.demo.selector import SelectorError
from gpuyield.errors import SourceError
from gpuyield.ledger import Ledger
from gpuyield.ledger.tables import COVERAGE, RUNS, SAMPLES, SERIES
from gpuyield.units import DAY_MS, HOUR_MS, MINUTE_MS, Window, day_window, parse_instant

START_MS = parse_instant("2026-11-10T00:00:00Z")
TWO_DAYS = Window(START_MS, START_MS + 2 * DAY_MS)
EVERY_5_MIN = 5 * MINUTE_MS


def two_days(step_ms: int = EVERY_5_MIN) -> list[Series]:
    return busy_cluster(minutes(TWO_DAYS.from_ms, TWO_DAYS.to_ms, step_ms))


def sample_times(ledger: Ledger) -> list[int]:
    return sorted({int(at) for at in ledger.read(SAMPLES)["ts_ms"]})


def test_exactly_the_samples_of_the_half_open_window_are_read(ledger: Ledger, collected: Collector) -> None:
    day = day_window("2026-11-10")
    with serving(busy_cluster(minutes(day.from_ms - HOUR_MS, day.to_ms + HOUR_MS))) as url:
        collected(url, ledger, day)

    assert sample_times(ledger) == list(minutes(day.from_ms - EVERY_5_MIN, day.to_ms))


def test_a_percentage_is_kept_as_a_ratio_under_one_name(ledger: Ledger, collected: Collector) -> None:
    with serving(two_days()) as url:
        collected(url, ledger, TWO_DAYS)
    series = ledger.read(SERIES, days=["2026-11-10"])
    samples = ledger.read(SAMPLES, days=["2026-11-10"])

    busy = series["series"][list(series["card"]).index("GPU-1")]
    mine = samples["series"] == busy
    expected = [(at // MINUTE_MS % 101) / 100 for at in samples["ts_ms"][mine].tolist()]
    assert samples["value"][mine].tolist() == expected
    assert sorted(zip(series["card"], series["metric"], series["node"], series["pod"], strict=True)) == [
        ("GPU-1", "gpu_util", "node-a", "train-0"),
        ("GPU-2", "gpu_util", "node-a", ""),
    ]


@pytest.mark.parametrize("chunk_ms", [6 * HOUR_MS, HOUR_MS, 1_000_000])
def test_the_size_of_the_pieces_changes_nothing(
    chunk_ms: int, tmp_path: Path, ledger: Ledger, collected: Collector
) -> None:
    in_pieces = Ledger.create(tmp_path / "pieces")
    window = Window(START_MS, START_MS + DAY_MS)
    with serving(two_days(10 * MINUTE_MS)) as url:
        collected(url, ledger, window)
        collected(url, in_pieces, window, chunk_ms=chunk_ms)

    assert in_pieces.digest() == ledger.digest()


def test_a_complete_day_is_not_read_again(ledger: Ledger, collected: Collector) -> None:
    with serving(two_days()) as url:
        first = collected(url, ledger, TWO_DAYS)
        digest = ledger.digest()
        again = collected(url, ledger, TWO_DAYS)

    assert first.days_read == ("2026-11-10", "2026-11-11")
    assert (again.days_read, again.days_known) == ((), ("2026-11-10", "2026-11-11"))
    assert ledger.digest() == digest


def test_reading_again_on_purpose_changes_nothing(ledger: Ledger, collected: Collector) -> None:
    with serving(two_days()) as url:
        collected(url, ledger, TWO_DAYS)
        digest = ledger.digest()
        again = collected(url, ledger, TWO_DAYS, refresh=True)

    assert again.days_read == ("2026-11-10", "2026-11-11")
    assert ledger.digest() == digest


def test_the_current_day_is_read_up_to_now_and_then_to_its_end(
    tmp_path: Path, ledger: Ledger, collected: Collector
) -> None:
    at_once = Ledger.create(tmp_path / "at-once")
    with serving(two_days()) as url:
        for hour in (5, 9, 30, 49):
            now_ms = START_MS + hour * HOUR_MS
            collected(url, ledger, Window(START_MS, min(now_ms, TWO_DAYS.to_ms)), now_ms=now_ms)
        collected(url, at_once, TWO_DAYS)

    assert ledger.digest() == at_once.digest()


def test_the_newest_time_is_left_for_the_next_time(ledger: Ledger, collected: Collector) -> None:
    now_ms = START_MS + 5 * HOUR_MS
    with serving(two_days(MINUTE_MS)) as url:
        collected(url, ledger, Window(START_MS, now_ms), now_ms=now_ms)

    rows = ledger.read(COVERAGE)
    assert (rows["to_ms"].tolist(), rows["complete"].tolist()) == ([now_ms - 90_000], [False])
    assert max(sample_times(ledger)) == now_ms - 2 * MINUTE_MS


def test_what_the_source_has_forgotten_stays_in_the_ledger(ledger: Ledger, collected: Collector) -> None:
    """Read at 20:00; read again when retention has cut the day's morning off."""
    window, now_ms = Window(START_MS, START_MS + DAY_MS), START_MS + 20 * HOUR_MS
    everything = minutes(START_MS, START_MS + DAY_MS, EVERY_5_MIN)
    with serving(busy_cluster(everything)) as url:
        collected(url, ledger, Window(START_MS, now_ms), now_ms=now_ms)
    with serving(busy_cluster([at for at in everything if at >= START_MS + 15 * HOUR_MS])) as url:
        collected(url, ledger, window)

    assert sample_times(ledger) == list(everything)
    runs = ledger.read(RUNS)
    spans = {kind: (low, high) for kind, low, high in zip(runs["kind"], runs["from_ms"], runs["to_ms"], strict=True)}
    assert set(spans.values()) == {(START_MS, START_MS + DAY_MS - EVERY_5_MIN)}
    assert [one.window for one in coverage(ledger, "prometheus", ["2026-11-10"])] == [window]


def test_a_series_that_was_taken_for_another_does_not_stay(
    tmp_path: Path, ledger: Ledger, collected: Collector
) -> None:
    """In the morning nothing told that the pod is the exporter's; in the evening the same target renames labels."""
    fresh, window, noon_ms = Ledger.create(tmp_path / "fresh"), day_window("2026-11-10"), START_MS + 12 * HOUR_MS
    times = minutes(window.from_ms, window.to_ms, EVERY_5_MIN)
    target = {"job": "gpu", "instance": "192.0.2.1:9400", "namespace": "monitoring", "pod": "metrics-aaaaa"}
    made = [
        *node(times),
        card(((at, 50) for at in times), **target),
        card(((at, 90) for at in times if at > noon_ms), uuid="GPU-2", **target, exported_pod="train-0"),
    ]
    with serving(made) as url:
        collected(url, ledger, Window(START_MS, noon_ms), now_ms=noon_ms)
        morning = set(ledger.read(SERIES)["pod"])
        collected(url, ledger, window)
        collected(url, fresh, window)

    assert morning == {"metrics-aaaaa"}
    assert ledger.digest() == fresh.digest()


def test_before_the_first_day_the_gap_limit_is_read_too(ledger: Ledger, collected: Collector) -> None:
    second = day_window("2026-11-11")
    with serving(two_days(MINUTE_MS)) as url:
        collected(url, ledger, second)
        lead = coverage(ledger, "prometheus", ["2026-11-10"])
        collected(url, ledger, TWO_DAYS)

    assert [(one.window, one.complete) for one in lead] == [(Window(second.from_ms - 300_000, second.from_ms), False)]
    assert [one.complete for one in coverage(ledger, "prometheus", ["2026-11-10"])] == [True]


def test_days_in_any_order_make_the_same_ledger(tmp_path: Path, ledger: Ledger, collected: Collector) -> None:
    backwards = Ledger.create(tmp_path / "backwards")
    with serving(two_days()) as url:
        collected(url, ledger, TWO_DAYS)
        collected(url, backwards, day_window("2026-11-11"))
        collected(url, backwards, day_window("2026-11-10"))

    assert backwards.digest() == ledger.digest()


def test_another_gap_limit_is_another_reading(tmp_path: Path, ledger: Ledger, collected: Collector) -> None:
    fresh = Ledger.create(tmp_path / "fresh")
    with serving(two_days(10 * MINUTE_MS)) as url:
        collected(url, ledger, TWO_DAYS, gap_limit_ms=20 * MINUTE_MS)
        collected(url, ledger, TWO_DAYS, gap_limit_ms=5 * MINUTE_MS)
        collected(url, fresh, TWO_DAYS, gap_limit_ms=5 * MINUTE_MS)

    # The longer lead-in of the first reading stays, and it is before the first sample.
    assert ledger.digest() == fresh.digest()


def test_a_day_without_a_sample_is_covered_when_days_before_it_are(ledger: Ledger, collected: Collector) -> None:
    three = Window(START_MS, START_MS + 3 * DAY_MS)
    silent = day_window("2026-11-11")
    times = [at for at in minutes(three.from_ms, three.to_ms, EVERY_5_MIN) if not silent.from_ms <= at < silent.to_ms]
    with serving(busy_cluster(times)) as url:
        collected(url, ledger, three)

    rows = ledger.read(COVERAGE, columns=["date", "from_ms", "complete"])
    assert rows["date"].tolist() == ["2026-11-10", "2026-11-11", "2026-11-12"]
    assert rows["complete"].all()


def test_before_the_first_sample_nothing_is_covered(ledger: Ledger, collected: Collector) -> None:
    first_ms = START_MS + DAY_MS + 7 * HOUR_MS
    with serving(busy_cluster(minutes(first_ms, TWO_DAYS.to_ms, EVERY_5_MIN))) as url:
        report = collected(url, ledger, TWO_DAYS)

    assert [one.window for one in coverage(ledger, "prometheus", TWO_DAYS.days())] == [Window(first_ms, TWO_DAYS.to_ms)]
    assert report.gaps[0].reason == (
        "Asked for 2 d, Prometheus has 17 h. Using those; a weekly rhythm cannot be seen."
        " Collect daily: a full answer is possible from 13 Nov."
    )


def test_an_empty_prometheus_is_a_gap_and_no_error(ledger: Ledger, collected: Collector) -> None:
    with serving([steady("up", 1, minutes(*_span(TWO_DAYS)))]) as url:
        report = collected(url, ledger, TWO_DAYS)

    assert len(report.gaps) == 1
    assert report.gaps[0].reason.startswith("Nothing of this cluster in the last 2 d")
    assert ledger.days(COVERAGE) == []


def test_no_activity_metric_is_a_gap_that_names_what_was_looked_for(ledger: Ledger, collected: Collector) -> None:
    with serving([one for one in two_days() if not one.labels["__name__"].startswith("DCGM")]) as url:
        report = collected(url, ledger, TWO_DAYS)

    assert [gap.reason for gap in report.gaps] == [
        (
            "No activity metric in the last 2 d (looked for DCGM_FI_PROF_SM_ACTIVE, DCGM_FI_PROF_GR_ENGINE_ACTIVE,"
            " DCGM_FI_DEV_GPU_UTIL and their newer names). Allocated GPU time is shown, all of it unobserved."
            " Install dcgm-exporter; gpuyield doctor says what each missing metric costs."
        )
    ]


def test_no_pod_labels_is_a_gap(ledger: Ledger, collected: Collector) -> None:
    times = minutes(*_span(TWO_DAYS))
    made = [one for one in busy_cluster(times) if one.labels["__name__"] != "DCGM_FI_DEV_GPU_UTIL"]
    with serving([*made, card((at, 50) for at in times)]) as url:
        report = collected(url, ledger, TWO_DAYS)

    assert [gap.reason for gap in report.gaps] == [
        (
            "DCGM samples carry no pod label, so busy time cannot be given to teams. Set"
            " DCGM_EXPORTER_KUBERNETES=true on dcgm-exporter. Cluster totals are still shown."
        )
    ]


def test_no_requests_is_a_gap(ledger: Ledger, collected: Collector) -> None:
    times = minutes(*_span(TWO_DAYS))
    with serving([*node(times), card(((at, 50) for at in times), pod="p", namespace="n")]) as url:
        report = collected(url, ledger, TWO_DAYS)

    assert [gap.where for gap in report.gaps] == ["kube-state-metrics"]


def test_gaps_are_told_again_when_nothing_is_left_to_read(ledger: Ledger, collected: Collector) -> None:
    with serving([one for one in two_days() if not one.labels["__name__"].startswith("DCGM")]) as url:
        first = collected(url, ledger, TWO_DAYS)
        again = collected(url, ledger, TWO_DAYS)

    assert again.days_read == ()
    assert again.gaps == first.gaps


def test_an_unreachable_source_is_an_error_and_leaves_the_ledger_alone(ledger: Ledger, collected: Collector) -> None:
    with serving([]) as url:
        pass

    with pytest.raises(SourceError, match="Cannot reach Prometheus"):
        collected(url, ledger, TWO_DAYS)

    assert ledger.days(COVERAGE) == []


def _span(window: Window) -> tuple[int, int, int]:
    return window.from_ms, window.to_ms, EVERY_5_MIN


def prometheus_double(series: Sequence[Series], **extra: object) -> Callable[[Asked], Said]:
    """The demo's answers, with these fields added to each of a query."""
    store = TimeSeriesStore(series)

    def answer(asked: Asked) -> Said:
        if asked.path.endswith("/buildinfo"):
            return Said(body=b'{"status":"success","data":{"version":"2.99"}}')
        if asked.path.endswith("/query"):
            try:
                body = b"".join(query_answer(store, asked.fields["query"], round(float(asked.fields["time"]) * 1000)))
            except SelectorError as err:
                return Said(status=400, body=json.dumps({"status": "error", "error": str(err)}).encode())
            return Said(body=json.dumps({**json.loads(body), **extra}).encode())
        return Said(status=404)

    return answer


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        ({"warnings": ["No StoreAPIs matched for this query"]}, "No StoreAPIs matched"),
        ({"warnings": ["results truncated due to limit"]}, "results truncated due to limit"),
        ({"isPartial": True}, "answer is partial"),
    ],
)
def test_a_partial_answer_is_a_gap_and_the_day_is_not_complete(
    extra: dict[str, object], words: str, ledger: Ledger, collected: Collector
) -> None:
    with answering(prometheus_double(two_days(HOUR_MS), **extra)) as talk:
        report = collected(talk.url, ledger, day_window("2026-11-10"))

    assert any(words in gap.reason for gap in report.gaps)
    assert not any(one.complete for one in coverage(ledger, "prometheus", ["2026-11-10"]))


def test_infos_and_promql_hints_are_no_gaps(ledger: Ledger, collected: Collector) -> None:
    extra = {"infos": ["PromQL info: might not be a counter"], "warnings": ["PromQL warning: quantile"]}
    with answering(prometheus_double(two_days(), **extra)) as talk:
        report = collected(talk.url, ledger, day_window("2026-11-10"))

    assert report.gaps == ()


def test_a_store_whose_clock_is_behind_has_not_seen_the_end_of_the_day(
    ledger: Ledger, source_of: Callable[[str], Prometheus], collected: Collector
) -> None:
    with serving(busy_cluster(minutes(START_MS, START_MS + DAY_MS, EVERY_5_MIN))) as url:
        source = source_of(url)
        source.build()
        server_ms = source.server_ms()
        assert server_ms is not None
        today = Window(server_ms - server_ms % DAY_MS - 7 * DAY_MS, server_ms - server_ms % DAY_MS + DAY_MS)
    with serving(busy_cluster(minutes(today.from_ms, server_ms - HOUR_MS, EVERY_5_MIN))) as url:
        collected(url, ledger, today, now_ms=today.to_ms + HOUR_MS)

    last = coverage(ledger, "prometheus", today.days())[-1]
    assert not last.complete
    assert last.window.to_ms <= server_ms + 60_000


CHILD = """
import sys
from pathlib import Path
from gpuyield.collect.collect import collect
from gpuyield.collect.endpoint import endpoint
from gpuyield.collect.http import HttpClient
from gpuyield.collect.prometheus import Prometheus
from gpuyield.ledger import Ledger
from gpuyield.model.declaration import Rules
from gpuyield.units import Window
url, root, start, end = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
source = Prometheus(HttpClient(endpoint(product="Prometheus", url=url, declared_at="x")))
print("go", flush=True)
collect(source=source, ledger=Ledger.create(root), window=Window(start, end), rules=Rules(), now_ms=end + 3600000)
"""


def child(url: str, root: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", CHILD, url, str(root), str(TWO_DAYS.from_ms), str(TWO_DAYS.to_ms)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
    )


def test_killed_at_any_question_and_run_again_the_ledger_is_the_same(
    tmp_path: Path, ledger: Ledger, collected: Collector
) -> None:
    """The server itself kills the collector: at question n, and so also between the writes of days."""
    answer = prometheus_double(two_days())
    victims: list[subprocess.Popen[str]] = []
    countdown = [0]

    def deadly(asked: Asked) -> Said:
        countdown[0] -= 1
        if countdown[0] == 0:
            victims[-1].send_signal(signal.SIGKILL)
        return answer(asked)

    with answering(deadly) as talk:
        collected(talk.url, ledger, TWO_DAYS)
        struck = Ledger.create(tmp_path / "struck")
        for question in (3, 20, 31, 43, 60):
            countdown[0] = question
            victims.append(child(talk.url, struck.root))
            victims[-1].communicate()
        countdown[0] = 0
        killed = [one.returncode for one in victims]
        collected(talk.url, struck, TWO_DAYS)

    assert -signal.SIGKILL in killed
    assert struck.digest() == ledger.digest()


def _killed_while_writing(url: str, root: Path, files: int) -> int:
    """Kill a collector as soon as its ledger has so many files more; its return code."""
    before = _files(root)
    victim = child(url, root)
    while victim.poll() is None:
        if _files(root) - before >= files:
            victim.kill()
            break
    victim.communicate()
    return victim.returncode


def _files(root: Path) -> int:
    return sum(len(names) for _, _, names in os.walk(root))


@pytest.mark.parametrize(
    "kills",
    [pytest.param((1, 3, 4, 7), id="4"), pytest.param(tuple(range(1, 21)), id="20", marks=pytest.mark.slow_laws)],
)
def test_killed_while_writing_and_run_again_the_ledger_is_the_same(
    kills: tuple[int, ...], tmp_path: Path, ledger: Ledger, collected: Collector
) -> None:
    struck = Ledger.create(tmp_path / "struck")
    with serving(two_days(15 * MINUTE_MS)) as url:
        collected(url, ledger, TWO_DAYS)
        codes = [_killed_while_writing(url, struck.root, files) for files in kills]
        collected(url, struck, TWO_DAYS)

    assert -signal.SIGKILL in codes
    assert struck.digest() == ledger.digest()


def test_two_at_once_both_end_well_and_nothing_is_lost_or_doubled(
    tmp_path: Path, ledger: Ledger, collected: Collector
) -> None:
    shared = Ledger.create(tmp_path / "shared")
    errors: list[Exception] = []
    with serving(two_days()) as url:
        collected(url, ledger, TWO_DAYS)

        def run() -> None:
            try:
                collected(url, shared, TWO_DAYS)
            except Exception as err:
                errors.append(err)

        rivals = [threading.Thread(target=run) for _ in range(2)]
        for one in rivals:
            one.start()
        for one in rivals:
            one.join()

    assert errors == []
    assert shared.digest() == ledger.digest()
