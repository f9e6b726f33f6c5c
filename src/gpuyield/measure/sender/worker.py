"""A sender process: it sends its slice of the schedule and keeps one row of numbers for each request.

It talks to its parent through a pipe: a `Job` once, answered by the addresses of the target; then a number of
connections to have open, or a `Slice`, answered by `Rows`. While it sends, it tells how far it is, and a `STOP` ends
that at once. When the parent is gone, it ends too.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import signal
import socket
import sys
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection as Pipe
from typing import Any  # what comes through a pipe

from gpuyield.measure.sender.limits import Job
from gpuyield.measure.sender.messages import STOP, Trouble
from gpuyield.measure.sender.sending import Sending


def work(pipe: Pipe) -> None:
    """The life of a worker process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _raise_file_limit()
    sys.setswitchinterval(0.0005)
    loop = _new_loop()
    asyncio.set_event_loop(loop)
    with contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):
        loop.run_until_complete(_serve(pipe))
    os._exit(0)


async def _serve(pipe: Pipe) -> None:
    loop = asyncio.get_running_loop()
    waiting: asyncio.Queue[Any] = asyncio.Queue()
    sending: list[Sending] = []

    def heard(command: Any) -> None:
        if command == STOP:
            for one in sending:
                one.stop()
        else:
            waiting.put_nowait(command)

    # A thread, since a loop that reads a pipe makes it non-blocking, and a pipe's messages may be long.
    threading.Thread(target=_listen, args=(pipe, loop, heard), daemon=True).start()
    job: Job = await waiting.get()
    requests = [job.target.request(job.spoken.path, body) for body in job.bodies]
    try:
        addresses = await _resolve(job)
        one = Sending(job, requests, addresses, pipe)
    except OSError as err:
        pipe.send(Trouble(what=err.strerror or str(err)))
        return
    sending.append(one)
    pipe.send(addresses)
    while True:
        match await waiting.get():
            case int(connections):
                pipe.send(await one.open(connections))
            case part:
                pipe.send(await one.run(part))


def _listen(pipe: Pipe, loop: asyncio.AbstractEventLoop, heard: Callable[[Any], None]) -> None:
    while True:
        try:
            command = pipe.recv()
        except (EOFError, OSError):
            os._exit(0)
        loop.call_soon_threadsafe(heard, command)


async def _resolve(job: Job) -> list[str]:
    """The addresses of the target, of the kind that answers first in the system's order."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(job.target.host, job.target.port, type=socket.SOCK_STREAM)
    family = found[0][0]
    return list(dict.fromkeys(str(one[4][0]) for one in found if one[0] is family))


def _raise_file_limit() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    make: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return make()
