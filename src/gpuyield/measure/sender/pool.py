"""The sender's own connections: opened in advance, reused last first, and never waited for.

A request that finds no idle connection opens one; the time that takes is part of its latency. Nothing queues here.
"""

from __future__ import annotations

import asyncio
import errno
import os
import ssl
from collections.abc import Callable
from time import monotonic_ns

from gpuyield.measure.protocols.framing import Ended
from gpuyield.measure.sender.connection import Connection, Exchange, Pulse
from gpuyield.measure.sender.target import Target

_AT_A_TIME = 64
_OUR_OWN = frozenset({errno.EMFILE, errno.ENFILE, errno.EADDRNOTAVAIL, errno.ENOBUFS, errno.ENOMEM})


class Pool:
    """Connections to one target. `answered` is told how each exchange ended, `refused` why no connection came."""

    def __init__(
        self,
        target: Target,
        addresses: list[str],
        *,
        answered: Callable[[Exchange, Ended], None],
        refused: Callable[[Exchange, str], None],
        pulse: Pulse,
    ) -> None:
        self._target = target
        self._addresses = addresses
        self._tls: ssl.SSLContext | None = target.tls_context()
        self._answered = answered
        self._refused = refused
        self._pulse = pulse
        self._idle: list[Connection] = []
        self._connecting: dict[Exchange, asyncio.Task[None]] = {}
        self._turn = 0
        self.opened = 0
        self.replayed = 0
        self.shortage = ""
        """What of ours ran out, such as file descriptors; empty when nothing did."""

    def send(self, exchange: Exchange) -> None:
        """Send on an idle connection at once, else on a new one as soon as it is open."""
        idle = self._idle
        while idle:
            connection = idle.pop()
            if connection.is_open and connection.transport is not None and not connection.transport.is_closing():
                connection.send(exchange)
                return
        self._send_on_new(exchange)

    def give_up(self, exchange: Exchange) -> None:
        """Forget an exchange, and close what it runs on."""
        task = self._connecting.pop(exchange, None)
        if task is not None:
            task.cancel()
        if exchange.connection is not None and exchange.connection.exchange is exchange:
            exchange.connection.abort()

    async def open_idle(self, wanted: int) -> int:
        """Have that many idle connections, as far as the server lets us; how many there are."""
        while len(self._idle) < wanted:
            batch = min(_AT_A_TIME, wanted - len(self._idle))
            opened = await asyncio.gather(*(self._open() for _ in range(batch)), return_exceptions=True)
            fine = [one for one in opened if isinstance(one, Connection)]
            self._idle += fine
            if len(fine) < batch:
                break
        return len(self._idle)

    def close(self) -> None:
        """Close every idle connection at once."""
        for connection in self._idle:
            connection.abort()
        self._idle.clear()

    def _send_on_new(self, exchange: Exchange) -> None:
        self._connecting[exchange] = asyncio.ensure_future(self._open_and_send(exchange))

    async def _open_and_send(self, exchange: Exchange) -> None:
        try:
            connection = await self._open()
        except OSError as err:
            if self._connecting.pop(exchange, None) is not None:
                self._refused(exchange, _reason(err))
            return
        if self._connecting.pop(exchange, None) is None:
            self._idle.append(connection)
            return
        connection.send(exchange)

    async def _open(self) -> Connection:
        address = self._addresses[self._turn % len(self._addresses)]
        self._turn += 1
        loop = asyncio.get_running_loop()
        try:
            _, connection = await loop.create_connection(
                lambda: Connection(self._ended, self._lost, self._pulse),
                address,
                self._target.port,
                ssl=self._tls,
                server_hostname=self._target.host if self._tls else None,
            )
        except OSError as err:
            if err.errno in _OUR_OWN:
                self.shortage = err.strerror or str(err)
            raise
        self.opened += 1
        return connection

    def _ended(self, connection: Connection, exchange: Exchange, ended: Ended) -> None:
        if ended is Ended.CLOSED and connection.may_replay(exchange, monotonic_ns()):
            exchange.replayed = True
            self.replayed += 1
            self._send_on_new(exchange)
            return
        if connection.is_open and connection.transport is not None and not connection.transport.is_closing():
            self._idle.append(connection)
        self._answered(exchange, ended)

    def _lost(self, connection: Connection) -> None:
        if connection in self._idle:
            self._idle.remove(connection)


def _reason(err: OSError) -> str:
    if isinstance(err, ssl.SSLCertVerificationError):
        return "its certificate is not trusted"
    if isinstance(err, ssl.SSLError):
        return "it does not speak TLS there"
    return os.strerror(err.errno) if err.errno else type(err).__name__
