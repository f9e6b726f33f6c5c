"""One HTTP/1.1 connection: it sends a request and keeps each read with its time. Nothing is decoded here.

The only question asked of a read is whether the response may have ended with it. A chunked body is looked at when a
read ends as a last chunk does; then, and only then, is its framing followed. Plain requests are written to the socket
at once, since a loop would keep them until all reads of its round are done; for the same reason each read looks
whether a request is due.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable
from enum import Enum
from time import monotonic_ns
from typing import cast

from gpuyield.measure.protocols.framing import (
    LARGEST_RESPONSE,
    BrokenFraming,
    ChunkScan,
    Ended,
    Head,
    Response,
    read_head,
)
from gpuyield.model.measure import NEVER_NS

_LATEST_REPLAY_NS = 1_000_000_000
FAR_NS = 2**63 - 1
_DONE = b"\ndata: [DONE]"


class Exchange:
    """One request and what came back: row `row` of the records."""

    __slots__ = (
        "begun_ns",
        "connection",
        "done_seen",
        "parts",
        "replayed",
        "request",
        "row",
        "sent_ns",
        "size",
        "times_ns",
    )

    def __init__(self, row: int, request: bytes, begun_ns: int) -> None:
        self.row = row
        self.request = request
        self.begun_ns = begun_ns
        self.sent_ns = NEVER_NS
        self.times_ns: list[int] = []
        self.parts: list[bytes] = []
        self.size = 0
        self.done_seen = False
        self.replayed = False
        self.connection: Connection | None = None

    def response(self, ended: Ended) -> Response:
        """What came back."""
        return Response(self.times_ns, self.parts, ended)


class Pulse:
    """When the next request is due, and whom to tell."""

    __slots__ = ("next_ns", "ring")

    def __init__(self, ring: Callable[[], None]) -> None:
        self.next_ns = FAR_NS
        self.ring = ring


class _Framing(Enum):
    HEAD = 0
    LENGTH = 1
    CHUNKED = 2
    UNTIL_CLOSED = 3


class Connection(asyncio.Protocol):
    """A connection of a pool; `ended` is told when an exchange is over, `lost` when the connection is."""

    __slots__ = (
        "_descriptor",
        "_ended",
        "_framing",
        "_head",
        "_lost",
        "_pulse",
        "_remaining",
        "_scan",
        "_scanned",
        "_whole",
        "exchange",
        "is_open",
        "served",
        "transport",
    )

    def __init__(
        self,
        ended: Callable[[Connection, Exchange, Ended], None],
        lost: Callable[[Connection], None],
        pulse: Pulse,
    ) -> None:
        self._ended = ended
        self._lost = lost
        self._pulse = pulse
        self._descriptor = -1
        self.transport: asyncio.Transport | None = None
        self.exchange: Exchange | None = None
        self.is_open = False
        self.served = 0
        self._framing = _Framing.HEAD
        self._head: Head | None = None
        self._remaining = 0
        self._scan: ChunkScan | None = None
        self._scanned = 0
        self._whole = bytearray()

    def send(self, exchange: Exchange) -> None:
        """Send a request now; the connection must be idle."""
        assert self.transport is not None
        self.exchange = exchange
        exchange.connection = self
        self._framing = _Framing.HEAD
        if exchange.sent_ns < 0:
            exchange.sent_ns = monotonic_ns()
        sent = 0
        if self._descriptor >= 0:
            # What is wrong with the connection shows when the transport writes the rest.
            with contextlib.suppress(OSError):
                sent = os.write(self._descriptor, exchange.request)
        if sent < len(exchange.request):
            self.transport.write(memoryview(exchange.request)[sent:])

    def abort(self) -> None:
        """Close at once, without telling anybody."""
        self.exchange = None
        self._descriptor = -1
        if self.transport is not None:
            self.transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ready to send."""
        # A stream's protocol gets a stream's transport, but asyncio does not say so in its types.
        self.transport = cast("asyncio.Transport", transport)
        self.is_open = True
        if transport.get_extra_info("sslcontext") is None:
            socket = transport.get_extra_info("socket")
            self._descriptor = -1 if socket is None else socket.fileno()

    def data_received(self, data: bytes) -> None:
        """Keep a read with its time."""
        now_ns = monotonic_ns()
        exchange = self.exchange
        if exchange is None:
            # Nobody asked: what comes now would be taken for the next answer.
            self.abort()
            return
        exchange.times_ns.append(now_ns)
        exchange.parts.append(data)
        exchange.size += len(data)
        if self._may_have_ended(exchange, data):
            self.exchange = None
            self.served += 1
            if not self._is_reusable():
                self.abort()
            self._ended(self, exchange, Ended.MESSAGE)
        elif exchange.size > LARGEST_RESPONSE:
            self.abort()
            self._ended(self, exchange, Ended.TOO_LARGE)
        if now_ns >= self._pulse.next_ns:
            self._pulse.ring()

    def eof_received(self) -> bool:
        """The server closes: so do we."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """The end of an answer that lasts until the connection is closed, or a cut."""
        self.is_open = False
        self._descriptor = -1
        exchange, self.exchange = self.exchange, None
        self._lost(self)
        if exchange is not None:
            self._ended(self, exchange, Ended.CLOSED)
        self.transport = None

    def may_replay(self, exchange: Exchange, now_ns: int) -> bool:
        """Whether the server closed an idle connection just when we sent: only then is a request sent again."""
        fresh = not exchange.parts and not exchange.replayed and now_ns - exchange.sent_ns < _LATEST_REPLAY_NS
        return fresh and self.served > 0

    def _may_have_ended(self, exchange: Exchange, data: bytes) -> bool:
        framing = self._framing
        if framing is _Framing.CHUNKED:
            if not exchange.done_seen:
                if _DONE in data:
                    exchange.done_seen = True
                elif len(data) >= 4 and data[-4:] != b"\r\n\r\n":
                    return False
            return self._chunks_ended(exchange)
        if framing is _Framing.LENGTH:
            self._remaining -= len(data)
            return self._remaining <= 0
        if framing is _Framing.UNTIL_CLOSED:
            exchange.done_seen = exchange.done_seen or _DONE in data
            return False
        return self._head_ended(exchange)

    def _head_ended(self, exchange: Exchange) -> bool:
        raw = exchange.parts[0] if len(exchange.parts) == 1 else b"".join(exchange.parts)
        try:
            head = read_head(raw)
        except BrokenFraming:
            self._head, self._remaining = None, -1
            return True
        if head is None:
            return False
        self._head = head
        if head.chunked:
            self._framing = _Framing.CHUNKED
            self._scan = ChunkScan(head.size)
            self._whole = bytearray(raw)
            self._scanned = len(exchange.parts)
            exchange.done_seen = _DONE in raw
            return (exchange.done_seen or raw.endswith(b"\r\n\r\n")) and self._chunks_ended(exchange)
        if head.length is None:
            self._framing = _Framing.UNTIL_CLOSED
            return False
        self._framing = _Framing.LENGTH
        self._remaining = head.size + head.length - len(raw)
        return self._remaining <= 0

    def _chunks_ended(self, exchange: Exchange) -> bool:
        assert self._scan is not None
        for part in exchange.parts[self._scanned :]:
            self._whole += part
        self._scanned = len(exchange.parts)
        try:
            ended = self._scan.feed(self._whole)
        except BrokenFraming:
            self._head = None
            return True
        if ended:
            self._remaining = self._scan.at - len(self._whole)
            self._whole = bytearray()
        return ended

    def _is_reusable(self) -> bool:
        return (
            self._head is not None
            and self._head.keeps_alive
            and self._remaining == 0
            and self.is_open
            and self.transport is not None
            and not self.transport.get_write_buffer_size()
        )
