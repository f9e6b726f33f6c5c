from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from collect.test_days import prometheus_double
from doubles.answers import Asked, Said, answering
from doubles.exposition_text import series
from gpuyield.collect.endpoint import Secrets, endpoint
from gpuyield.collect.http import HttpClient, Patience
from gpuyield.collect.prometheus import Build, Prometheus, one_of, quoted
from gpuyield.errors import SourceError
from gpuyield.units import HOUR_MS, MINUTE_MS, Window

Connect = Callable[[str], Prometheus]
START_MS = 1_790_158_500_000
WINDOW = Window(START_MS, START_MS + HOUR_MS)
TIMES = range(START_MS, START_MS + HOUR_MS, MINUTE_MS)
UP = [series({"__name__": "up", "job": "a"}, [(at, at // MINUTE_MS % 7) for at in TIMES])]


def said(shared_data: Path, name: str, status: int = 200) -> Said:
    return Said(status=status, body=(shared_data / "telemetry" / f"promapi-{name}.json").read_bytes())


def matrix(*rows: object, **extra: object) -> Said:
    return Said(
        body=json.dumps({"status": "success", "data": {"resultType": "matrix", "result": rows}, **extra}).encode()
    )


def test_not_a_number_and_infinities_are_read_as_what_they_are(shared_data: Path, source_of: Connect) -> None:
    with answering([said(shared_data, "prom-3.13.3-matrix-nan-inf")]) as talk:
        found = source_of(talk.url).raw("m", (), WINDOW)

    assert [one.labels["v"] for one in found] == ["nan", "neg_inf", "pos_inf"]
    assert [one.values.tolist() for one in found[1:]] == [[-np.inf, -np.inf], [np.inf, np.inf]]
    assert np.isnan(found[0].values).all()
    assert found[0].ts_ms.tolist() == [1_790_158_560_000, 1_790_158_590_000]


@pytest.mark.parametrize(
    ("name", "status", "words"),
    [
        ("prom-3.13.3-error-400-parse", 400, "parse error: unclosed left parenthesis"),
        ("vm-1.152.0-error-422-duplicate-series", 422, "duplicate time series on the left side"),
        ("prom-3.13.3-vector-nan-inf", 200, "answered a vector, not raw samples"),
    ],
)
def test_a_recorded_refusal_is_told_in_its_own_words(
    name: str, status: int, words: str, shared_data: Path, source_of: Connect
) -> None:
    with answering([said(shared_data, name, status)]) as talk, pytest.raises(SourceError) as caught:
        source_of(talk.url).raw("m", (), WINDOW)

    assert words in str(caught.value)
    assert caught.value.exit_code == 3


def test_a_query_that_takes_the_server_too_long_is_asked_in_smaller_pieces(
    shared_data: Path, source_of: Connect
) -> None:
    whole = prometheus_double(UP)
    slow = said(shared_data, "prom-3.13.3-error-503-timeout", 503)

    def answer(asked: Asked) -> Said:
        return slow if _range_ms(asked) > 20 * MINUTE_MS else whole(asked)

    with answering(answer) as talk:
        found = source_of(talk.url).raw("up", (), WINDOW)

    assert found[0].ts_ms.tolist() == list(TIMES)
    assert found[0].values.tolist() == UP[0].values.tolist()


def test_too_many_samples_are_asked_in_halves_and_the_size_is_remembered(source_of: Connect) -> None:
    whole = prometheus_double(UP)
    body = (
        b'{"status":"error","errorType":"execution","error":"query processing would load too many samples into memory"}'
    )

    def answer(asked: Asked) -> Said:
        return Said(status=422, body=body) if _range_ms(asked) > 16 * MINUTE_MS else whole(asked)

    with answering(answer) as talk:
        source = source_of(talk.url)
        found = source.raw("up", (), WINDOW)
        first = len(talk.asked)
        again = source.raw("up", (), WINDOW)

    assert found[0].ts_ms.tolist() == again[0].ts_ms.tolist() == list(TIMES)
    assert len(talk.asked) - first == 4 < first


def test_an_answer_of_too_many_bytes_is_asked_in_halves() -> None:
    with answering(prometheus_double(UP)) as talk:
        where = endpoint(product="Prometheus", url=talk.url, declared_at="sources.prometheus")
        http = HttpClient(where, max_bytes=700)
        found = Prometheus(http).raw("up", (), WINDOW)
        http.close()

    assert found[0].ts_ms.tolist() == list(TIMES)


def test_a_server_that_never_gets_done_is_an_error_in_the_end(source_of: Connect) -> None:
    body = b'{"status":"error","errorType":"execution","error":"too many samples"}'
    with answering([Said(status=422, body=body)]) as talk, pytest.raises(SourceError, match="too many samples"):
        source_of(talk.url).raw("up", (), WINDOW)

    assert len(talk.asked) < 20


def _range_ms(asked: Asked) -> int:
    return int(asked.fields["query"].rpartition("[")[2].removesuffix("ms]"))


@pytest.mark.parametrize("closed", [True, False], ids=["closed", "left-open"])
def test_both_kinds_of_range_give_the_half_open_window(closed: bool, source_of: Connect) -> None:
    def answer(asked: Asked) -> Said:
        to_ms = round(float(asked.fields["time"]) * 1000)
        from_ms = to_ms - _range_ms(asked)
        first_ms = from_ms if closed else from_ms + 1
        row = {"metric": {"a": "b"}, "values": [[at / 1000, "1"] for at in range(first_ms, to_ms + 1, 1)]}
        return matrix(row)

    window = Window(START_MS + 10, START_MS + 1_510)
    with answering(answer) as talk:
        found = source_of(talk.url).raw("m", (), window, chunk_ms=400)

    assert found[0].ts_ms.tolist() == list(range(window.from_ms, window.to_ms))


def test_samples_out_of_order_and_twice_are_put_in_order(source_of: Connect) -> None:
    at = START_MS / 1000
    row = {"metric": {}, "values": [[at + 2, "2"], [at, "0"], [at + 2, "3"], [at + 1, "NaN"], [at + 1, "1"]]}
    with answering([matrix(row)]) as talk:
        (found,) = source_of(talk.url).raw("m", (), WINDOW)

    assert found.ts_ms.tolist() == [START_MS, START_MS + 1000, START_MS + 2000]
    assert found.values.tolist() == [0.0, 1.0, 3.0]


def test_labels_are_kept_without_control_characters_and_short(source_of: Connect) -> None:
    at = START_MS / 1000
    rows = (
        {"metric": {"pod": "\x1b[31ma\x00\n\u202eb", "node": "x" * 10_000}, "values": [[at, "1"]]},
        {"metric": {"pod": "[31mab", "node": "x" * 256}, "values": [[at + 1, "2"]]},
    )
    with answering([matrix(*rows)]) as talk:
        (found,) = source_of(talk.url).raw("m", (), WINDOW)

    assert found.labels == {"pod": "[31mab", "node": "x" * 256}
    assert found.values.tolist() == [1.0, 2.0]


def test_native_histograms_are_passed_over(source_of: Connect) -> None:
    rows = (
        {"metric": {"a": "h"}, "histograms": [[START_MS / 1000, {"count": "1", "sum": "2"}]]},
        {"metric": {"a": "n"}, "values": [[START_MS / 1000, "1"]]},
    )
    with answering([matrix(*rows)]) as talk:
        found = source_of(talk.url).raw("m", (), WINDOW)

    assert [one.labels for one in found] == [{"a": "n"}]


@pytest.mark.parametrize("values", [[[1.0, "banana"]], [[1.0, "2", "3"]], [[1.0]], [[1.0, "2"], [3.0]], [["", ""]]])
def test_a_sample_that_is_no_number_is_an_error(values: list[object], source_of: Connect) -> None:
    with (
        answering([matrix({"metric": {}, "values": values})]) as talk,
        pytest.raises(SourceError, match="a sample that is no number"),
    ):
        source_of(talk.url).raw("m", (), WINDOW)


@pytest.mark.parametrize("name", ["thanos-empty-with-warnings", "prom-3.13.3-limited-truncated"])
def test_warnings_are_kept_as_notes(name: str, shared_data: Path, source_of: Connect) -> None:
    body = json.loads(said(shared_data, name).body)
    body["data"] = {"resultType": "matrix", "result": []}
    with answering([Said(body=json.dumps(body).encode())]) as talk:
        source = source_of(talk.url)
        source.raw("m", (), WINDOW)

    notes = source.take_notes()
    assert [where for _, where in notes] == ["m"]
    assert "the server warned: " in notes[0][0]
    assert source.take_notes() == []


def test_an_answer_that_says_it_is_whole_has_no_note(shared_data: Path, source_of: Connect) -> None:
    body = json.loads(said(shared_data, "vm-cluster-ispartial-false-dcgm").body)
    body["data"]["resultType"] = "matrix"
    with answering([Said(body=json.dumps(body).encode())]) as talk:
        source = source_of(talk.url)
        source.raw("m", (), WINDOW)

    assert source.take_notes() == []


@pytest.mark.parametrize(
    ("answer", "build"),
    [
        (Said(body=b'{"status":"success","data":{"version":"2.42.0"}}'), Build(product="Prometheus", version="2.42.0")),
        (
            Said(body=b'{"status":"success","data":{"version":"2.12.0","application":"Grafana Mimir"}}'),
            Build(product="Grafana Mimir", version="2.12.0"),
        ),
        (Said(body=b'{"status":"success","data":{}}'), Build(product="VictoriaMetrics", version="")),
        (Said(body=b"", headers={"X-Server-Hostname": "vm-0"}), Build(product="VictoriaMetrics", version="")),
        (Said(status=404, body=b"404 page not found"), Build(product="Prometheus", version="")),
    ],
)
def test_the_kind_of_server_is_read_from_its_build(answer: Said, build: Build, source_of: Connect) -> None:
    with answering([answer]) as talk:
        assert source_of(talk.url).build() == build


def test_a_login_page_in_the_place_of_a_server_is_told(source_of: Connect) -> None:
    page = Said(body=b"<html>Sign in</html>", content_type="text/html")
    with answering([page]) as talk, pytest.raises(SourceError, match="a web page instead of JSON"):
        source_of(talk.url).build()


def test_endless_nesting_is_an_error(source_of: Connect) -> None:
    body = b'{"status":"success","data":' + b"[" * 200_000
    with answering([Said(body=body)]) as talk, pytest.raises(SourceError):
        source_of(talk.url).build()


def test_a_role_that_may_not_send_forms_is_asked_by_get(source_of: Connect) -> None:
    whole = prometheus_double(UP)

    def answer(asked: Asked) -> Said:
        return Said(status=403, body=b"{}") if asked.method == "POST" else whole(asked)

    with answering(answer) as talk:
        source = source_of(talk.url)
        found = source.raw("up", (), WINDOW)
        source.raw("up", (), WINDOW)

    assert len(found[0].ts_ms) == 60
    assert [one.method for one in talk.asked] == ["POST", "GET", "GET"]


def test_the_api_servers_proxy_is_asked_by_get_with_its_token() -> None:
    whole = prometheus_double(UP)

    def answer(asked: Asked) -> Said:
        prefix = "/api/v1/namespaces/monitoring/services/prometheus-operated:9090/proxy"
        return whole(asked) if asked.path == f"{prefix}/api/v1/query" else Said(status=404)

    with answering(answer) as talk:
        where = endpoint(
            product="Prometheus",
            url=f"{talk.url}/api/v1/namespaces/monitoring/services/prometheus-operated:9090/proxy",
            declared_at="sources.prometheus",
            secrets=Secrets(headers=(("Authorization", "Bearer abc"),)),
        )
        http = HttpClient(where, patience=Patience(attempts=1))
        found = Prometheus(http).raw("up", (), WINDOW)
        http.close()

    assert len(found[0].ts_ms) == 60
    assert talk.asked[0].headers["Authorization"] == "Bearer abc"


@pytest.mark.parametrize(
    ("word", "literal"), [("plain", '"plain"'), ('a"b', '"a\\"b"'), ("a\\b", '"a\\\\b"'), ("a\nb", '"a\\nb"')]
)
def test_a_word_is_quoted_for_promql(word: str, literal: str) -> None:
    assert quoted(word) == literal


def test_names_in_a_matcher_mean_themselves() -> None:
    assert one_of("node", ["a.b", "c|d", "e(f)"]) == 'node=~"a\\\\.b|c\\\\|d|e\\\\(f\\\\)"'
