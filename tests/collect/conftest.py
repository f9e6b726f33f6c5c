"""A made-up hour-by-hour cluster, and collecting it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from gpuyield.collect.collect import CollectReport, collect
from gpuyield.collect.endpoint import endpoint
from gpuyield.collect.http import HttpClient, Patience
from gpuyield.collect.prometheus import Prometheus
from gpuyield.ledger import Ledger
from gpuyield.model.declaration import Rules
from gpuyield.units import HOUR_MS, Window

Collector = Callable[..., CollectReport]


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger.create(tmp_path / "ledger")


@pytest.fixture
def source_of() -> Iterator[Callable[[str], Prometheus]]:
    """Connections that are closed at the end."""
    opened: list[HttpClient] = []

    def connect(url: str) -> Prometheus:
        where = endpoint(product="Prometheus", url=url, declared_at="sources.prometheus")
        http = HttpClient(where, patience=Patience(read_s=20, attempts=2), pause=lambda _: None)
        opened.append(http)
        return Prometheus(http)

    yield connect
    for one in opened:
        one.close()


@pytest.fixture
def collected(source_of: Callable[[str], Prometheus]) -> Collector:
    """Collect a window from a URL into a ledger; by default long after the window."""

    def run(
        url: str,
        ledger: Ledger,
        window: Window,
        *,
        now_ms: int | None = None,
        chunk_ms: int | None = None,
        gap_limit_ms: int = 300_000,
        refresh: bool = False,
    ) -> CollectReport:
        return collect(
            source=source_of(url),
            ledger=ledger,
            window=window,
            rules=Rules(gap_limit_ms=gap_limit_ms),
            now_ms=window.to_ms + HOUR_MS if now_ms is None else now_ms,
            chunk_ms=chunk_ms,
            refresh=refresh,
        )

    return run


def minutes(from_ms: int, to_ms: int, step_ms: int = 60_000) -> Sequence[int]:
    """Scrape times of a span."""
    return range(from_ms, to_ms, step_ms)
