"""Second witnesses of a probe: the server's metrics page and whoever tells of the GPUs.

What fails here is a gap, and never touches the probe.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace

from gpuyield.collect.http import HttpClient
from gpuyield.measure.engines import gpu_reading_of_server, server_reading
from gpuyield.measure.sender.bench import LiveBench
from gpuyield.measure.witness import Readings, other_gpus, witness_of
from gpuyield.model.measure import SECOND_NS, Arrivals, Probe, ProbePlan, Run
from gpuyield.model.witness import Witness
from gpuyield.steps.measure_asked import Asked
from gpuyield.steps.measure_gpus import GpuWatch
from gpuyield.steps.measure_pages import WATCH_PATIENCE, Pages, Reader
from gpuyield.steps.measure_service import above_v1

_SHORTEST_BEAT_S, _LONGEST_BEAT_S = 1.0, 10.0
_READINGS = 120


def watched(bench: LiveBench, asked: Asked, gpus: GpuWatch | None, before: Sequence[Probe] = ()) -> Watched:
    """The same bench, with the service's own page and `gpus` as witnesses; `before` are the probes of this search."""
    page = HttpClient(above_v1(asked.where), patience=WATCH_PATIENCE)
    return Watched(bench, page, gpus, [one.witness for one in before])


class Watched:
    """A live bench whose probes have witnesses; `gpus` None: nobody tells of the GPUs but the server itself."""

    def __init__(
        self,
        bench: LiveBench,
        server: HttpClient,
        gpus: GpuWatch | None = None,
        before: Sequence[Witness | None] = (),
    ) -> None:
        self._bench = bench
        self._server = server
        self._gpus = gpus
        self._before = before

    def run(self, plan: ProbePlan, arrivals: Arrivals) -> Run:
        """Run a probe, and read what others see of it."""
        beat_s = min(_LONGEST_BEAT_S, max(_SHORTEST_BEAT_S, plan.sending_ns / SECOND_NS / _READINGS))
        with ExitStack() as watching:
            server = watching.enter_context(Reader(self._server, "/metrics", "the server's metrics page", beat_s))
            gpus = None if self._gpus is None else watching.enter_context(self._gpus.beside(beat_s))
            run = self._bench.run(plan, arrivals)
        told = Readings() if gpus is None else gpus.readings(self._bench.started_ns)
        witness = witness_of(self._readings(server.pages, told), plan, run.records)
        changed = other_gpus(self._before, witness)
        self._before = [*self._before, witness]
        return replace(run, witness=witness, changed=run.changed or changed)

    def _readings(self, pages: Pages, told: Readings) -> Readings:
        server = pages.parsed(self._bench.started_ns, server_reading)
        why = pages.why if not server else ""
        if pages.bodies and not server:
            why = "the server's metrics page names no engine that is known here"
        # Triton tells of its GPUs itself.
        gpu = told.gpu or pages.parsed(self._bench.started_ns, gpu_reading_of_server)
        return replace(told, server=server, gpu=gpu, why_server=why, why_gpu="" if gpu else told.why_gpu)
