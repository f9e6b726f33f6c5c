"""Read the declared sources into the ledger."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from gpuyield.collect.collect import CollectReport, DayProgress
from gpuyield.collect.collect import collect as collect_window
from gpuyield.collect.connect import opencost as connect_opencost
from gpuyield.collect.connect import prometheus as connect_prometheus
from gpuyield.collect.opencost import collect_prices
from gpuyield.errors import DeclarationError
from gpuyield.ledger import Ledger
from gpuyield.model.declaration import Declaration
from gpuyield.model.evidence import Gap
from gpuyield.report.answer import Answer
from gpuyield.report.screens.collect import OutcomeFiles, collect_answer
from gpuyield.steps.configs import remember_configs
from gpuyield.steps.live import remember_finished
from gpuyield.steps.outcomes import import_declared
from gpuyield.steps.setting import DEFAULT_WINDOW, read_declaration, wall_clock_ms
from gpuyield.units import Window, parse_span, parse_window, parse_zone

Tell = Callable[[str], None]


def collect(
    *,
    file: Path,
    ledger_root: Path,
    window: str | None,
    begin: str | None,
    end: str | None,
    refresh: bool,
    tell: Tell,
    now_ms: int | None = None,
) -> Answer:
    """The answer of `gpuyield collect`."""
    declared = read_declaration(file, required=True)
    now = wall_clock_ms() if now_ms is None else now_ms
    span = _window(declared, window=window, begin=begin, end=end, now_ms=now)
    ledger = Ledger.create(ledger_root)
    with _kept_when_interrupted(ledger_root):
        found = collect_sources(
            declared, folder=file.parent, ledger=ledger, window=span, now_ms=now, refresh=refresh, tell=tell
        )
        gaps: list[Gap] = []
        if declared.sources.opencost is not None:
            gaps = _prices(declared, folder=file.parent, ledger=ledger, window=span, now_ms=now, refresh=refresh)
        gaps += remember_finished(declared, ledger)
        outcomes = import_declared(declared, folder=file.parent, ledger=ledger, now_ms=now)
        remember_configs(declared, ledger, now_ms=now)
    return collect_answer(
        found,
        gaps=tuple(gaps),
        opencost=declared.sources.opencost is not None,
        outcomes=OutcomeFiles(files=len(outcomes), outcomes=sum(one.new_outcomes for one in outcomes)),
        root=str(ledger_root),
        zone=parse_zone(declared.reporting_zone),
    )


@contextmanager
def _kept_when_interrupted(ledger_root: Path) -> Iterator[None]:
    """Say at Ctrl-C what is kept, and that the same command goes on."""
    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            f"Every day that was read whole is in {ledger_root} and stays. The same command goes on with the rest."
        ) from None


def collect_sources(
    declared: Declaration, *, folder: Path, ledger: Ledger, window: Window, now_ms: int, refresh: bool, tell: Tell
) -> CollectReport:
    """Samples of the declared Prometheus."""
    if declared.sources.prometheus is None:
        raise DeclarationError(
            "no Prometheus is declared.",
            where="sources.prometheus",
            fix="Run gpuyield init, or write sources: {prometheus: {url: ...}} into gpuyield.yaml.",
        )
    source = connect_prometheus(
        declared.sources.prometheus,
        context=declared.sources.context,
        folder=folder,
        environment=os.environ,
        home=Path.home(),
    )

    def progress(one: DayProgress) -> None:
        tell(f"{one.day}: day {one.done} of {one.of}, {one.samples:,} samples in {one.queries} queries")

    tell("looking at Prometheus")
    return collect_window(
        source=source,
        ledger=ledger,
        window=window,
        rules=declared.rules,
        now_ms=now_ms,
        refresh=refresh,
        progress=progress,
    )


def _prices(
    declared: Declaration, *, folder: Path, ledger: Ledger, window: Window, now_ms: int, refresh: bool
) -> list[Gap]:
    assert declared.sources.opencost is not None
    if declared.currency is None:
        raise DeclarationError(
            "OpenCost names no currency and none is declared.", where="currency", fix="Write currency: EUR."
        )
    source = connect_opencost(
        declared.sources.opencost,
        context=declared.sources.context,
        folder=folder,
        environment=os.environ,
        home=Path.home(),
    )
    return collect_prices(
        source=source, ledger=ledger, window=window, currency=declared.currency, now_ms=now_ms, refresh=refresh
    )


def _window(declared: Declaration, *, window: str | None, begin: str | None, end: str | None, now_ms: int) -> Window:
    zone = parse_zone(declared.reporting_zone)
    if (begin is None) != (end is None):
        raise DeclarationError("--from and --to go together.", where="--from", fix="Give both, or --window 14d.")
    if begin is not None and end is not None:
        if window is not None:
            raise DeclarationError("--window and --from/--to contradict.", where="--window", fix="Give one of them.")
        return parse_span(begin, end, zone=zone)
    return parse_window(window or DEFAULT_WINDOW, now_ms=now_ms, zone=zone)
