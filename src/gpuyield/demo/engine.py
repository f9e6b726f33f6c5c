"""The model-server double's engine: slots, first come first served, each request alone in its slot.

It reckons in instants of its own, not in what the event loop made of them: a request begins when it arrived or when a
slot was free by the reckoning, so that a busy machine delays bytes but never lowers the capacity. It is therefore the
queue with those parameters, and its true capacity comes from a simulation of them. No I/O here.
"""

from __future__ import annotations

import heapq
import random
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """The parameters, in seconds and tokens.

    The first token takes `step_s` + prompt tokens x `prompt_token_s`, each further one `step_s`. An answer has as many
    tokens as the request allows, else `output_tokens` on average, lognormal with `spread` (0: exactly so many).
    `good` of the answers that begin within `rushed_s` are right, `good_rushed` of the others.
    """

    slots: int = 16
    step_s: float = 0.01
    prompt_token_s: float = 0.0
    output_tokens: int = 32
    spread: float = 0.0
    good: float = 1.0
    good_rushed: float = 1.0
    rushed_s: float = 1.0
    seed: int = 0


@dataclass(slots=True)
class Served:
    """A request in the engine, times in nanoseconds of the caller's clock."""

    arrived_ns: int
    prompt_tokens: int
    output_tokens: int
    begin: Callable[[Served], None]
    begun_ns: int = -1
    good: bool = True
    done: bool = False

    def token_ns(self, number: int, settings: EngineSettings) -> int:
        """When token `number`, counted from 0, is there."""
        prompt_s = self.prompt_tokens * settings.prompt_token_s
        return self.begun_ns + round((prompt_s + (number + 1) * settings.step_s) * 1e9)


class Engine:
    """Gives slots to requests. The caller tells the time, and calls `leave` when an answer ended or was given up."""

    def __init__(self, settings: EngineSettings) -> None:
        self.settings = settings
        self._free_ns = [0] * settings.slots
        self._waiting: OrderedDict[int, Served] = OrderedDict()
        self._running: dict[int, Served] = {}
        self._chance = random.Random(settings.seed)

    @property
    def waiting(self) -> int:
        """Requests without a slot."""
        return len(self._waiting)

    @property
    def running(self) -> int:
        """Requests in a slot."""
        return len(self._running)

    def length(self, allowed: int | None) -> int:
        """How many tokens an answer has."""
        if allowed is not None:
            return max(1, allowed)
        settings = self.settings
        if not settings.spread:
            return settings.output_tokens
        drawn = self._chance.lognormvariate(-(settings.spread**2) / 2, settings.spread)
        return max(1, round(settings.output_tokens * drawn))

    def arrive(self, served: Served) -> None:
        """Take a request in; its `begin` is called when it has a slot, maybe at once."""
        self._waiting[id(served)] = served
        self._admit()

    def leave(self, served: Served, *, at_ns: int) -> None:
        """Give its slot back, free from `at_ns` on; one that waits just goes."""
        if served.done:
            return
        served.done = True
        if self._waiting.pop(id(served), None) is None:
            del self._running[id(served)]
            heapq.heappush(self._free_ns, at_ns)
            self._admit()

    def _admit(self) -> None:
        while self._waiting and self._free_ns:
            key, served = self._waiting.popitem(last=False)
            self._running[key] = served
            served.begun_ns = max(served.arrived_ns, heapq.heappop(self._free_ns))
            settings = self.settings
            rushed = served.token_ns(0, settings) - served.arrived_ns > settings.rushed_s * 1e9
            served.good = self._chance.random() < (settings.good_rushed if rushed else settings.good)
            served.begin(served)
