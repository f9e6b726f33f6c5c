"""Second witnesses of a probe: the server's metrics page and the GPU exporter's, read at a gentle beat beside it.

Pages are fetched by threads of this process, which sends no load, and are read when the probe has ended. What fails
here is a gap, and never touches the probe.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Self, TypeVar

from gpuyield.collect.gpu_page import read_gpu_page
from gpuyield.collect.http import HttpClient, Patience
from gpuyield.errors import SourceError
from gpuyield.measure.engines import gpu_reading_of_server, server_reading
from gpuyield.measure.sender.bench import LiveBench
from gpuyield.measure.witness import Readings, witness_of
from gpuyield.model.measure import SECOND_NS, Arrivals, ProbePlan, Run
from gpuyield.model.witness import GpuReading, ServerReading
from gpuyield.steps.measure_asked import Asked
from gpuyield.steps.measure_service import above_v1

WATCH_PATIENCE = Patience(connect_s=2, read_s=2, total_s=3, attempts=1)
_SHORTEST_BEAT_S, _LONGEST_BEAT_S = 1.0, 10.0
_READINGS = 120
_MOST_FAILURES = 3
_LET_GO_S = 0.2
_Reading = TypeVar("_Reading", ServerReading, GpuReading)


@dataclass(slots=True)
class Pages:
    """The pages of one place: when each was read, on the monotonic clock, and what it said. `why`: the last failure."""

    place: str
    bodies: list[tuple[int, bytes]] = field(default_factory=list)
    why: str = ""


class Reader:
    """Reads one page again and again until it is left; a context manager. Three failures in a row end it."""

    def __init__(self, client: HttpClient, path: str, place: str, beat_s: float) -> None:
        self.pages = Pages(place)
        self._client = client
        self._path = path
        self._beat_s = beat_s
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True, name=f"gpuyield-{place}")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, err: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        # Whoever stops everything does not wait for a page.
        self._thread.join(timeout=_LET_GO_S if err is not None else WATCH_PATIENCE.total_s)

    def _read(self) -> None:
        failures = 0
        while failures < _MOST_FAILURES and not self._over.is_set():
            asked_ns = time.monotonic_ns()
            failures = 0 if self._one(asked_ns) else failures + 1
            self._over.wait(max(0.1, self._beat_s - (time.monotonic_ns() - asked_ns) / SECOND_NS))

    def _one(self, asked_ns: int) -> bool:
        try:
            answer = self._client.get(self._path)
        except SourceError as err:
            self.pages.why = f"{self.pages.place} did not answer during the probe: {err.mistakes[0].what}"
            return False
        if answer.status != 200:
            self.pages.why = f"{self.pages.place} answered {answer.status} during the probe"
            return False
        self.pages.bodies.append(((asked_ns + time.monotonic_ns()) // 2, answer.body))
        return True


def watched(bench: LiveBench, asked: Asked) -> Watched:
    """The same bench, with the witnesses that the question names."""
    service = asked.service
    return Watched(
        bench,
        HttpClient(above_v1(asked.where), patience=WATCH_PATIENCE),
        None if asked.gpus is None else HttpClient(asked.gpus, patience=WATCH_PATIENCE),
        None if service is None else service.selector.namespace,
    )


class Watched:
    """A live bench whose probes have witnesses; `gpus` None: no exporter is named."""

    def __init__(
        self, bench: LiveBench, server: HttpClient, gpus: HttpClient | None = None, namespace: str | None = None
    ) -> None:
        self._bench = bench
        self._server = server
        self._gpus = gpus
        self._namespace = namespace

    def run(self, plan: ProbePlan, arrivals: Arrivals) -> Run:
        """Run a probe, and read what others see of it."""
        beat_s = min(_LONGEST_BEAT_S, max(_SHORTEST_BEAT_S, plan.sending_ns / SECOND_NS / _READINGS))
        with ExitStack() as watching:
            server = watching.enter_context(Reader(self._server, "/metrics", "the server's metrics page", beat_s))
            gpus = None
            if self._gpus is not None:
                gpus = watching.enter_context(Reader(self._gpus, "", "the GPU exporter", beat_s))
            run = self._bench.run(plan, arrivals)
        told = Readings() if gpus is None else self._gpu_readings(gpus.pages)
        return replace(run, witness=witness_of(self._readings(server.pages, told), plan, run.records))

    def _readings(self, pages: Pages, told: Readings) -> Readings:
        server = self._parsed(pages, server_reading)
        why = pages.why if not server else ""
        if pages.bodies and not server:
            why = "the server's metrics page names no engine that is known here"
        # Triton tells of its GPUs itself.
        gpu = told.gpu or self._parsed(pages, gpu_reading_of_server)
        return replace(told, server=server, gpu=gpu, why_server=why, why_gpu="" if gpu else told.why_gpu)

    def _gpu_readings(self, pages: Pages) -> Readings:
        def read(page: str, at_ns: int) -> GpuReading | None:
            found = read_gpu_page(page, namespace=self._namespace)
            return (
                None
                if found is None
                else GpuReading(at_ns=at_ns, metric=found.metric, busy=found.busy, mark=found.mark)
            )

        gpu = self._parsed(pages, read)
        why = pages.why if not gpu else ""
        if pages.bodies and not gpu:
            holder = "" if self._namespace is None else f" that namespace {self._namespace} holds"
            why = f"the GPU exporter names no GPU{holder} and how busy it is"
        return Readings(gpu=gpu, why_gpu=why)

    def _parsed(self, pages: Pages, read: Callable[[str, int], _Reading | None]) -> list[_Reading]:
        found = []
        for at_ns, body in pages.bodies:
            reading = read(body.decode("utf-8", "replace"), at_ns - self._bench.started_ns)
            if reading is not None:
                found.append(reading)
        return found
