"""Start each kind of real server once for the same data, and end them with the session."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gpuyield.demo.exposition import Series
from required import missing
from servers.programs import ProgramMissing
from servers.stores import Generation, running


@dataclass(slots=True)
class Servers:
    """Starts real servers, each at most once for the same data, and ends them with the session."""

    folder: Path
    stack: contextlib.ExitStack
    urls: dict[tuple[str, str], str] = field(default_factory=dict)

    def holding(self, generation: Generation, key: str, series: Callable[[], Sequence[Series]]) -> str:
        """The URL of a server that holds these series; `key` names them."""
        if (generation.name, key) not in self.urls:
            home = self.folder / f"{generation.name}-{key}"
            home.mkdir()
            try:
                url = self.stack.enter_context(running(generation, series(), home))
            except ProgramMissing as err:
                missing("SERVERS", f"{generation.name}: {err}")
            self.urls[generation.name, key] = url
        return self.urls[generation.name, key]


@dataclass(frozen=True, slots=True)
class Store:
    """One generation of server, to be filled."""

    generation: Generation
    servers: Servers

    @property
    def name(self) -> str:
        """Product and version."""
        return self.generation.name

    def holding(self, key: str, series: Callable[[], Sequence[Series]]) -> str:
        """The URL of such a server with these series in it; `key` names them, so that they are loaded once."""
        return self.servers.holding(self.generation, key, series)
