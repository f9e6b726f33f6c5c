"""Who says how busy the GPUs were during a probe: the exporter's own page, or the metrics store that scrapes it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Protocol

from gpuyield.collect.endpoint import Endpoint
from gpuyield.collect.gpu_page import read_gpu_page
from gpuyield.collect.gpu_store import read_gpu_scrapes
from gpuyield.collect.http import HttpClient
from gpuyield.collect.prometheus import Prometheus
from gpuyield.errors import SourceError
from gpuyield.measure.witness import Readings
from gpuyield.model.declaration import Declaration
from gpuyield.model.measure import SECOND_NS
from gpuyield.model.witness import GpuReading
from gpuyield.steps.measure_pages import WATCH_PATIENCE, Pages, Reader
from gpuyield.steps.metrics_store import metrics_store
from gpuyield.units import MINUTE_MS, Window

_BEFORE_MS = 3 * MINUTE_MS
_CLOCKS_DIFFER_MS = 2_000
_EXPORTER, _STORE = "the GPU exporter", "the metrics store"


class Told(Protocol):
    """What there is to tell when a probe has ended."""

    def readings(self, started_ns: int) -> Readings:
        """The readings of the GPUs alone; `started_ns` is the zero of their times on the monotonic clock."""
        ...


class GpuWatch(Protocol):
    """Looks at the GPUs while a probe runs."""

    def beside(self, beat_s: float) -> AbstractContextManager[Told]:
        """Look as long as the context lasts, about once every `beat_s`."""
        ...


class ExporterPage:
    """The page of the exporter, read while the probe runs; `namespace` None: all cards of the page."""

    def __init__(self, where: Endpoint, namespace: str | None) -> None:
        self._client = HttpClient(where, patience=WATCH_PATIENCE)
        self._namespace = namespace

    @contextmanager
    def beside(self, beat_s: float) -> Iterator[Told]:
        """Read the page again and again."""
        with Reader(self._client, "", _EXPORTER, beat_s) as reader:
            yield _PagesTold(reader.pages, self._namespace)


class _PagesTold:
    def __init__(self, pages: Pages, namespace: str | None) -> None:
        self._pages = pages
        self._namespace = namespace

    def readings(self, started_ns: int) -> Readings:
        gpu = self._pages.parsed(started_ns, self._reading)
        why = self._pages.why if not gpu else ""
        if self._pages.bodies and not gpu:
            why = f"{_EXPORTER} names no GPU{_holder(self._namespace)} and how busy it is"
        return Readings(gpu=gpu, why_gpu=why)

    def _reading(self, page: str, at_ns: int) -> GpuReading | None:
        found = read_gpu_page(page, namespace=self._namespace)
        if found is None:
            return None
        return GpuReading(at_ns=at_ns, metric=found.metric, busy=found.busy, mark=found.mark, models=found.models)


class MetricsStore:
    """The store that scrapes the exporters, asked once when the probe has ended."""

    def __init__(self, store: Prometheus, namespace: str) -> None:
        self._store = store
        self._namespace = namespace

    @contextmanager
    def beside(self, beat_s: float) -> Iterator[Told]:
        """Nothing is read yet; what the store has by then is asked for in the end."""
        yield self

    def readings(self, started_ns: int) -> Readings:
        """What the store has of the time since the probe began."""
        now_ns, now_ms = time.monotonic_ns(), time.time_ns() // 1_000_000
        return self.between(now_ms - (now_ns - started_ns) * 1000 // SECOND_NS, now_ms)

    def between(self, began_ms: int, ended_ms: int) -> Readings:
        """What the store has of a probe that began and ended then, on our clock."""
        try:
            ahead_ms = self._ahead_ms()
            window = Window(began_ms + ahead_ms - _BEFORE_MS, ended_ms + ahead_ms + 1)
            scrapes = read_gpu_scrapes(self._store, window, namespace=self._namespace)
        except SourceError as err:
            return Readings(why_gpu=f"{_STORE} did not tell of the GPUs: {err.mistakes[0].what}")
        zero_ms = began_ms + ahead_ms
        gpu = [
            GpuReading(
                at_ns=(one.at_ms - zero_ms) * SECOND_NS // 1000,
                metric=one.metric,
                busy=one.busy,
                mark=one.mark,
                exporter=one.exporter,
                models=one.models,
            )
            for one in scrapes
        ]
        why = "" if gpu else f"{_STORE} has no GPU{_holder(self._namespace)} and how busy it was"
        return Readings(gpu=gpu, why_gpu=why)

    def _ahead_ms(self) -> int:
        """How far the store's clock is ahead of ours; it tells whole seconds, so less than two is nothing."""
        self._store.build()
        told_ms = self._store.server_ms()
        ahead_ms = 0 if told_ms is None else told_ms - time.time_ns() // 1_000_000
        return ahead_ms if abs(ahead_ms) >= _CLOCKS_DIFFER_MS else 0


def gpus_of(exporter: Endpoint | None, namespace: str | None, declared: Declaration, folder: Path) -> GpuWatch | None:
    """The exporter that is named, else the declared store where a namespace says which cards; None: nobody tells.

    Raises:
        DeclarationError: What is declared of the store cannot be used.
    """
    return store_of(namespace, declared, folder) if exporter is None else ExporterPage(exporter, namespace)


def store_of(namespace: str | None, declared: Declaration, folder: Path) -> MetricsStore | None:
    """The declared store where a namespace says which cards; None: it cannot tell.

    Raises:
        DeclarationError: What is declared of it cannot be used.
    """
    if namespace is None:
        return None
    store = metrics_store(declared.sources, folder=folder, patience=WATCH_PATIENCE)
    return None if store is None else MetricsStore(store, namespace)


def _holder(namespace: str | None) -> str:
    return "" if namespace is None else f" that namespace {namespace} holds"
