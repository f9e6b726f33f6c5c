"""The model-server double: OpenAI-compatible, with a capacity that is known, and its own log of what really happened.

`/v1/models`, `/v1/chat/completions`, `/v1/completions`, `/v1/embeddings`, and `/metrics` with vLLM's names. It runs on
loopback, in the event loop of its caller or as `gpuyield demo server`.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import json
import random
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from time import monotonic_ns
from typing import Any  # JSON values

from gpuyield.demo.answers import (
    Asked,
    Fault,
    Part,
    Script,
    Wish,
    error,
    plain,
    right_answer,
    tag_of,
    whole,
    wished,
    write_answer,
)
from gpuyield.demo.engine import Chance, EngineSettings, Served, engine_of
from gpuyield.demo.server_metrics import Counted, metrics_text

_PATHS = ("/v1/chat/completions", "/v1/completions", "/v1/embeddings")
_LARGEST_BODY = 64 * 2**20
_LARGEST_HEAD = 64 * 2**10


@dataclass(frozen=True, slots=True, kw_only=True)
class DoubleSettings:
    """What the double is: its engine, its model's name, the share of answers with each fault.

    `strict`: unknown fields are answered with 422, as some servers do.
    """

    engine: EngineSettings = field(default_factory=EngineSettings)
    model: str = "double"
    version: str = "0.0-double"
    faults: Mapping[Fault, float] = field(default_factory=dict)
    strict: bool = False


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


class Double:
    """The server. `log` has a row for each request to a model, in order of arrival."""

    def __init__(self, settings: DoubleSettings) -> None:
        self.settings = settings
        self._clock = _Clock()
        self.engine = engine_of(settings.engine, self._clock.at)
        self.chance = Chance(settings.engine)
        self.log: list[LogRow] = []
        self.counted = Counted()
        self.connections = 0
        self.authorizations: set[str] = set()
        """What visitors showed to be let in; everybody is."""
        self.started_s = time.time_ns() / 1e9
        self._chance = random.Random(settings.engine.seed + 1)
        self._open: set[_Visitor] = set()
        self._server: asyncio.Server | None = None

    async def start(self, *, port: int = 0, tls: ssl.SSLContext | None = None) -> int:
        """Listen on 127.0.0.1; the port."""
        loop = asyncio.get_running_loop()
        self._clock.loop = loop
        self._server = await loop.create_server(
            lambda: _Visitor(self), "127.0.0.1", port, ssl=tls, backlog=4096, reuse_address=True
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
        self._clock.clear()
        await asyncio.sleep(0)

    def close_idle(self) -> None:
        """Close the connections on which nothing is asked."""
        for visitor in list(self._open):
            visitor.close_if_idle()

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


class _Clock:
    """Calls back at instants, in order, never early."""

    def __init__(self) -> None:
        self.loop: asyncio.AbstractEventLoop | None = None
        self._due: list[tuple[int, int, Callable[[], None]]] = []
        self._number = itertools.count()
        self._handle: asyncio.TimerHandle | None = None
        self._armed_ns = -1

    def at(self, at_ns: int, call: Callable[[], None]) -> None:
        heapq.heappush(self._due, (at_ns, next(self._number), call))
        if self._handle is None or at_ns < self._armed_ns:
            self._arm()

    def clear(self) -> None:
        self._due.clear()
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _arm(self) -> None:
        assert self.loop is not None
        if self._handle is not None:
            self._handle.cancel()
        self._armed_ns = self._due[0][0]
        delay_s = max(0, self._armed_ns - monotonic_ns()) / 1e9
        self._handle = self.loop.call_later(delay_s, self._ring)

    def _ring(self) -> None:
        self._handle = None
        due = self._due
        while due and due[0][0] <= monotonic_ns():
            heapq.heappop(due)[2]()
        if due and self._handle is None:
            self._arm()


class _Visitor(asyncio.Protocol):
    """One connection, one request at a time."""

    def __init__(self, double: Double) -> None:
        self._double = double
        self._held = bytearray()
        self._transport: asyncio.Transport | None = None
        self._answering: _Answering | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]
        self._double.connections += 1
        self._double._open.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._double._open.discard(self)
        self._transport = None
        if self._answering is not None:
            self._answering.give_up()
            self._answering = None

    def data_received(self, data: bytes) -> None:
        self._held += data
        if self._answering is None:
            self._take()

    def write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)

    def drop(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def close_if_idle(self) -> None:
        if self._answering is None and self._transport is not None:
            self._transport.close()

    def answered(self, *, closes: bool) -> None:
        self._answering = None
        if closes:
            if self._transport is not None:
                self._transport.close()
        elif self._held:
            self._take()

    def _take(self) -> None:
        end = self._held.find(b"\r\n\r\n")
        if end < 0:
            if len(self._held) > _LARGEST_HEAD:
                self.drop()
            return
        head = bytes(self._held[:end])
        length = _length(head)
        if not 0 <= length <= _LARGEST_BODY:
            self.write(error(413, "the body is too large"))
            self.answered(closes=True)
            return
        if len(self._held) < end + 4 + length:
            return
        body = bytes(self._held[end + 4 : end + 4 + length])
        del self._held[: end + 4 + length]
        shown = _header(head, b"authorization")
        if shown:
            self._double.authorizations.add(shown.decode("latin-1"))
        method, _, rest = head.partition(b" ")
        self._answer(method.decode("latin-1"), rest.split(b" ", 1)[0].decode("latin-1"), body)

    def _answer(self, method: str, path: str, body: bytes) -> None:
        double = self._double
        if method == "GET" and path == "/v1/models":
            listed = [{"id": double.settings.model, "object": "model", "owned_by": "gpuyield"}]
            self.write(whole({"object": "list", "data": listed}))
        elif method == "GET" and path == "/version":
            self.write(whole({"version": double.settings.version}))
        elif method == "GET" and path == "/metrics":
            text = metrics_text(
                double.counted,
                double.engine,
                double.settings.engine,
                model=double.settings.model,
                started_s=double.started_s,
            )
            self.write(plain(text.encode(), "text/plain; version=0.0.4; charset=utf-8"))
        elif method == "POST" and path in _PATHS:
            self._model(path, body)
            return
        else:
            self.write(error(404, f"{path[:80]} is not served here"))
        self.answered(closes=False)

    def _model(self, path: str, body: bytes) -> None:
        arrived_ns = monotonic_ns()
        try:
            fields = json.loads(body)
            if not isinstance(fields, dict):
                raise ValueError("no object")
        except ValueError:
            self.write(error(400, "the body is not JSON"))
            self.answered(closes=False)
            return
        strange = sorted(set(fields) - _FIELDS)
        if strange and self._double.settings.strict:
            self.write(error(422, f"unknown field {strange[0]}"))
            self.answered(closes=False)
            return
        self._answering = _Answering(self, self._double, _asked(path, fields, body, self._double), body, arrived_ns)
        self._answering.start()


_FIELDS = frozenset(
    {"model", "messages", "prompt", "input", "max_tokens", "stream", "stream_options", "temperature", "seed", "tools"}
)


class _Answering:
    """One answer on its way."""

    def __init__(self, visitor: _Visitor, double: Double, asked: Asked, body: bytes, arrived_ns: int) -> None:
        self._visitor = visitor
        self._double = double
        self._asked = asked
        self._wish = double.wish_of(body)
        fault = "" if self._wish.fault is Fault.NONE else str(self._wish.fault)
        self._row = LogRow(arrived_ns=arrived_ns, fault=fault, tag=tag_of(body))
        self._served = Served(
            arrived_ns=arrived_ns,
            prompt_tokens=asked.prompt_tokens,
            output_tokens=asked.output_tokens,
            begin=self._begin,
            advance=self._write,
        )
        self._given_up = self._ended = False
        self._script = Script(parts=[])
        self._next = 0

    def start(self) -> None:
        self._double.log.append(self._row)
        self._double.counted.prompt_tokens += self._asked.prompt_tokens
        if self._wish.fault in _WITHOUT_A_SLOT:
            self._served.done = True
            self._begin(self._served)
        else:
            self._double.engine.arrive(self._served)

    def give_up(self) -> None:
        self._given_up = True
        self._double.engine.leave(self._served, at_ns=monotonic_ns())

    def _begin(self, served: Served) -> None:
        self._row.begun_ns = served.begun_ns
        engine = self._double.settings.engine
        first_s = served.prompt_tokens * engine.prompt_token_s + engine.step_s
        waited_s = (served.begun_ns - served.arrived_ns) / 1e9 if served.begun_ns >= 0 else 0.0
        served.good = self._double.chance.is_good(waited_s + first_s)
        self._script = write_answer(self._asked, self._wish, good=served.good)
        self._write()

    def _write(self) -> None:
        """Write what is due, and come back for the rest."""
        parts, now_ns = self._script.parts, monotonic_ns()
        out: list[bytes] = []
        while self._next < len(parts) and not self._given_up:
            part = parts[self._next]
            at_ns = self._at_ns(part)
            if at_ns is None:
                self._flush(out, now_ns)
                return
            if at_ns > now_ns:
                self._flush(out, now_ns)
                self._double._clock.at(at_ns, self._write)
                return
            if part.pause and out:
                self._flush(out, now_ns)
                self._double._clock.at(now_ns, self._write)
                return
            out.append(part.data)
            self._tell(part, now_ns)
            self._next += 1
            if part.token >= 0 and not part.pause and self._next < len(parts) and parts[self._next].token > part.token:
                self._flush(out, now_ns)
        self._flush(out, now_ns)
        if not self._given_up and not self._ended:
            self._ended = True
            self._end()

    def _flush(self, out: list[bytes], now_ns: int) -> None:
        if out:
            self._visitor.write(b"".join(out))
            out.clear()

    def _tell(self, part: Part, now_ns: int) -> None:
        row = self._row
        if part.token < row.tokens:
            return
        if row.first_ns < 0:
            row.first_ns = now_ns
            self._double.counted.first_s.see((now_ns - row.arrived_ns) / 1e9)
        row.last_ns = now_ns
        self._double.counted.generated_tokens += part.token + 1 - row.tokens
        row.tokens = part.token + 1

    def _at_ns(self, part: Part) -> int | None:
        if part.token < 0 or self._served.begun_ns < 0:
            return 0
        return self._double.engine.token_ns(self._served, part.token)

    def _end(self) -> None:
        if self._script.hangs:
            return
        double, row = self._double, self._row
        double.counted.finished += 1
        double.counted.whole_s.see((monotonic_ns() - row.arrived_ns) / 1e9)
        if not self._served.done:
            last = max((part.token for part in self._script.parts), default=0)
            double.engine.leave(self._served, at_ns=double.engine.token_ns(self._served, last) or monotonic_ns())
        self._visitor.answered(closes=self._script.closes)


_WITHOUT_A_SLOT = frozenset({Fault.TOO_MANY, Fault.UNAVAILABLE, Fault.FAILS, Fault.SILENT})


def _asked(path: str, fields: Mapping[str, Any], body: bytes, double: Double) -> Asked:
    allowed = fields.get("max_tokens")
    options = fields.get("stream_options")
    return Asked(
        path=path,
        streams=fields.get("stream") is True and path != "/v1/embeddings",
        usage=isinstance(options, dict) and options.get("include_usage") is True,
        prompt_tokens=_prompt_tokens(fields),
        output_tokens=double.chance.length(allowed if isinstance(allowed, int) and allowed > 0 else None),
        model=double.settings.model,
        right=right_answer(body),
    )


def _prompt_tokens(fields: Mapping[str, Any]) -> int:
    """Words of the prompt: the double's tokens are words."""
    texts = [fields.get("prompt"), fields.get("input")]
    messages = fields.get("messages")
    texts += [one.get("content") for one in messages if isinstance(one, dict)] if isinstance(messages, list) else []
    return sum(len(text.split()) for text in texts if isinstance(text, str))


def _length(head: bytes) -> int:
    value = _header(head, b"content-length") or b"0"
    return int(value) if value.isdigit() else -1


def _header(head: bytes, name: bytes) -> bytes:
    for line in head.split(b"\r\n")[1:]:
        key, _, value = line.partition(b":")
        if key.strip().lower() == name:
            return value.strip()
    return b""
