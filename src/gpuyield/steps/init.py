"""Look around read-only and draft gpuyield.yaml."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from gpuyield.collect.connect import opencost as connect_opencost
from gpuyield.declare.draft import Seen, draft_text
from gpuyield.errors import DeclarationError
from gpuyield.report.answer import Answer
from gpuyield.report.screens.init import Looked, init_answer
from gpuyield.steps import seen as seeing
from gpuyield.steps.documents import write
from gpuyield.steps.look import Found, endpoint_of, find_store, glimpse
from gpuyield.steps.setting import wall_clock_ms
from gpuyield.units import DAY_MS, Window

Tell = Callable[[str], None]


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
    tell("looking for Prometheus")
    now_ms = wall_clock_ms()
    found = find_store(prometheus, context=context, folder=Path(), now_ms=now_ms)
    if opencost is not None:
        _ask_opencost(opencost, context, now_ms)
    seen, looked = _look(found, opencost=opencost, context=context, tell=tell)
    text = draft_text(seen)
    if prints:
        return Answer(document=init_answer(looked, seen, path="-").document, text=text)
    write(out, text.encode())
    return init_answer(looked, seen, path=str(out))


def _look(found: Found, *, opencost: str | None, context: str | None, tell: Tell) -> tuple[Seen, Looked]:
    oc = endpoint_of(opencost) if opencost else None
    base = Seen(
        prometheus_url=found.endpoint.url,
        prometheus_service=found.endpoint.service,
        opencost_url=oc.url if oc else None,
        opencost_service=oc.service if oc else None,
        context=context,
    )
    if found.history is None:
        return base, Looked(product=found.product, history=None)
    tell("reading its last day")
    with glimpse(found.source, found.history.to_ms) as seen:
        if seen is None:
            return base, Looked(product=found.product, history=found.history)
        labels = seeing.pod_labels(seen)
        drafted = Seen(
            prometheus_url=base.prometheus_url,
            prometheus_service=base.prometheus_service,
            opencost_url=base.opencost_url,
            opencost_service=base.opencost_service,
            context=context,
            team_label=seeing.team_label(labels),
            gpus_by_flavor=seeing.gpus_by_flavor(seen),
            namespaces=seeing.namespaces(seen),
            services=seeing.services(seen, labels),
            batch=seeing.batch(seen, labels),
        )
        looked = Looked(
            product=found.product,
            history=found.history,
            activity=tuple(
                sorted({name for kind, name in seen.report.names.items() if "active" in kind or "util" in kind})
            ),
            pod_labels=bool(labels),
            gaps=seen.report.gaps,
        )
    return drafted, looked


def _ask_opencost(address: str, context: str | None, now_ms: int) -> None:
    """Nothing, if OpenCost answers for the last whole day.

    Raises:
        SourceError: It does not.
    """
    day = now_ms - now_ms % DAY_MS
    source = connect_opencost(
        endpoint_of(address), context=context, folder=Path(), environment=os.environ, home=Path.home()
    )
    source.nodes(Window(day - DAY_MS, day))
