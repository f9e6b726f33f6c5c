"""What Kueue counted in the last day, by the declared Prometheus."""

from __future__ import annotations

from pathlib import Path

from gpuyield.collect.http import Patience
from gpuyield.collect.kueue.counts import read_counts
from gpuyield.errors import SourceError
from gpuyield.model.declaration import Declaration
from gpuyield.model.evidence import Gap
from gpuyield.model.kueue_counts import KueueCounts
from gpuyield.steps.metrics_store import metrics_store
from gpuyield.units import DAY_MS, Window

_WHOLE = 0.98
_PATIENCE = Patience(read_s=20, total_s=30, attempts=1)
"""The jobs that wait now are told without it too."""


def kueue_counts(declared: Declaration, *, folder: Path, now_ms: int) -> tuple[KueueCounts | None, tuple[Gap, ...]]:
    """The counts of the day before now, and why there are none; neither where no Prometheus is declared.

    Raises:
        DeclarationError: What is declared of it cannot be used.
    """
    source = metrics_store(declared.sources, folder=folder, patience=_PATIENCE)
    if source is None:
        return None, ()
    try:
        found = read_counts(source, Window(now_ms - DAY_MS, now_ms))
    except SourceError as err:
        return None, (Gap(reason=f"What Kueue counted is not known: {err.mistakes[0]}", where="sources.prometheus"),)
    if found is None:
        reason = "It has none of Kueue's metrics of the last day: let it scrape Kueue's controller manager."
        return None, (Gap(reason=reason, where="sources.prometheus"),)
    gaps = [Gap(reason=reason, where=where) for reason, where in source.take_notes()]
    if found.known < _WHOLE:
        reason = (
            f"It has Kueue's metrics of {found.known:.0%} of the last day: what Kueue counted is of that time, and what"
            " happened in the rest is not known."
        )
        gaps.append(Gap(reason=reason, where="sources.prometheus"))
    return found, tuple(gaps)
