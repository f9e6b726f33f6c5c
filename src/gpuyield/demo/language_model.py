"""The model behind the double: what it is, its engine and chance, and its own log of what really happened."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from gpuyield.demo.asked import Fault, Wish, wished
from gpuyield.demo.clock import Clock
from gpuyield.demo.engine import Chance, EngineSettings, engine_of
from gpuyield.demo.server_metrics import Counted

FIELDS = frozenset(
    {
        *("model", "messages", "prompt", "input", "max_tokens", "max_output_tokens", "stream", "stream_options"),
        *("temperature", "seed", "tools"),
    }
)
"""What a request to an OpenAI-compatible server most often holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DoubleSettings:
    """What the double is: its engine, its model's name, the share of answers with each fault.

    `pod`: `NAMESPACE/NAME` of the pod in which it pretends to run, for its GPU's page.
    `fields`: those of a request that it knows; another one is answered with 422, as some servers do. None: any.
    """

    engine: EngineSettings = field(default_factory=EngineSettings)
    model: str = "double"
    version: str = "0.0-double"
    pod: str = ""
    faults: Mapping[Fault, float] = field(default_factory=dict)
    fields: frozenset[str] | None = None


@dataclass(slots=True)
class LogRow:
    """What really happened to a request, in nanoseconds of the monotonic clock; -1: it did not.

    `first_ns` and `last_ns` are when the first and the last token were written.
    """

    arrived_ns: int
    begun_ns: int = -1
    first_ns: int = -1
    last_ns: int = -1
    tokens: int = 0
    fault: str = ""
    tag: str = ""


class LanguageModel:
    """What all connections share. `log` has a row for each request to the model, in order of arrival."""

    def __init__(self, settings: DoubleSettings) -> None:
        self.settings = settings
        self.clock = Clock()
        self.engine = engine_of(settings.engine, self.clock.at)
        self.chance = Chance(settings.engine)
        self.log: list[LogRow] = []
        self.counted = Counted()
        self.authorizations: set[str] = set()
        """What visitors showed to be let in; everybody is."""
        self.started_s = time.time_ns() / 1e9
        self._chance = random.Random(settings.engine.seed + 1)

    def wish_of(self, body: bytes) -> Wish:
        """The fault of a request: what it asks for, else one of the settings' shares."""
        wish = wished(body)
        if wish.fault is not Fault.NONE or not self.settings.faults:
            return wish
        drawn = self._chance.random()
        for fault, share in self.settings.faults.items():
            drawn -= share
            if drawn < 0:
                return Wish(fault)
        return wish
