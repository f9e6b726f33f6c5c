"""Look around read-only and draft gpuyield.yaml."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

from gpuyield.collect.connect import opencost as connect_opencost
from gpuyield.collect.probe import PATIENCE, ClusterSeen
from gpuyield.collect.probe_services import opencosts
from gpuyield.declare.draft import Seen, draft_text
from gpuyield.errors import DeclarationError, GpuyieldError
from gpuyield.ledger.tables import Activity
from gpuyield.model.declaration import Endpoint
from gpuyield.model.evidence import Gap
from gpuyield.report.answer import Answer
from gpuyield.report.screens.init import Looked, init_answer
from gpuyield.steps import seen as seeing
from gpuyield.steps.documents import write
from gpuyield.steps.look import IN_CLUSTER, Around, Found, Tell, end_of, endpoint_of, find_store, glimpse
from gpuyield.steps.setting import wall_clock_ms
from gpuyield.units import DAY_MS, HOUR_MS, Window


def init(
    *,
    prometheus: str | None,
    opencost: str | None,
    context: str | None,
    out: Path,
    force: bool,
    tell: Tell,
) -> Answer:
    """The answer of `gpuyield init`."""
    prints = str(out) == "-"
    if not prints and out.exists() and not force:
        raise DeclarationError("the file is there already.", where=str(out), fix="Name another with --out, or --force.")
    around = Around(environment=os.environ, home=Path.home(), folder=Path(), prometheus=prometheus, context=context)
    now_ms = wall_clock_ms()
    found = find_store(around, now_ms=now_ms, tell=tell)
    priced = _opencost(opencost, around, found.cluster, now_ms)
    tell("reading its last day")
    seen, looked = _look(found, priced, now_ms)
    text = draft_text(seen)
    if prints:
        return Answer(document=init_answer(looked, seen, path="-").document, text=text)
    write(out, text.encode())
    return init_answer(looked, seen, path=str(out))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Priced:
    """An OpenCost that answers (None: none does), and what is in the way of one that was found."""

    endpoint: Endpoint | None
    gaps: tuple[Gap, ...] = ()


def _look(found: Found, priced: _Priced, now_ms: int) -> tuple[Seen, Looked]:
    look, cluster = found.look, found.cluster
    context = cluster.context if cluster and cluster.context != IN_CLUSTER else None
    seen = Seen(
        prometheus_url=found.endpoint.url,
        prometheus_service=found.endpoint.service,
        opencost_url=priced.endpoint.url if priced.endpoint else None,
        opencost_service=priced.endpoint.service if priced.endpoint else None,
        context=context,
        kueue=bool(look.queues) or (cluster is not None and cluster.kueue is not None),
        gpus_by_flavor=look.gpus_by_flavor,
        namespaces=look.namespaces,
    )
    newest_ms = end_of(look)
    looked = Looked(
        product=look.build.product,
        version=look.build.version,
        history=Window(look.first_ms, newest_ms) if newest_ms and look.first_ms is not None else None,
        is_stale=newest_ms is not None and now_ms - newest_ms > HOUR_MS,
        activity=tuple(name for kind in Activity for name in look.names.get(kind, ())),
        cards=look.cards,
        has_pod_labels=look.has_pod_labels,
        serving=dict(sorted(Counter(one.engine for one in look.serving).items())),
        queues=(cluster.kueue.cluster_queues if cluster and cluster.kueue else None) or look.queues,
        context=cluster.context if cluster else None,
        kueue_version=cluster.kueue.version if cluster and cluster.kueue else None,
        has_prices=look.has_prices,
        gaps=(*(cluster.gaps if cluster else ()), *priced.gaps),
        passed_over=found.passed_over,
    )
    if newest_ms is None:
        return seen, looked
    with glimpse(found.source, newest_ms) as day:
        if day is None:
            return seen, looked
        labels = seeing.pod_labels(day)
        seen = replace(
            seen,
            team_label=seeing.team_label(labels),
            gpus_by_flavor=seeing.gpus_by_flavor(day) or seen.gpus_by_flavor,
            namespaces=seeing.namespaces(day) or seen.namespaces,
            services=seeing.services(day, labels, look.serving, cluster.services if cluster else ()),
            batch=seeing.batch(day, labels),
        )
        idle = tuple(seeing.idle_work(day, seen.services))
        looked = replace(looked, read=day.window, idle=idle, gaps=(*looked.gaps, *day.report.gaps))
    return seen, looked


def _opencost(named: str | None, around: Around, cluster: ClusterSeen | None, now_ms: int) -> _Priced:
    """The one that is named, which must answer; else the first in the cluster that does.

    Raises:
        SourceError: The one that is named does not answer for the last whole day.
    """
    if named is not None:
        endpoint = endpoint_of(named)
        _ask_opencost(endpoint, around, around.context, now_ms, patient=True)
        return _Priced(endpoint=endpoint)
    gaps: list[Gap] = []
    context = cluster.context if cluster and cluster.context != IN_CLUSTER else None
    for place in opencosts(cluster.services) if cluster else ():
        try:
            endpoint = Endpoint(service=place)
            _ask_opencost(endpoint, around, context, now_ms, patient=False)
            return _Priced(endpoint=endpoint)
        except GpuyieldError as err:
            gaps.append(Gap(reason=f"{err.mistakes[0].what} Left out of the draft.", where=place))
    return _Priced(endpoint=None, gaps=tuple(gaps))


def _ask_opencost(endpoint: Endpoint, around: Around, context: str | None, now_ms: int, *, patient: bool) -> None:
    day_ms = now_ms - now_ms % DAY_MS
    connect_opencost(
        endpoint,
        context=context,
        folder=around.folder,
        environment=around.environment,
        home=around.home,
        patience=None if patient else PATIENCE,
    ).nodes(Window(day_ms - DAY_MS, day_ms))
