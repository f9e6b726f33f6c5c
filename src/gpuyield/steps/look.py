"""Look around: which metrics store answers, what it has, and the last day of it in a ledger that is thrown away."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from gpuyield.account import Accounting
from gpuyield.account import account as account_window
from gpuyield.collect.collect import SETTLE_MS, CollectReport
from gpuyield.collect.collect import collect as collect_window
from gpuyield.collect.connect import prometheus as connect_prometheus
from gpuyield.collect.look import Look, look
from gpuyield.collect.probe import PATIENCE, ClusterSeen, api_server, probe
from gpuyield.collect.probe_services import metrics_stores
from gpuyield.collect.prometheus import Prometheus
from gpuyield.errors import DeclarationError, GpuyieldError, Mistake, SourceError
from gpuyield.ledger import Ledger
from gpuyield.ledger.tables import COVERAGE
from gpuyield.model.declaration import Endpoint, Rules, Teams
from gpuyield.units import DAY_MS, MINUTE_MS, Window, day_window

LOCAL = "http://127.0.0.1:9090"
VARIABLE = "GPUYIELD_PROMETHEUS"
IN_CLUSTER = "in-cluster"
"""What the cluster of the pod we run in is called: not the name of a context."""

_MOST_TRIED = 8

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Around:
    """Where to look from: what was named, the environment, the home, and the folder that relative paths start at."""

    environment: Mapping[str, str]
    home: Path
    folder: Path
    prometheus: str | None = None
    context: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A metrics store that answers, where it was found, what is in it, and the cluster it was found by."""

    source: Prometheus
    endpoint: Endpoint
    look: Look
    cluster: ClusterSeen | None
    passed_over: tuple[Mistake, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    endpoint: Endpoint
    named_by: str
    context: str | None = None


def endpoint_of(text: str) -> Endpoint:
    """`http://...` as a URL, `namespace/name:port` as a service."""
    return Endpoint(url=text) if "://" in text else Endpoint(service=text)


def find_store(around: Around, *, now_ms: int, tell: Tell) -> Found:
    """The store that is named, by option or environment; else one in the cluster; else the usual local port.

    Of those found the first that tells of GPUs is taken, else the first that answers.

    Raises:
        SourceError: None answers: every place that was tried is one of its mistakes.
        DeclarationError: What is named cannot be used, or the context that is named.
    """
    tried: list[Mistake] = []
    named = around.prometheus or around.environment.get(VARIABLE)
    cluster = _cluster(around, tried, tell) if around.context or not named else None
    places = [_named(named, around)] if named else _usual_places(cluster, tried)
    answering: list[Found] = []
    for place in places:
        tell(f"asking {place.endpoint.url or place.endpoint.service}")
        try:
            found = _ask(place, around, now_ms=now_ms)
        except (SourceError, DeclarationError) as err:
            if named and isinstance(err, DeclarationError):
                raise
            tried += [replace(one, where=place.named_by) for one in err.mistakes]
            continue
        answering.append(replace(found, cluster=cluster, passed_over=tuple(tried)))
        if found.look.newest_ms is not None:
            return answering[-1]
    if answering:
        return answering[0]
    raise SourceError.of(tried)


def _named(text: str, around: Around) -> _Place:
    by = VARIABLE if around.environment.get(VARIABLE) == text else "--prometheus"
    return _Place(endpoint=endpoint_of(text), named_by=by, context=around.context)


def _usual_places(cluster: ClusterSeen | None, tried: list[Mistake]) -> list[_Place]:
    """What looks like a store in the cluster, and the local port."""
    places = _places(cluster) if cluster else []
    if cluster and not places:
        tried.append(
            Mistake(
                what=f"none of its {len(cluster.services)} services looks like Prometheus.",
                where=f"context {cluster.context}",
                fix="Name it: --prometheus namespace/name:port.",
            )
        )
    return [*places, _Place(endpoint=Endpoint(url=LOCAL), named_by="the usual place")]


def _places(cluster: ClusterSeen) -> list[_Place]:
    by = f"context {cluster.context}"
    context = None if cluster.context == IN_CLUSTER else cluster.context
    return [
        _Place(endpoint=Endpoint(service=one), named_by=by, context=context)
        for one in metrics_stores(cluster.services)[:_MOST_TRIED]
    ]


def _cluster(around: Around, tried: list[Mistake], tell: Tell) -> ClusterSeen | None:
    """What the context may see; without a context that was named, trouble is only noted."""
    try:
        server = api_server(around.context, environment=around.environment, home=around.home)
        tell(f"looking in context {server.context} (read verbs only)")
        return probe(server)
    except GpuyieldError as err:
        if around.context is not None:
            raise
        tried += err.mistakes
        return None


def _ask(place: _Place, around: Around, *, now_ms: int) -> Found:
    source = connect(
        place.endpoint,
        context=place.context or around.context,
        folder=around.folder,
        environment=around.environment,
        home=around.home,
    )
    return Found(source=source, endpoint=place.endpoint, look=look(source, now_ms=now_ms), cluster=None)


def connect(
    endpoint: Endpoint, *, context: str | None, folder: Path, environment: Mapping[str, str], home: Path
) -> Prometheus:
    """A connection to a metrics store that answers.

    Raises:
        SourceError: It does not; that is found out sooner than a collection would give up.
    """
    for patience in (PATIENCE, None):
        source = connect_prometheus(
            endpoint, context=context, folder=folder, environment=environment, home=home, patience=patience
        )
        source.build()
    return source


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


def end_of(seen: Look) -> int | None:
    """The end of what a store holds: one minute after its newest sample."""
    return None if seen.newest_ms is None else seen.newest_ms + MINUTE_MS
