"""The double's engines are the queues of their parameters: the same requests get the same times as in a simulation."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from random import Random

import numpy as np
import pytest

from gpuyield.demo.engine import EngineSettings, Served, engine_of
from gpuyield.measure.simulator import Engine, EngineKind, RequestSet, serve
from gpuyield.model.measure import Arrivals

_MS = 1_000_000


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


def times_of(settings: EngineSettings, arrivals: list[int], prompts: list[int], outputs: list[int]) -> list[list[int]]:
    """First and last token of each request."""
    clock = _VirtualTime()
    engine = engine_of(settings, clock.at)
    found: list[list[int]] = [[] for _ in arrivals]

    def end(row: int, served: Served) -> None:
        at = [engine.token_ns(served, number) for number in (0, served.output_tokens - 1)]
        known = [one for one in at if one is not None]
        if len(known) == 2 and not found[row]:
            found[row] = known
            clock.at(known[1], lambda: engine.leave(served, at_ns=known[1]))

    for row, (arrived, prompt, output) in enumerate(zip(arrivals, prompts, outputs, strict=True)):
        holder: list[Served] = []
        holder.append(
            Served(
                arrived_ns=arrived,
                prompt_tokens=prompt,
                output_tokens=output,
                begin=lambda served, row=row: end(row, served),  # type: ignore[misc]
                advance=lambda row=row, holder=holder: end(row, holder[0]),  # type: ignore[misc]
            )
        )
        clock.at(arrived, lambda holder=holder: engine.arrive(holder[0]))  # type: ignore[misc]
    clock.run()
    return found


@pytest.mark.parametrize(
    ("settings", "simulated"),
    [
        (
            EngineSettings(slots=4, step_s=0.005, prompt_token_s=0.0001),
            Engine(kind=EngineKind.SLOTS, slots=4, step_ns=5 * _MS, per_prompt_token_ns=_MS // 10),
        ),
        (
            EngineSettings(slots=6, step_s=0.004, prompt_token_s=0.0001, sequence_s=0.0002, prefill_tokens=64),
            Engine(
                kind=EngineKind.BATCHING,
                slots=6,
                step_ns=4 * _MS,
                per_sequence_ns=_MS // 5,
                per_prompt_token_ns=_MS // 10,
                prefill_tokens=64,
            ),
        ),
    ],
    ids=["slots", "batching"],
)
def test_an_engine_serves_as_its_simulation_does(settings: EngineSettings, simulated: Engine) -> None:
    rng = Random(7)
    count = 300
    # Odd arrivals, so that none falls on the end of a step, where either order is right.
    arrivals = sorted(rng.randrange(3 * 10**9) * 2 + 1 for _ in range(count))
    prompts = [rng.randint(1, 100) for _ in range(count)]
    outputs = [rng.randint(1, 20) for _ in range(count)]

    found = times_of(settings, arrivals, prompts, outputs)
    truth = serve(
        simulated,
        RequestSet(prompt_tokens=np.array(prompts), output_tokens=np.array(outputs)),
        Arrivals(scheduled_ns=np.array(arrivals), request=np.arange(count)),
        seed=0,
    )

    assert [one[0] for one in found] == truth.first_ns.tolist()
    assert [one[1] for one in found] == truth.end_ns.tolist()
