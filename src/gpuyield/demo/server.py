"""The model-server double: OpenAI-compatible, with a capacity that is known, and its own log of what really happened.

`/v1/models`, `/v1/chat/completions`, `/v1/completions`, `/v1/responses`, `/v1/embeddings`, `/metrics` with vLLM's
names, and `/gpu-metrics` of the GPU that it pretends to have. It runs on loopback, in the event loop of its caller or
as `gpuyield demo server`.
"""

from __future__ import annotations

import asyncio
import ssl

from gpuyield.demo.language_model import DoubleSettings, LanguageModel
from gpuyield.demo.visitor import Visitor


class Double(LanguageModel):
    """The model with a door: it listens. `connections` counts those that were ever opened."""

    def __init__(self, settings: DoubleSettings) -> None:
        super().__init__(settings)
        self.connections = 0
        self._open: set[Visitor] = set()
        self._server: asyncio.Server | None = None

    async def start(self, *, port: int = 0, tls: ssl.SSLContext | None = None) -> int:
        """Listen on 127.0.0.1; the port."""
        loop = asyncio.get_running_loop()
        self.clock.loop = loop
        self._server = await loop.create_server(
            lambda: Visitor(self, came=self._came, went=self._open.discard),
            "127.0.0.1",
            port,
            ssl=tls,
            backlog=4096,
            reuse_address=True,
        )
        return int(self._server.sockets[0].getsockname()[1])

    @property
    def visitors(self) -> int:
        """Connections that are open."""
        return len(self._open)

    @property
    def is_up(self) -> bool:
        """Whether it listens."""
        return self._server is not None and self._server.is_serving()

    async def stop(self) -> None:
        """Close everything at once, as a crash would."""
        if self._server is not None:
            self._server.close()
        for visitor in list(self._open):
            visitor.drop()
        self.clock.clear()
        await asyncio.sleep(0)

    def _came(self, visitor: Visitor) -> None:
        self.connections += 1
        self._open.add(visitor)
