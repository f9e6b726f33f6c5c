"""The model-server double's engines: slots that requests have for themselves, or steps that all running ones share.

They reckon in instants of their own, not in what the event loop made of them: a request begins when it arrived or when
a slot was free by the reckoning, so that a busy machine delays bytes but never lowers the capacity. An engine is
therefore the queue with its parameters, and its true capacity comes from a simulation of them. The simulator of
`measure` is the same queue written a second time, as a compiled loop over arrivals that are known beforehand, which an
engine that is asked while it runs cannot be; a test holds the two to the same instants. No I/O here.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """The parameters, in seconds and tokens.

    The first token takes `step_s` + prompt tokens x `prompt_token_s`, each further one `step_s`. With `sequence_s` it
    is continuous batching: a step gives each running request one token, reads up to `prefill_tokens` of prompts, and
    takes `step_s` + `sequence_s` for each running request + `prompt_token_s` for each prompt token it reads. An answer
    has as many tokens as the request allows, else `output_tokens` on average, lognormal with `spread` (0: exactly).
    `good` of the answers that begin within `rushed_s` are right, `good_rushed` of the others.
    """

    slots: int = 16
    step_s: float = 0.01
    prompt_token_s: float = 0.0
    sequence_s: float = 0.0
    prefill_tokens: int = 2048
    output_tokens: int = 32
    spread: float = 0.0
    good: float = 1.0
    good_rushed: float = 1.0
    rushed_s: float = 1.0
    seed: int = 0


@dataclass(slots=True, eq=False)
class Served:
    """A request in the engine, times in nanoseconds of the caller's clock.

    `begin` is called when it has a slot; `advance` each time when tokens are there whose time was not known before.
    """

    arrived_ns: int
    prompt_tokens: int
    output_tokens: int
    begin: Callable[[Served], None]
    advance: Callable[[], None]
    begun_ns: int = -1
    good: bool = True
    done: bool = False
    unread: int = 0
    tokens_ns: list[int] = field(default_factory=list)


class Engine(Protocol):
    """Gives slots to requests. The caller tells the time, and calls `leave` when an answer ended or was given up."""

    @property
    def waiting(self) -> int:
        """Requests without a slot."""
        ...

    @property
    def running(self) -> int:
        """Requests in a slot."""
        ...

    def arrive(self, served: Served) -> None:
        """Take a request in; its `begin` is called when it has a slot, maybe at once."""
        ...

    def leave(self, served: Served, *, at_ns: int) -> None:
        """Give its slot back, free from `at_ns` on; one that waits just goes."""
        ...

    def token_ns(self, served: Served, number: int) -> int | None:
        """When token `number`, counted from 0, is there; None while nobody knows."""
        ...


def engine_of(settings: EngineSettings, at: Callable[[int, Callable[[], None]], None]) -> Engine:
    """The engine of the settings; `at` calls back at an instant."""
    return Batching(settings, at) if settings.sequence_s else Slots(settings)


class Chance:
    """Draws lengths and quality from the seed."""

    def __init__(self, settings: EngineSettings) -> None:
        self._settings = settings
        self._random = random.Random(settings.seed)

    def length(self, allowed: int | None) -> int:
        """How many tokens an answer has."""
        settings = self._settings
        if allowed is not None:
            return max(1, allowed)
        if not settings.spread:
            return settings.output_tokens
        drawn = self._random.lognormvariate(-(settings.spread**2) / 2, settings.spread)
        return max(1, round(settings.output_tokens * drawn))

    def is_good(self, waited_s: float) -> bool:
        """Whether an answer that begins after so long is right."""
        settings = self._settings
        return self._random.random() < (settings.good_rushed if waited_s > settings.rushed_s else settings.good)


class _Places:
    """Who waits for a slot, in order of arrival, and who has one."""

    def __init__(self) -> None:
        self._waiting: dict[Served, None] = {}
        self._running: dict[Served, None] = {}

    @property
    def waiting(self) -> int:
        """Requests without a slot."""
        return len(self._waiting)

    @property
    def running(self) -> int:
        """Requests in a slot."""
        return len(self._running)


class Slots(_Places):
    """First come, first served, each request alone in its slot."""

    def __init__(self, settings: EngineSettings) -> None:
        super().__init__()
        self._settings = settings
        self._free_ns = [0] * settings.slots

    def arrive(self, served: Served) -> None:
        """Take a request in."""
        self._waiting[served] = None
        self._admit()

    def leave(self, served: Served, *, at_ns: int) -> None:
        """Give its slot back."""
        if served.done:
            return
        served.done = True
        if served in self._waiting:
            del self._waiting[served]
            return
        self._running.pop(served, None)
        heapq.heappush(self._free_ns, at_ns)
        self._admit()

    def token_ns(self, served: Served, number: int) -> int | None:
        """When a token is there: known from the beginning."""
        settings = self._settings
        taken_s = served.prompt_tokens * settings.prompt_token_s + (number + 1) * settings.step_s
        return served.begun_ns + round(taken_s * 1e9)

    def _admit(self) -> None:
        while self._waiting and self._free_ns:
            served = next(iter(self._waiting))
            del self._waiting[served]
            self._running[served] = None
            served.begun_ns = max(served.arrived_ns, heapq.heappop(self._free_ns))
            served.begin(served)


class Batching(_Places):
    """Step after step, as engines with continuous batching do; prompts are read in order of admission."""

    def __init__(self, settings: EngineSettings, at: Callable[[int, Callable[[], None]], None]) -> None:
        super().__init__()
        self._settings = settings
        self._at = at
        self._ended_ns = 0
        self._steps = False

    def arrive(self, served: Served) -> None:
        """Take a request in; it begins with the next step."""
        self._waiting[served] = None
        if not self._steps:
            self._step(max(self._ended_ns, served.arrived_ns))

    def leave(self, served: Served, *, at_ns: int) -> None:
        """Give its slot back."""
        served.done = True
        self._waiting.pop(served, None)
        self._running.pop(served, None)

    def token_ns(self, served: Served, number: int) -> int | None:
        """When a token was there; None before."""
        return served.tokens_ns[number] if number < len(served.tokens_ns) else None

    def _step(self, begin_ns: int) -> None:
        settings = self._settings
        if not self._running and self._waiting:
            begin_ns = max(begin_ns, next(iter(self._waiting)).arrived_ns)
        for served in list(self._waiting):
            if len(self._running) >= settings.slots or served.arrived_ns > begin_ns:
                break
            del self._waiting[served]
            self._running[served] = None
            served.begun_ns, served.unread = begin_ns, served.prompt_tokens
            served.begin(served)
        self._steps = bool(self._running)
        if not self._steps:
            self._ended_ns = begin_ns
            return
        room = settings.prefill_tokens
        for served in self._running:
            taken = min(served.unread, room)
            served.unread -= taken
            room -= taken
        read = settings.prefill_tokens - room
        step_s = settings.step_s + len(self._running) * settings.sequence_s + read * settings.prompt_token_s
        end_ns = begin_ns + round(step_s * 1e9)
        taking = list(self._running)
        self._at(end_ns, lambda: self._end(taking, end_ns))

    def _end(self, taking: list[Served], end_ns: int) -> None:
        for served in taking:
            if served.done or served.unread:
                continue
            served.tokens_ns.append(end_ns)
            if len(served.tokens_ns) == served.output_tokens:
                self._running.pop(served, None)
            served.advance()
        self._step(end_ns)
