"""The real servers hold what they were given, to the millisecond."""

from __future__ import annotations

import json
import urllib.parse
import urllib.request

import numpy as np
import numpy.typing as npt
import pytest

from gpuyield.demo.api import serving
from gpuyield.demo.exposition import Series
from servers.session import Store

START_MS = 1_750_032_000_000


def _made() -> list[Series]:
    steps = np.arange(60, dtype=np.int64)
    ramp: npt.NDArray[np.float64] = steps.astype(np.float64) / 32
    return [
        Series({"__name__": "kept", "card": "a"}, START_MS + steps * 60_000, ramp),
        Series({"__name__": "kept", "card": 'b"\\'}, START_MS + steps * 60_000 + 123, np.full(60, 1_750_032_000.0)),
    ]


def _samples(url: str, query: str, at_s: float) -> dict[str, list[tuple[float, str]]]:
    asked = urllib.parse.urlencode({"query": query, "time": at_s}).encode()
    with urllib.request.urlopen(f"{url}/api/v1/query", data=asked) as answer:
        found = json.load(answer)
    return {one["metric"]["card"]: [tuple(pair) for pair in one["values"]] for one in found["data"]["result"]}


def _check(url: str) -> None:
    found = _samples(url, "kept[1h]", START_MS / 1000 + 3599.9)

    assert sorted(found) == ["a", 'b"\\']
    assert [at for at, _ in found["a"]] == [START_MS / 1000 + 60 * step for step in range(60)]
    assert [float(value) for _, value in found["a"]] == [step / 32 for step in range(60)]
    assert found['b"\\'][0] == (START_MS / 1000 + 0.123, "1750032000")


def test_a_real_server_gives_back_the_samples_that_were_put_in(store: Store) -> None:
    _check(store.holding("few", _made))


def test_the_demo_api_gives_the_same_samples() -> None:
    with serving(_made()) as url:
        _check(url)


@pytest.mark.parametrize("name", ["nothing", "kept_too"])
def test_a_metric_that_was_not_put_in_is_absent(store: Store, name: str) -> None:
    url = store.holding("few", _made)

    assert _samples(url, f"{name}[1h]", START_MS / 1000 + 3599.9) == {}
