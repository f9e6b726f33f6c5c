"""The demo's API answers as Prometheus 3 would."""

from __future__ import annotations

import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from typing import Any  # JSON bodies

import numpy as np
import pytest

from gpuyield.demo.api import serving
from gpuyield.demo.exposition import Series

START_S = 1_750_032_000


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    times = (START_S + 60 * np.arange(10, dtype=np.int64)) * 1000
    series = [
        Series({"__name__": "busy", "card": card, "node": node}, times, np.full(10, value))
        for card, node, value in (("a", "n1", 0.25), ("b", "n2", 1.0), ("c", "n2", float("nan")))
    ]
    with serving([*series, Series({"__name__": "up"}, times, np.ones(10))]) as url:
        yield url


def _get(url: str, path: str, **asked: str) -> Any:
    with urllib.request.urlopen(f"{url}{path}?{urllib.parse.urlencode(asked)}") as answer:
        return json.load(answer)


def _refused(url: str, path: str, **asked: str) -> tuple[int, dict[str, str]]:
    with pytest.raises(urllib.error.HTTPError) as caught:
        _get(url, path, **asked)
    with caught.value as answer:
        return answer.code, json.load(answer)


def test_a_range_is_open_on_the_left(url: str) -> None:
    found = _get(url, "/api/v1/query", query='busy{card="a"}[5m]', time=str(START_S + 300))

    values = found["data"]["result"][0]["values"]
    assert found["data"]["resultType"] == "matrix"
    assert [at - START_S for at, _ in values] == [60, 120, 180, 240, 300]
    assert {value for _, value in values} == {"0.25"}


@pytest.mark.parametrize(
    ("matchers", "cards"),
    [
        ("", ["a", "b", "c"]),
        ('{node="n2"}', ["b", "c"]),
        ('{node!="n2"}', ["a"]),
        ('{card=~"a|b", node=~"n."}', ["a", "b"]),
        ('{card!~"a|b",}', ["c"]),
        ("{card='b'}", ["b"]),
        ("{card=~`.`, absent=``}", ["a", "b", "c"]),
    ],
)
def test_matchers_choose_series(url: str, matchers: str, cards: list[str]) -> None:
    found = _get(url, "/api/v1/query", query=f"busy{matchers}[1h]", time=str(START_S + 600))

    assert sorted(one["metric"]["card"] for one in found["data"]["result"]) == cards


def test_a_metric_can_be_chosen_by_its_name_alone(url: str) -> None:
    found = _get(url, "/api/v1/query", query='{__name__=~"up|down"}[1h]', time=str(START_S + 600))

    assert [one["metric"]["__name__"] for one in found["data"]["result"]] == ["up"]


def test_an_instant_selector_gives_the_last_sample_within_five_minutes(url: str) -> None:
    soon = _get(url, "/api/v1/query", query='busy{card="a"}', time=str(START_S + 700))
    later = _get(url, "/api/v1/query", query='busy{card="a"}', time=str(START_S + 900))

    assert soon["data"]["result"][0]["value"] == [START_S + 700, "0.25"]
    assert later["data"] == {"resultType": "vector", "result": []}


def test_a_value_that_is_no_number_is_a_string_as_in_prometheus(url: str) -> None:
    found = _get(url, "/api/v1/query", query='busy{card="c"}', time=str(START_S + 60))

    assert found["data"]["result"][0]["value"][1] == "NaN"


def test_post_is_answered_like_get(url: str) -> None:
    asked = {"query": "up[2m]", "time": str(START_S + 120)}

    with urllib.request.urlopen(f"{url}/api/v1/query", data=urllib.parse.urlencode(asked).encode()) as answer:
        posted = json.load(answer)

    assert posted == _get(url, "/api/v1/query", **asked)


def test_names_labels_and_series_are_listed(url: str) -> None:
    assert _get(url, "/api/v1/label/__name__/values")["data"] == ["busy", "up"]
    assert _get(url, "/api/v1/labels")["data"] == ["__name__", "card", "node"]
    assert _get(url, "/api/v1/series", **{"match[]": 'busy{card="b"}'})["data"] == [
        {"__name__": "busy", "card": "b", "node": "n2"}
    ]


def test_what_has_no_sample_in_the_span_is_not_listed(url: str) -> None:
    late = str(START_S + 6000)

    assert _get(url, "/api/v1/label/__name__/values", start=late, end=late)["data"] == []


@pytest.mark.parametrize("query", ["sum(busy)", "busy[5x]", 'busy{card="a}', 'busy{card=~"("}', "", "busy + 1", "{}"])
def test_what_is_not_a_selector_is_refused_as_bad_data(url: str, query: str) -> None:
    status, body = _refused(url, "/api/v1/query", query=query)

    assert (status, body["status"], body["errorType"]) == (400, "error", "bad_data")
    assert body["error"]


def test_a_time_that_is_none_is_refused(url: str) -> None:
    status, body = _refused(url, "/api/v1/query", query="up", time="yesterday")

    assert (status, body["errorType"]) == (400, "bad_data")
    assert "yesterday" in body["error"]


def test_other_paths_are_not_found(url: str) -> None:
    assert _refused(url, "/api/v1/admin/tsdb/delete_series")[0] == 404


def test_it_is_ready_at_once_and_names_a_version(url: str) -> None:
    with urllib.request.urlopen(f"{url}/-/ready") as answer:
        assert answer.status == 200
    assert _get(url, "/api/v1/status/buildinfo")["data"]["version"].startswith("3.")
