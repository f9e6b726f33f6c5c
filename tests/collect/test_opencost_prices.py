"""Recorded answers of a real OpenCost, replayed; the truth is in TRUTH.md beside them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from doubles.answers import Asked, Said, answering
from gpuyield.collect.endpoint import endpoint
from gpuyield.collect.http import HttpClient, Patience
from gpuyield.collect.opencost import OpenCost, collect_prices
from gpuyield.errors import DeclarationError, SourceError
from gpuyield.ledger import Ledger
from gpuyield.ledger.tables import PRICES
from gpuyield.units import DAY_MS, HOUR_MS, Window, day_window, parse_instant

Connect = Callable[[str], OpenCost]
DAY_1 = day_window("2026-11-26")


@pytest.fixture
def opencost_of() -> Iterator[Connect]:
    opened: list[HttpClient] = []

    def connect(url: str) -> OpenCost:
        where = endpoint(product="OpenCost", url=url, declared_at="sources.opencost")
        opened.append(HttpClient(where, patience=Patience(read_s=10, attempts=2), pause=lambda _: None))
        return OpenCost(opened[-1])

    yield connect
    for one in opened:
        one.close()


def recordings(live: Path, server: str = "2026") -> Callable[[Asked], Said]:
    """Answers each recorded question as it was answered, whatever the order of its fields."""
    known: dict[tuple[str, frozenset[tuple[str, str]]], Said] = {}
    for line in (live / "requests.jsonl").read_text().splitlines():
        one = json.loads(line)
        if one["server"] != server or not one.get("file"):
            continue
        split = urlsplit(one["path"])
        fields = frozenset((name, values[-1]) for name, values in parse_qs(split.query).items())
        said = Said(
            status=one["status"], body=(live / one["file"]).read_bytes(), content_type=one["content_type"] or ""
        )
        known.setdefault((split.path, fields), said)

    def answer(asked: Asked) -> Said:
        said = known.get((asked.path, frozenset(asked.fields.items())))
        return said or Said(status=404, body=b"404 page not found\n", content_type="text/plain")

    return answer


@pytest.fixture
def live(shared_data: Path) -> Path:
    return shared_data / "opencost" / "live"


def test_nodes_of_the_first_day_cost_what_the_truth_says(live: Path, opencost_of: Connect) -> None:
    with answering(recordings(live)) as talk:
        nodes = {one.node: one for one in opencost_of(talk.url).nodes(DAY_1)}

    # From TRUTH.md: 24 x (32 x 0.03 + 256 x 0.004 + 4 x 2.5), and so on.
    assert {name: one.total_cost for name, one in nodes.items()} == {
        "gpu-h100-a": Decimal("287.616"),
        "gpu-mig-a": Decimal("23.808"),
        "gpu-l4-shared": Decimal("23.232"),
        "cpu-a": Decimal("17.664"),
    }
    assert nodes["gpu-h100-a"].gpu_cost == Decimal(24 * 4) * Decimal("2.5")
    assert nodes["gpu-h100-a"].gpu_hours == 96
    assert nodes["gpu-h100-a"].window == DAY_1


def test_a_node_that_appears_during_the_day_is_priced_from_then_on(live: Path, opencost_of: Connect) -> None:
    day = day_window("2026-11-27")
    with answering(recordings(live)) as talk:
        nodes = {one.node: one for one in opencost_of(talk.url).nodes(day)}

    late = nodes["gpu-h100-b"]
    assert late.window == Window(parse_instant("2026-11-27T09:30:00Z"), day.to_ms)
    assert late.gpu_hours == Decimal("14.5") * 4


@pytest.mark.parametrize(
    ("folder", "server"),
    [("discount", "2026, discount 30%, negotiatedDiscount 10% in the pricing file")],
)
def test_a_discount_is_in_the_total_and_not_in_the_gpu(
    folder: str, server: str, live: Path, opencost_of: Connect
) -> None:
    with answering(recordings(live, server)) as talk:
        nodes = {one.node: one for one in opencost_of(talk.url).nodes(DAY_1)}

    assert nodes["gpu-h100-a"].gpu_cost == Decimal(240)
    assert nodes["gpu-h100-a"].total_cost == Decimal("269.99808")


def test_the_older_build_is_read_as_well(live: Path, opencost_of: Connect) -> None:
    day = day_window("2026-11-27")
    with answering(recordings(live, "2024")) as talk:
        nodes = {one.node: one for one in opencost_of(talk.url).nodes(day)}

    assert nodes["gpu-h100-a"].gpu_cost == Decimal(240)


def test_the_composed_sample_is_read(shared_data: Path, opencost_of: Connect) -> None:
    body = (shared_data / "opencost" / "assets-two-nodes.json").read_bytes()
    with answering([Said(body=body)]) as talk:
        nodes = opencost_of(talk.url).nodes(day_window("2026-11-29"))

    assert [one.gpu_hours for one in nodes] == [192, 192]
    assert sum(one.total_cost or 0 for one in nodes) == Decimal("1245.696")


def test_an_installation_below_a_prefix_is_found(live: Path, opencost_of: Connect) -> None:
    whole = recordings(live)

    def answer(asked: Asked) -> Said:
        if not asked.path.startswith("/model/"):
            return Said(status=404, body=b"404 page not found\n", content_type="text/plain")
        return whole(Asked(method="GET", path=asked.path[6:], fields=asked.fields, headers={}))

    with answering(answer) as talk:
        source = opencost_of(talk.url)
        source.nodes(DAY_1)
        source.nodes(DAY_1)

    assert [one.path for one in talk.asked] == ["/assets", "/model/assets", "/model/assets"]


def test_rows_of_pods_are_read_for_a_cross_check(live: Path, opencost_of: Connect) -> None:
    body = (live / "alloc-ns-d1.json").read_bytes()
    with answering([Said(body=body)]) as talk:
        rows = {one.name: one for one in opencost_of(talk.url).allocations(DAY_1, aggregate="namespace")}

    assert rows["team-red"].gpu_hours == Decimal("47.83333")
    assert rows["team-red"].gpu_cost == Decimal("119.58333")


@pytest.mark.parametrize(
    "file",
    ["alloc-empty-window.json", "alloc-window-lastweek.json", "alloc-unknown-aggregate.json", "alloc-pod-d3.json"],
)
def test_hostile_sets_are_read_without_a_guess(file: str, live: Path, opencost_of: Connect) -> None:
    with answering([Said(body=(live / file).read_bytes())]) as talk:
        rows = opencost_of(talk.url).allocations(DAY_1, aggregate="namespace")

    assert all(one.total_cost is None or one.total_cost == one.total_cost for one in rows)


@pytest.mark.parametrize(
    ("file", "status"),
    [
        ("assets-window-bad.txt", 400),
        ("alloc-window-bad.txt", 400),
        ("prometheus-down/assets.txt", 500),
        ("prometheus-503/assets.txt", 500),
        ("prometheus-429/assets.txt", 500),
        ("prometheus-422/assets.txt", 500),
        ("prometheus-html/assets.txt", 500),
        ("prometheus-down/alloc.txt", 500),
        ("assets-filter-bad.txt", 500),
    ],
)
def test_a_recorded_error_is_cut_and_told(file: str, status: int, live: Path, opencost_of: Connect) -> None:
    said = Said(status=status, body=(live / file).read_bytes(), content_type="text/plain")
    with answering([said]) as talk, pytest.raises(SourceError) as caught:
        opencost_of(talk.url).nodes(DAY_1)

    assert f"answered {status}" in str(caught.value)
    assert len(str(caught.value)) < 700


def test_composed_errors_are_told(shared_data: Path, opencost_of: Connect) -> None:
    cases = json.loads((shared_data / "opencost" / "error-bodies.json").read_text())["cases"]
    for case in cases:
        said = Said(status=case["status"], body=case["body"].encode(), content_type=case["content_type"])
        with answering([said]) as talk:
            if case["status"] == 200 and case["body"]:
                assert opencost_of(talk.url).allocations(DAY_1, aggregate="namespace") == []
                continue
            with pytest.raises(SourceError):
                opencost_of(talk.url).allocations(DAY_1, aggregate="namespace")


def test_a_code_in_the_body_counts_more_than_the_status(opencost_of: Connect) -> None:
    body = b'{"code":500,"status":"","data":null,"message":"Error: store down"}'
    with answering([Said(body=body)]) as talk, pytest.raises(SourceError, match=r"code 500: Error: store down"):
        opencost_of(talk.url).nodes(DAY_1)


def test_prices_of_finished_days_go_into_the_ledger_once(live: Path, ledger: Ledger, opencost_of: Connect) -> None:
    window = Window(DAY_1.from_ms, DAY_1.from_ms + 3 * DAY_MS)
    now_ms = parse_instant("2026-11-28T00:30:00Z")
    with answering(recordings(live)) as talk:
        source = opencost_of(talk.url)
        gaps = collect_prices(source=source, ledger=ledger, window=window, currency="EUR", now_ms=now_ms)
        digest, asked = ledger.digest(), len(talk.asked)
        collect_prices(source=source, ledger=ledger, window=window, currency="EUR", now_ms=now_ms)

    rows = ledger.read(PRICES)
    assert gaps == []
    assert ledger.days(PRICES) == ["2026-11-26"]
    assert (ledger.digest(), len(talk.asked)) == (digest, asked)
    assert sorted(zip(rows["node"], rows["flavor"], rows["gpu_cost"], rows["total_cost"], strict=True)) == [
        ("cpu-a", "", "0.000000", "17.664000"),
        ("gpu-h100-a", "h100", "240.000000", "287.616000"),
        ("gpu-l4-shared", "l4", "14.400000", "23.232000"),
        ("gpu-mig-a", "a100", "0.000000", "23.808000"),
    ]
    assert set(zip(rows["currency"], rows["basis"], rows["source"], strict=True)) == {("EUR", "list", "opencost")}


def test_a_day_without_nodes_is_a_gap(live: Path, ledger: Ledger, opencost_of: Connect) -> None:
    day = day_window("2026-11-22")
    with answering(recordings(live)) as talk:
        gaps = collect_prices(
            source=opencost_of(talk.url), ledger=ledger, window=day, currency="EUR", now_ms=day.to_ms + 2 * HOUR_MS
        )

    assert [(one.reason, one.window) for one in gaps] == [("OpenCost states no nodes on this day.", day)]


def test_a_cost_of_null_is_a_gap_and_not_nothing(ledger: Ledger, opencost_of: Connect) -> None:
    node = {"type": "Node", "properties": {"name": "n"}, "gpuCost": None, "totalCost": None, "GPUHours": 24}
    body = json.dumps({"code": 200, "data": {"x": node}}).encode()
    with answering([Said(body=body)]) as talk:
        gaps = collect_prices(
            source=opencost_of(talk.url), ledger=ledger, window=DAY_1, currency="EUR", now_ms=DAY_1.to_ms + 2 * HOUR_MS
        )

    assert gaps[0].where == "n"
    assert ledger.days(PRICES) == []


def test_another_currency_is_not_mixed_in(live: Path, ledger: Ledger, opencost_of: Connect) -> None:
    now_ms = DAY_1.to_ms + 2 * HOUR_MS
    with answering(recordings(live)) as talk:
        source = opencost_of(talk.url)
        collect_prices(source=source, ledger=ledger, window=DAY_1, currency="EUR", now_ms=now_ms)

        with pytest.raises(DeclarationError, match=r"in EUR, the declaration says\s+USD"):
            collect_prices(source=source, ledger=ledger, window=DAY_1, currency="USD", now_ms=now_ms)
