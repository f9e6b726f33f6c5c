"""Look around: which metrics store answers, what it has, and the last day of it in a ledger that is thrown away."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from gpuyield.account import Accounting
from gpuyield.account import account as account_window
from gpuyield.collect.collect import SETTLE_MS, CollectReport
from gpuyield.collect.collect import collect as collect_window
from gpuyield.collect.connect import prometheus as connect_prometheus
from gpuyield.collect.prometheus import Prometheus
from gpuyield.errors import DeclarationError, GpuyieldError, SourceError
from gpuyield.ledger import Ledger
from gpuyield.ledger.tables import COVERAGE
from gpuyield.model.declaration import Endpoint, Rules, Teams
from gpuyield.units import DAY_MS, MINUTE_MS, Window, day_window

LOCAL = "http://127.0.0.1:9090"
SERVICES = (
    "monitoring/prometheus-operated:9090",
    "monitoring/prometheus-server:80",
    "monitoring/kube-prometheus-stack-prometheus:9090",
    "monitoring/prometheus-k8s:9090",
    "prometheus/prometheus-server:80",
    "monitoring/vmsingle-vmks-victoria-metrics-k8s-stack:8429",
    "monitoring/victoria-metrics-single-server:8428",
)
"""Where charts put a metrics store, most common first."""

_BACK_MS = 400 * DAY_MS
_CAPACITY = "kube_node_status_capacity"


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A metrics store that answers, where it was found, and the span of its node capacities (None: it has none)."""

    source: Prometheus
    endpoint: Endpoint
    product: str
    history: Window | None


def endpoint_of(text: str) -> Endpoint:
    """`http://...` as a URL, `namespace/name:port` as a service."""
    return Endpoint(url=text) if "://" in text else Endpoint(service=text)


def connect(endpoint: Endpoint, *, context: str | None, folder: Path) -> Prometheus:
    """A connection to a metrics store."""
    return connect_prometheus(endpoint, context=context, folder=folder, environment=os.environ, home=Path.home())


def find_store(named: str | None, *, context: str | None, folder: Path, now_ms: int) -> Found:
    """The store that is named, else the one at the usual places: this machine's, then the cluster's services.

    Raises:
        SourceError: None answers; the one that was named, or the first of the usual places.
    """
    places = [endpoint_of(named)] if named else [Endpoint(url=LOCAL), *(Endpoint(service=one) for one in SERVICES)]
    first: GpuyieldError | None = None
    for place in places:
        try:
            source = connect(place, context=context, folder=folder)
            build = source.build()
        except (SourceError, DeclarationError) as err:
            first = first or err
            if place.service is not None and isinstance(err, DeclarationError):
                break
            continue
        product = f"{build.product} {build.version}".strip()
        return Found(source=source, endpoint=place, product=product, history=history(source, now_ms))
    assert first is not None
    raise first


def history(source: Prometheus, now_ms: int) -> Window | None:
    """From the first to the last sample of node capacities; None where there is none."""
    times = f"timestamp({_CAPACITY})[{_BACK_MS // DAY_MS}d:1h]"
    oldest = source.vector(f"min(min_over_time({times}))", now_ms)
    newest = source.vector(f"max(max_over_time({times}))", now_ms)
    if oldest and newest:
        return Window(round(oldest[0][1] * 1000), round(newest[0][1] * 1000) + MINUTE_MS)
    # A server without subqueries: read the samples of the nodes themselves.
    read = source.raw(_CAPACITY, (), Window(now_ms - _BACK_MS, now_ms + MINUTE_MS))
    seen = [series.ts_ms for series in read if len(series.ts_ms)]
    if not seen:
        return None
    return Window(min(int(one[0]) for one in seen), max(int(one[-1]) for one in seen) + MINUTE_MS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Glimpse:
    """The last day of a store, accounted."""

    ledger: Ledger
    report: CollectReport
    accounting: Accounting
    window: Window


@contextmanager
def glimpse(source: Prometheus, newest_ms: int, teams: Teams | None = None) -> Iterator[Glimpse | None]:
    """The last day before `newest_ms`, read into a ledger that lives as long as the context; None where it is empty."""
    window = Window(newest_ms - DAY_MS, newest_ms)
    with TemporaryDirectory(prefix="gpuyield-look-") as folder:
        ledger = Ledger.create(Path(folder) / "ledger")
        report = collect_window(
            source=source, ledger=ledger, window=window, rules=Rules(), now_ms=newest_ms + SETTLE_MS
        )
        if not [day for day in ledger.days(COVERAGE) if day_window(day).to_ms > window.from_ms]:
            yield None
            return
        accounting = account_window(ledger, window=window, rules=Rules(), teams=teams or Teams())
        yield Glimpse(ledger=ledger, report=report, accounting=accounting, window=window)
