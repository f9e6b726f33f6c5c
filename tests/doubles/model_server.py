"""The model-server double in a thread of the test's process."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from ssl import SSLContext
from typing import Any, TypeVar

from gpuyield.demo.engine import EngineSettings
from gpuyield.demo.language_model import DoubleSettings, LogRow
from gpuyield.demo.server import Double

_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class RunningDouble:
    """A double that listens at `url`, and the loop it runs in."""

    url: str
    port: int
    double: Double
    loop: asyncio.AbstractEventLoop

    def do(self, work: Coroutine[Any, Any, _Result]) -> _Result:
        """Run something in the double's loop and wait for it."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(timeout=20)

    def row(self, tag: str) -> LogRow:
        """The log's row of a request that calls itself so."""
        (found,) = [row for row in self.double.log if row.tag == tag]
        return found


@contextmanager
def running_double(
    *,
    engine: EngineSettings | None = None,
    tls: SSLContext | None = None,
    fields: frozenset[str] | None = None,
    port: int = 0,
    pod: str = "",
) -> Iterator[RunningDouble]:
    """Keep a double up; `fields` are those of a request that it knows, None: any."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    settings = DoubleSettings(engine=engine or EngineSettings(slots=64, step_s=0.005), fields=fields, pod=pod)
    double = Double(settings)
    try:
        port = asyncio.run_coroutine_threadsafe(double.start(port=port, tls=tls), loop).result(timeout=20)
        scheme = "http" if tls is None else "https"
        yield RunningDouble(f"{scheme}://127.0.0.1:{port}/v1", port, double, loop)
    finally:
        asyncio.run_coroutine_threadsafe(double.stop(), loop).result(timeout=20)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(timeout=20)
        loop.close()
