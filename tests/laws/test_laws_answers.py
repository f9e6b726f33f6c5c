"""Whatever a server sends, reading it ends in a value or in a SourceError, never in another exception."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from doubles.answers import Asked, Said, answering
from gpuyield.collect.endpoint import endpoint
from gpuyield.collect.http import HttpClient, Patience
from gpuyield.collect.opencost import NodeAsset, OpenCost, price_columns
from gpuyield.collect.prometheus import Prometheus
from gpuyield.errors import SourceError
from gpuyield.units import Window

WINDOW = Window(1_794_000_000_000, 1_794_000_060_000)
scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
)
pairs = st.lists(st.lists(scalars, max_size=3) | scalars, max_size=3) | values
rows = st.lists(
    st.fixed_dictionaries({"metric": values | st.just({"a": "b"}), "values": pairs, "value": pairs}) | values,
    max_size=2,
)
prometheus_like = st.fixed_dictionaries(
    {
        "status": st.sampled_from(["success", "error"]) | values,
        "data": st.fixed_dictionaries({"resultType": st.sampled_from(["matrix", "vector"]) | values, "result": rows})
        | values,
    }
)
amounts = scalars | st.sampled_from(["sNaN", "NaN", "Infinity", "1e999999", "-0", "7"])
assets = st.fixed_dictionaries(
    {
        "type": st.just("Node") | values,
        "properties": st.just({"name": "n"}) | values,
        "start": st.text(max_size=25) | st.just("2026-11-26T00:00:00Z"),
        "end": st.just("null") | st.just("2026-11-27T00:00:00Z") | values,
        "gpuCost": amounts,
        "totalCost": amounts,
    }
)
opencost_like = st.fixed_dictionaries(
    {"code": st.just(200) | values, "data": st.dictionaries(st.text(), assets) | values}
)


def bodies(documents: st.SearchStrategy[object]) -> st.SearchStrategy[bytes]:
    whole = documents.map(lambda one: json.dumps(one).encode())
    cut = st.tuples(whole, st.integers(0, 60)).map(lambda one: one[0][: one[1]])
    return whole | cut | st.binary(max_size=40)


answers = st.tuples(st.sampled_from([200, 200, 200, 204, 302, 400, 404, 422, 500]), bodies(prometheus_like))
cost_answers = st.tuples(st.sampled_from([200, 200, 400, 404, 500]), bodies(opencost_like))
quick = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


@pytest.fixture
def talking() -> Iterator[tuple[HttpClient, Callable[[int, bytes], None]]]:
    """A connection to a server, and how to say what it answers next."""
    next_answer = [Said()]

    def answer(_: Asked) -> Said:
        return next_answer[0]

    def say(status: int, body: bytes) -> None:
        next_answer[0] = Said(status=status, body=b"" if status == 204 else body)

    with answering(answer) as talk:
        where = endpoint(product="Prometheus", url=talk.url, declared_at="sources.prometheus")
        http = HttpClient(where, patience=Patience(attempts=1), pause=lambda _: None)
        yield http, say
        http.close()


@quick
@given(answer=answers)
def test_any_answer_of_a_metrics_store(
    answer: tuple[int, bytes], talking: tuple[HttpClient, Callable[[int, bytes], None]]
) -> None:
    http, say = talking
    say(*answer)
    source = Prometheus(http)

    for ask in (
        lambda: source.raw("m", (), WINDOW),
        lambda: source.vector("m", WINDOW.to_ms),
        lambda: source.names(["m"], WINDOW),
        source.build,
    ):
        with contextlib.suppress(SourceError):
            ask()


def _priced(nodes: list[NodeAsset]) -> list[NodeAsset]:
    return [one for one in nodes if one.gpu_cost is not None and one.total_cost is not None]


@quick
@given(answer=cost_answers)
def test_any_answer_of_opencost(
    answer: tuple[int, bytes], talking: tuple[HttpClient, Callable[[int, bytes], None]]
) -> None:
    http, say = talking
    say(*answer)

    for ask in (
        lambda: price_columns(_priced(OpenCost(http).nodes(WINDOW)), "EUR"),
        lambda: OpenCost(http).allocations(WINDOW, aggregate="pod"),
    ):
        with contextlib.suppress(SourceError):
            ask()
