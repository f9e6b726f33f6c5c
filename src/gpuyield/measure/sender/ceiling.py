"""The sender's self-test: what a request and a read of a stream cost it, and so how much it can do at all.

A canned server in a process of its own answers as fast as it can, and the sender keeps it busy; what counts is the
sender's own processor time, so the server's speed does not matter. Two runs, one with a single read an answer and one
with many, tell the two costs apart.
"""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection as Pipe
from typing import cast

import numpy as np

from gpuyield.errors import InternalError
from gpuyield.measure.protocols.chat import Chat
from gpuyield.measure.requests import RequestLine
from gpuyield.measure.sender.limits import Job, Limits, Slice
from gpuyield.measure.sender.messages import Rows
from gpuyield.measure.sender.target import Target
from gpuyield.measure.sender.workers import Workers
from gpuyield.model.measure import Records, ResponseStatus

EVENTS = 32
AT_ONCE = 64
_START_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Processor seconds of one worker: for a request, and for each read of its answer beyond the first."""

    request_s: float
    read_s: float

    def ceiling_rps(self, reads: float) -> float:
        """The most requests a second one worker can do, when an answer comes in that many reads."""
        return 1 / (self.request_s + max(0.0, reads - 1) * self.read_s)

    def share(self, records: Records, *, workers: int) -> float:
        """The offered rate of a run over what the workers could do at all."""
        if len(records) < 2:
            return 0.0
        span_s = (int(records.scheduled_ns[-1]) - int(records.scheduled_ns[0])) / 1e9
        rate_rps = (len(records) - 1) / span_s if span_s > 0 else float("inf")
        return rate_rps / (workers * self.ceiling_rps(float(np.mean(records.reads))))


def self_test(*, requests: int = 1_500, cpus: list[int] | None = None) -> Cost:
    """Measure the two costs on this machine, now; takes about a second.

    Raises:
        InternalError: The canned server was not answered rightly.
    """
    spoken = Chat()
    lines = [
        RequestLine(id=str(events), kind="prompt", content="How much can this sender do? " * 4, max_tokens=events)
        for events in (1, EVENTS)
    ]
    with _canned_server() as port:
        job = Job(
            target=Target(tls=False, host="127.0.0.1", port=port, base="/v1"),
            spoken=spoken,
            bodies=[spoken.body(line, model="double") for line in lines],
            limits=Limits(),
            keep_texts=False,
        )
        with Workers(job, number=1, cpus=cpus) as workers:
            workers.open(AT_ONCE)
            _busy(workers, AT_ONCE * 4, body=1)
            single_s = _busy(workers, requests, body=0).cpu_s / requests
            fewer = max(AT_ONCE, requests // 4)
            many_s = _busy(workers, fewer, body=1).cpu_s / fewer
    return Cost(request_s=single_s, read_s=max(0.0, many_s - single_s) / (EVENTS - 1))


def _busy(workers: Workers, requests: int, *, body: int) -> Rows:
    """Keep so many requests running until all were answered."""
    nothing = np.zeros(requests, dtype=np.int64)
    part = Slice(scheduled_ns=nothing, request=nothing + body, drain_ns=30_000_000_000, at_once=AT_ONCE)
    sent = workers.run([part], lambda _: True)
    if sent.interrupted is not None:
        raise sent.interrupted
    rows = sent.rows[0]
    if rows is None:
        raise InternalError("a sender process died in its self-test.", where="measure", fix="Is there enough memory?")
    if (rows.status != ResponseStatus.OK).any():
        raise InternalError("the sender's self-test failed.", where="measure", fix="Report it, please.")
    return rows


@contextmanager
def _canned_server() -> Iterator[int]:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs,), daemon=True)
    process.start()
    theirs.close()
    try:
        if not ours.poll(_START_S):
            raise InternalError("the self-test's server did not start.", where="measure")
        yield ours.recv()
    finally:
        ours.close()
        process.join(timeout=2)
        if process.is_alive():
            process.kill()
            process.join()
        process.close()


class _Canned(asyncio.Protocol):
    """Answers whatever ends as a JSON body does, with as many events as it asks for tokens."""

    def __init__(self, answers: dict[bytes, list[bytes]]) -> None:
        self._answers = answers
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # A stream's protocol gets a stream's transport, but asyncio does not say so in its types.
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        assert self._transport is not None
        if data.endswith(b"}"):
            for part in next(parts for asked, parts in self._answers.items() if asked in data):
                self._transport.write(part)


def _canned_answer(events: int) -> list[bytes]:
    choice = b'{"index":0,"delta":{"content":" word"},"logprobs":null,"finish_reason":null}'
    base = b'"id":"chatcmpl-0123456789abcdef","object":"chat.completion.chunk","model":"double"'
    texts = [b'data: {%s,"choices":[%s]}\n\n' % (base, choice)] * events
    texts.append(b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n')
    parts = [b"%x\r\n%s\r\n" % (len(text), text) for text in texts]
    parts[0] = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n" + parts[0]
    parts[-1] += b"0\r\n\r\n"
    return parts


def _serve(pipe: Pipe) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    asyncio.run(_listen(pipe))


async def _listen(pipe: Pipe) -> None:
    loop = asyncio.get_running_loop()
    answers = {b'"max_tokens":%d,' % events: _canned_answer(events) for events in (1, EVENTS)}
    server = await loop.create_server(lambda: _Canned(answers), "127.0.0.1", 0)
    pipe.send(server.sockets[0].getsockname()[1])
    gone = asyncio.Event()
    loop.add_reader(pipe.fileno(), gone.set)
    with contextlib.suppress(asyncio.CancelledError):
        await gone.wait()
    os._exit(0)
