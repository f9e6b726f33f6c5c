"""The answer of `gpuyield init`: what was found, and what only a person can add."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gpuyield.declare.draft import Seen, SeenBatch, SeenService
from gpuyield.errors import Mistake
from gpuyield.model.document import gaps_document, schema_name, window_document
from gpuyield.model.evidence import Gap
from gpuyield.report.answer import Answer, Next
from gpuyield.report.sentences import count, listed
from gpuyield.report.tables import Column, Kind, Table, format_span
from gpuyield.units import Window

_MOST_ROWS = 12
_WORTH_A_ROW = 0.005


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """What a look at the metrics store and the cluster gave.

    `history` is the span of the store's samples of GPUs (None: it has none), `read` the part of it that shares of
    GPU-hours are of. `idle` is work that the draft leaves out: it holds whole GPUs idle now. `serving` counts servers
    of models with metrics by engine. `passed_over` are places that were tried before this one.
    """

    product: str
    version: str
    history: Window | None
    is_stale: bool = False
    read: Window | None = None
    activity: tuple[str, ...] = ()
    cards: int = 0
    has_pod_labels: bool = False
    serving: Mapping[str, int] = field(default_factory=dict)
    queues: tuple[str, ...] = ()
    context: str | None = None
    kueue_version: str | None = None
    has_prices: bool = False
    idle: tuple[SeenService, ...] = ()
    gaps: tuple[Gap, ...] = ()
    passed_over: tuple[Mistake, ...] = ()


def init_answer(looked: Looked, seen: Seen, *, path: str) -> Answer:
    """What was found, as lines; the draft itself is in the file."""
    open_services, families = len(seen.services), len(seen.batch)
    summary = (
        f"{count(open_services, 'service')} without objectives,"
        f" {count(families, 'batch family', 'batch families')} without a deadline, no prices"
    )
    return Answer(
        document={
            "schema": schema_name("init"),
            "file": path,
            "context": looked.context,
            "prometheus": {
                "url": seen.prometheus_url,
                "service": seen.prometheus_service,
                "product": looked.product,
                "version": looked.version,
            },
            "opencost": {"url": seen.opencost_url, "service": seen.opencost_service},
            "history": None if looked.history is None else window_document(looked.history),
            "gpus": dict(seen.gpus_by_flavor),
            "cards_with_activity": looked.cards,
            "activity": list(looked.activity),
            "pod_labels": looked.has_pod_labels,
            "namespaces": list(seen.namespaces),
            "kueue": {"version": looked.kueue_version, "cluster_queues": list(looked.queues)} if seen.kueue else None,
            "shares_of": None if looked.read is None else window_document(looked.read),
            "services": [
                {
                    "namespace": one.namespace,
                    "name": one.name,
                    "model": one.model,
                    "engine": one.engine,
                    "gpus": one.gpus,
                    "share": one.gpu_share,
                    "objectives": 0,
                }
                for one in seen.services
            ],
            "batch": [
                {
                    "namespace": one.namespace,
                    "name": one.name,
                    "jobs": one.runs,
                    "gpus": one.gpus,
                    "share": one.gpu_share,
                    "deadline": None,
                }
                for one in seen.batch
            ],
            "idle": [
                {"namespace": one.namespace, "name": one.name, "gpus": one.gpus, "share": one.gpu_share}
                for one in looked.idle
            ],
            "tried": [{"what": one.what, "where": one.where} for one in looked.passed_over],
            "gaps": gaps_document(looked.gaps),
        },
        headline=(f"Wrote {path}: {summary}. The lines that start with '# >' ask for what only you know.",),
        tables=(_found(looked, seen), *_open_work(seen.services, seen.batch, looked.idle)),
        notes=(
            *(f"passed over: {one}" for one in looked.passed_over),
            *(f"gap: {gap.where}: {gap.reason}" for gap in looked.gaps[:8]),
        ),
        next=(
            Next(command=f"gpuyield check -f {path}", why="after filling it in"),
            Next(command=f"gpuyield collect -f {path} --window 14d", why="read the history into the ledger"),
        ),
    )


def _found(looked: Looked, seen: Seen) -> Table:
    place = seen.prometheus_url or seen.prometheus_service or ""
    product = f"{looked.product} {looked.version}".strip()
    rows = [("Prometheus", place, f"{product}, {_history(looked)}")]
    flavors = listed([f"{number} {flavor}" for flavor, number in seen.gpus_by_flavor.items()])
    gpus = sum(seen.gpus_by_flavor.values())
    rows.append(("GPUs", count(gpus, "GPU") if gpus else "none", flavors or "no node reports any"))
    if looked.activity:
        pods = "pod labels present" if looked.has_pod_labels else "no pod labels: busy time of nobody in particular"
        rows.append(("activity", count(looked.cards, "card"), f"{', '.join(looked.activity)}; {pods}"))
    else:
        rows.append(("activity", "none", "all held GPU time is unobserved; gpuyield doctor says what it costs"))
    if seen.kueue:
        queues = count(len(looked.queues), "cluster queue")
        rows.append(("Kueue", looked.kueue_version or "metrics", queues))
    if seen.opencost_url or seen.opencost_service:
        rows.append(("OpenCost", str(seen.opencost_url or seen.opencost_service), "answers"))
    elif looked.has_prices:
        rows.append(("OpenCost", "metrics only", "name its address with --opencost to read prices"))
    for engine, number in looked.serving.items():
        rows.append((engine, count(number, "service"), "with metrics"))
    rows.append(("namespaces", f"{len(seen.namespaces)} with GPUs", listed(list(seen.namespaces), most=6)))
    rows.append(("services", count(len(seen.services), "service"), "hold GPUs without an end"))
    rows.append(("batch", count(len(seen.batch), "family", "families"), "of jobs in the last day"))
    return Table(
        title="",
        columns=(Column("what", "source"), Column("where", "where"), Column("found", "found")),
        rows=tuple(rows),
    )


def _open_work(
    services: Sequence[SeenService], batch: Sequence[SeenBatch], idle: Sequence[SeenService]
) -> tuple[Table, ...]:
    """Work that nobody has promised anything for, the largest share of GPU-hours first."""
    rows = [(one.gpu_share, "objectives", f"{one.namespace}/{one.name}", one.gpus) for one in services]
    rows += [(one.gpu_share, "a deadline", f"{one.namespace}/{one.name}", one.gpus) for one in batch]
    rows += [(one.gpu_share, "nothing: idle now", f"{one.namespace}/{one.name}", one.gpus) for one in idle]
    rows.sort(key=lambda row: (-(row[0] or 0), row[2]))
    if not rows:
        return ()
    left = rows[_MOST_ROWS:]
    shown = [(name, lacks, gpus, share) for share, lacks, name, gpus in rows[:_MOST_ROWS]]
    if left:
        shown.append((f"{len(left)} more", "", None, sum(share or 0 for share, *_ in left)))
    rest = 1 - sum(share or 0 for share, *_ in rows)
    if rest > _WORTH_A_ROW and any(share is not None for share, *_ in rows):
        shown.append(("everything else", "", None, rest))
    return (
        Table(
            title="Nothing is declared for",
            columns=(
                Column("work", "work"),
                Column("lacks", "lacks"),
                Column("gpus", "GPUs", Kind.COUNT),
                Column("share", "of GPU-hours", Kind.RATIO),
            ),
            rows=tuple(shown),
        ),
    )


def _history(looked: Looked) -> str:
    if looked.history is None:
        return "nothing about GPUs in it"
    stale = ", none of it from the last hour" if looked.is_stale else ""
    return f"{format_span(looked.history.length_ms)} of history{stale}"
