"""The double's engines are the queues of their parameters: the same requests get the same times as in a simulation."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from random import Random

import numpy as np
import pytest

from gpuyield.demo.engine import Engine as DoublesEngine
from gpuyield.demo.engine import EngineSettings, Served, engine_of
from gpuyield.measure.simulator import RequestSet, serve
from gpuyield.model.measure import Arrivals
from measure.same_engine import simulated


class _VirtualTime:
    """Calls back in order of time; nothing takes any."""

    def __init__(self) -> None:
        self.due: list[tuple[int, int, Callable[[], None]]] = []
        self._number = itertools.count()

    def at(self, at_ns: int, call: Callable[[], None]) -> None:
        """Call at an instant."""
        heapq.heappush(self.due, (at_ns, next(self._number), call))

    def run(self) -> None:
        """Until nothing is due."""
        while self.due:
            heapq.heappop(self.due)[2]()


class _Request:
    """A request that leaves as soon as its last token is there."""

    def __init__(self, engine: DoublesEngine, clock: _VirtualTime, *, arrived: int, prompt: int, output: int) -> None:
        self._engine = engine
        self._clock = clock
        self._served = Served(
            arrived_ns=arrived,
            prompt_tokens=prompt,
            output_tokens=output,
            begin=lambda _: self._look(),
            advance=self._look,
        )
        self.first_ns = self.last_ns = -1
        clock.at(arrived, self._arrive)

    def _arrive(self) -> None:
        self._engine.arrive(self._served)

    def _look(self) -> None:
        first, last = (self._engine.token_ns(self._served, at) for at in (0, self._served.output_tokens - 1))
        if first is not None and last is not None and self.last_ns < 0:
            self.first_ns, self.last_ns = first, last
            self._clock.at(last, self._leave)

    def _leave(self) -> None:
        self._engine.leave(self._served, at_ns=self.last_ns)


@pytest.mark.parametrize(
    "settings",
    [
        EngineSettings(slots=4, step_s=0.005, prompt_token_s=0.0001),
        EngineSettings(slots=6, step_s=0.004, prompt_token_s=0.0001, sequence_s=0.0002, prefill_tokens=64),
    ],
    ids=["slots", "batching"],
)
def test_an_engine_serves_as_its_simulation_does(settings: EngineSettings) -> None:
    rng = Random(7)
    count = 300
    # Odd arrivals, so that none falls on the end of a step, where either order is right.
    arrivals = sorted(rng.randrange(3 * 10**9) * 2 + 1 for _ in range(count))
    prompts = [rng.randint(1, 100) for _ in range(count)]
    outputs = [rng.randint(1, 20) for _ in range(count)]
    clock = _VirtualTime()
    engine = engine_of(settings, clock.at)

    found = [
        _Request(engine, clock, arrived=arrived, prompt=prompt, output=output)
        for arrived, prompt, output in zip(arrivals, prompts, outputs, strict=True)
    ]
    clock.run()
    truth = serve(
        simulated(settings),
        RequestSet(prompt_tokens=np.array(prompts), output_tokens=np.array(outputs)),
        Arrivals(scheduled_ns=np.array(arrivals), request=np.arange(count)),
        seed=0,
    )

    assert [one.first_ns for one in found] == truth.first_ns.tolist()
    assert [one.last_ns for one in found] == truth.end_ns.tolist()
