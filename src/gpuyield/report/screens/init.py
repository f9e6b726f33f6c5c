"""The answer of `gpuyield init`: what was found, and what only a person can add."""

from __future__ import annotations

from dataclasses import dataclass

from gpuyield.declare.draft import Seen
from gpuyield.model.document import schema_name
from gpuyield.model.evidence import Gap
from gpuyield.report.answer import Answer, Next
from gpuyield.report.documents import gaps_document, window_document
from gpuyield.report.sentences import count, listed
from gpuyield.report.tables import Column, Table, format_span
from gpuyield.units import Window


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """What a look at the metrics store gave: its history, and the activity metrics it has."""

    product: str
    history: Window | None
    activity: tuple[str, ...] = ()
    pod_labels: bool = False
    gaps: tuple[Gap, ...] = ()


def init_answer(looked: Looked, seen: Seen, *, path: str) -> Answer:
    """What was found, as lines; the draft itself is in the file."""
    place = seen.prometheus_url or seen.prometheus_service or ""
    gpus = sum(seen.gpus_by_flavor.values())
    rows = [("Prometheus", f"{looked.product} at {place}, {_history(looked.history)}")]
    flavors = listed([f"{number} {flavor}" for flavor, number in seen.gpus_by_flavor.items()])
    rows.append(("GPUs", f"{count(gpus, 'GPU')}: {flavors}" if gpus else "no node reports any"))
    rows.append(
        ("activity", ", ".join(looked.activity) if looked.activity else "no metric: all held time is unobserved")
    )
    rows.append(("services", f"{len(seen.services)} that hold GPUs round the clock"))
    rows.append(("batch", f"{count(len(seen.batch), 'family', 'families')} of jobs in the last day"))
    if seen.opencost_url or seen.opencost_service:
        rows.append(("OpenCost", str(seen.opencost_url or seen.opencost_service)))
    summary = f"{count(len(seen.services), 'service')} without objectives, 0 deadlines, no prices"
    return Answer(
        document={
            "schema": schema_name("init"),
            "file": path,
            "source": looked.product,
            "history": None if looked.history is None else window_document(looked.history),
            "gpus": dict(seen.gpus_by_flavor),
            "activity": list(looked.activity),
            "services": [f"{one.namespace}/{one.name}" for one in seen.services],
            "batch": [f"{one.namespace}/{one.name}" for one in seen.batch],
            "gaps": gaps_document(looked.gaps),
        },
        headline=(f"Wrote {path}: {summary}. The lines that start with '# >' ask for what only you know.",),
        tables=(Table(title="", columns=(Column("what", "found"), Column("is", "")), rows=tuple(rows)),),
        notes=tuple(f"gap: {gap.where}: {gap.reason}" for gap in looked.gaps[:5]),
        next=(
            Next(command=f"gpuyield check -f {path}", why="after filling it in"),
            Next(command=f"gpuyield collect -f {path} --window 14d", why="read the history into the ledger"),
        ),
    )


def _history(history: Window | None) -> str:
    if history is None:
        return "no node of a cluster in it"
    return f"{format_span(history.length_ms)} of history"
