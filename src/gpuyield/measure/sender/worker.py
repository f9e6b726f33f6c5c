"""A sender process: it sends its slice of the schedule and keeps one row of numbers for each request.

It talks to its parent through a pipe: a `Job` once, answered by the addresses of the target; then a number of
connections to have open, or a `Slice`, answered by `Rows`. While it sends, it tells how far it is, and a `STOP` ends
that at once. When the parent is gone, it ends too.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import resource
import signal
import socket
import sys
import threading
import time
from array import array
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from multiprocessing.connection import Connection as Pipe
from time import monotonic_ns
from typing import Any  # what comes through a pipe

import numpy as np

from gpuyield.measure.protocols.framing import Ended
from gpuyield.measure.protocols.reading import Reading
from gpuyield.measure.sender.connection import FAR_NS, Exchange, Pulse
from gpuyield.measure.sender.health import throttled_ns, waited_ns
from gpuyield.measure.sender.limits import Job, Slice
from gpuyield.measure.sender.pool import Pool
from gpuyield.measure.sender.timer import Timer
from gpuyield.model.measure import CODES, NANOS, NEVER_NS, ResponseStatus

STOP = "stop"
_TICK_S = 0.02
_TELL_EVERY_TICKS = 10
_LOOKED_AT_ONCE = 500
_LOOK_EVERY_NS = 100_000_000
_AFTER_DONE_NS = 300_000_000
_READ_AT_ONCE_NS = 1_000_000
_MANY_UNREAD = 500
_SLOW_LANE_BYTES = 512 * 1024
_SAMPLE = 256

COLUMNS = (
    "sent_ns",
    "first_ns",
    "last_ns",
    "end_ns",
    "output_tokens",
    "input_tokens",
    "reads",
    "gap_max_ns",
)
"""The columns of a worker's rows, each int64, -1 where nothing is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """What became of a slice: a value a request in each column; times count from the start of the run."""

    columns: dict[str, NANOS]
    status: CODES
    texts: dict[int, str]
    problems: dict[str, int]
    lags_ns: NANOS
    loop_lags_ns: NANOS
    cpu_s: float
    throttled_s: float
    waited_s: float | None
    duration_s: float
    opened: int
    replayed: int
    shortage: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a worker is, `at_s` after the start; the lists are a sample of what ended since it last told."""

    at_s: float
    sent: int
    done: int
    failed: int
    in_flight: int
    statuses: list[int] = field(default_factory=list)
    first_s: list[float] = field(default_factory=list)
    whole_s: list[float] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """Why a worker cannot go on."""

    what: str


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
    sending: list[_Sending] = []

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
        one = _Sending(job, requests, addresses, pipe)
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


class _Sending:
    """Sends slices, one at a time."""

    def __init__(self, job: Job, requests: list[bytes], addresses: list[str], pipe: Pipe) -> None:
        self._job = job
        self._requests = requests
        self._pipe = pipe
        self._loop = asyncio.get_running_loop()
        self._pulse = Pulse(self._due)
        self._pool = Pool(job.target, addresses, answered=self._answered, refused=self._refused, pulse=self._pulse)
        self._slow_lane = ThreadPoolExecutor(max_workers=1)
        self._timer = Timer(self._loop, self._due)
        self._over = asyncio.Event()
        self._begin(Slice(scheduled_ns=_EMPTY, request=_EMPTY, drain_ns=0))

    async def open(self, connections: int) -> int:
        """Have idle connections in advance; how many are open."""
        return await self._pool.open_idle(connections)

    async def run(self, part: Slice) -> Rows:
        """Send a slice and wait for its answers."""
        self._begin(part)
        gc.collect()
        gc.freeze()
        gc.set_threshold(100_000, 50, 50)
        cpu_s, throttled, waited = time.process_time(), throttled_ns(), waited_ns()
        opened, replayed = self._pool.opened, self._pool.replayed
        self._ticks = 0
        self._tick_due_s = self._loop.time() + _TICK_S
        self._tick_handle = self._loop.call_at(self._tick_due_s, self._tick)
        self._start()
        await self._over.wait()
        self._tick_handle.cancel()
        self._timer.disarm()
        while self._reading or self._unread:
            await asyncio.sleep(0.001)
        gc.unfreeze()
        now_waited = waited_ns()
        return Rows(
            columns={name: np.frombuffer(self._columns[name], dtype=np.int64).copy() for name in COLUMNS},
            status=np.frombuffer(self._status, dtype=np.int8).copy(),
            texts=self._texts,
            problems=self._problems,
            lags_ns=np.frombuffer(self._lags, dtype=np.int64).copy(),
            loop_lags_ns=np.frombuffer(self._loop_lags, dtype=np.int64).copy(),
            cpu_s=time.process_time() - cpu_s,
            throttled_s=(throttled_ns() - throttled) / 1e9,
            waited_s=None if waited is None or now_waited is None else (now_waited - waited) / 1e9,
            duration_s=(monotonic_ns() - part.start_ns) / 1e9,
            opened=self._pool.opened - opened,
            replayed=self._pool.replayed - replayed,
            shortage=self._pool.shortage,
        )

    def stop(self) -> None:
        """End at once: close what runs; what was not sent stays unsent."""
        self._pulse.next_ns = FAR_NS
        self._next = self._total
        self._drain()

    def _begin(self, part: Slice) -> None:
        self._part = part
        self._total = len(part.scheduled_ns)
        self._scheduled = (part.scheduled_ns + part.start_ns).tolist()
        self._request = part.request.tolist()
        self._next = 0
        self._running: dict[Exchange, None] = {}
        self._looking: list[Exchange] = []
        self._looked_ns = 0
        self._done = self._failed = 0
        self._reading = 0
        self._unread: deque[tuple[Exchange, Ended]] = deque()
        self._drain_at_ns = -1
        self._columns = {name: array("q", [NEVER_NS]) * self._total for name in COLUMNS}
        self._status = array("b", [ResponseStatus.IN_FLIGHT]) * self._total
        self._lags = array("q")
        self._loop_lags = array("q")
        self._texts: dict[int, str] = {}
        self._problems: dict[str, int] = {}
        self._sample = Progress(at_s=0.0, sent=0, done=0, failed=0, in_flight=0)
        self._over.clear()

    def _start(self) -> None:
        if not self._total:
            self._over.set()
        elif self._part.at_once:
            for _ in range(min(self._part.at_once, self._total)):
                self._send(monotonic_ns())
        else:
            self._arm()

    def _arm(self) -> None:
        if self._next < self._total:
            self._pulse.next_ns = self._scheduled[self._next]
            self._timer.arm(self._pulse.next_ns)

    def _due(self) -> None:
        scheduled, total = self._scheduled, self._total
        self._pulse.next_ns = FAR_NS
        while self._next < total and scheduled[self._next] <= (now_ns := monotonic_ns()):
            self._lags.append(now_ns - scheduled[self._next])
            self._send(scheduled[self._next])
        self._arm()

    def _send(self, begun_ns: int) -> None:
        row = self._next
        self._next = row + 1
        exchange = Exchange(row, self._requests[self._request[row]], begun_ns)
        self._running[exchange] = None
        self._pool.send(exchange)
        if self._next == self._total:
            self._drain_at_ns = monotonic_ns() + self._part.drain_ns

    def _answered(self, exchange: Exchange, ended: Ended) -> None:
        if exchange not in self._running:
            return
        del self._running[exchange]
        if exchange.size > _SLOW_LANE_BYTES:
            self._reading += 1
            future = self._loop.run_in_executor(self._slow_lane, self._read, exchange, ended)
            future.add_done_callback(lambda done: self._read_slowly(exchange, done))
        elif self._part.at_once:
            self._keep(exchange, self._read(exchange, ended))
        else:
            # Reading answers waits until all sockets of this round have been read: their times matter more.
            if not self._unread:
                self._loop.call_soon(self._read_some)
            self._unread.append((exchange, ended))
        self._go_on()

    def _read_some(self) -> None:
        """Read answers for a moment, and go on after the next round of the loop."""
        hurry = 10 if len(self._unread) > _MANY_UNREAD else 1
        until_ns = (now_ns := monotonic_ns()) + _READ_AT_ONCE_NS * hurry
        while self._unread and now_ns < until_ns:
            exchange, ended = self._unread.popleft()
            self._keep(exchange, self._read(exchange, ended))
            now_ns = monotonic_ns()
            if now_ns >= self._pulse.next_ns:
                self._due()
        if self._unread:
            self._loop.call_soon(self._read_some)

    def _refused(self, exchange: Exchange, why: str) -> None:
        self._running.pop(exchange, None)
        reading = Reading(ResponseStatus.CONNECT_FAILED, end_ns=monotonic_ns(), problem=f"no connection: {why}")
        self._keep(exchange, reading)
        self._go_on()

    def _read(self, exchange: Exchange, ended: Ended) -> Reading:
        return self._job.spoken.read(exchange.response(ended), keep_text=self._job.keep_texts)

    def _read_slowly(self, exchange: Exchange, done: asyncio.Future[Reading]) -> None:
        self._reading -= 1
        self._keep(exchange, done.result())

    def _go_on(self) -> None:
        if self._part.at_once and self._next < self._total:
            self._send(monotonic_ns())
        elif not self._running and self._next >= self._total:
            self._over.set()

    def _keep(self, exchange: Exchange, reading: Reading) -> None:
        row, start_ns, columns = exchange.row, self._part.start_ns, self._columns
        columns["sent_ns"][row] = exchange.sent_ns - start_ns if exchange.sent_ns >= 0 else NEVER_NS
        columns["end_ns"][row] = (
            _end_ns(reading) - start_ns if reading.status is not ResponseStatus.IN_FLIGHT else NEVER_NS
        )
        if reading.first_ns >= 0:
            columns["first_ns"][row] = reading.first_ns - start_ns
            columns["last_ns"][row] = reading.last_ns - start_ns
            columns["reads"][row] = reading.reads
            columns["gap_max_ns"][row] = reading.gap_max_ns
        columns["output_tokens"][row] = reading.output_tokens
        columns["input_tokens"][row] = reading.input_tokens
        self._status[row] = reading.status
        self._done += 1
        if reading.status is not ResponseStatus.OK:
            self._failed += 1
            self._problems[reading.problem] = self._problems.get(reading.problem, 0) + 1
        elif self._job.keep_texts:
            self._texts[row] = reading.text
        sample = self._sample
        if len(sample.statuses) < _SAMPLE:
            sample.statuses.append(int(reading.status))
            if reading.first_ns >= 0:
                sample.first_s.append((reading.first_ns - exchange.begun_ns) / 1e9)
            if reading.end_ns >= 0:
                sample.whole_s.append((reading.end_ns - exchange.begun_ns) / 1e9)

    def _tick(self) -> None:
        now_s = self._loop.time()
        self._loop_lags.append(round((now_s - self._tick_due_s) * 1e9))
        self._tick_due_s = max(self._tick_due_s + _TICK_S, now_s)
        self._look(monotonic_ns())
        self._ticks += 1
        if self._ticks % _TELL_EVERY_TICKS == 0:
            self._tell()
        if not self._over.is_set():
            self._tick_handle = self._loop.call_at(self._tick_due_s, self._tick)

    def _look(self, now_ns: int) -> None:
        """Enforce the time limits, on some of the running requests at a time."""
        if 0 <= self._drain_at_ns <= now_ns:
            self._drain()
            return
        if not self._looking:
            if now_ns - self._looked_ns < _LOOK_EVERY_NS:
                return
            self._looking, self._looked_ns = list(self._running), now_ns
        for exchange in self._looking[-_LOOKED_AT_ONCE:]:
            if exchange in self._running and self._is_late(exchange, now_ns):
                self._give_up(exchange, Ended.LATE)
        del self._looking[-_LOOKED_AT_ONCE:]

    def _is_late(self, exchange: Exchange, now_ns: int) -> bool:
        limits = self._job.limits
        if now_ns - exchange.begun_ns > limits.total_s * 1e9:
            return True
        if exchange.sent_ns < 0:
            return now_ns - exchange.begun_ns > limits.connect_s * 1e9
        if not exchange.times_ns:
            return now_ns - exchange.sent_ns > limits.first_s * 1e9
        silent_ns = now_ns - exchange.times_ns[-1]
        return silent_ns > limits.between_s * 1e9 or (exchange.done_seen and silent_ns > _AFTER_DONE_NS)

    def _give_up(self, exchange: Exchange, ended: Ended) -> None:
        connecting = exchange.sent_ns < 0
        self._pool.give_up(exchange)
        if connecting and ended is Ended.LATE:
            self._refused(exchange, "none within its time limit")
        else:
            self._answered(exchange, ended)

    def _drain(self) -> None:
        for exchange in list(self._running):
            self._give_up(exchange, Ended.STOPPED)
        self._over.set()

    def _tell(self) -> None:
        sample = self._sample
        self._sample = Progress(at_s=0.0, sent=0, done=0, failed=0, in_flight=0)
        self._pipe.send(
            Progress(
                at_s=(monotonic_ns() - self._part.start_ns) / 1e9,
                sent=self._next,
                done=self._done,
                failed=self._failed,
                in_flight=len(self._running),
                statuses=sample.statuses,
                first_s=sample.first_s,
                whole_s=sample.whole_s,
            )
        )


def _end_ns(reading: Reading) -> int:
    """When a response ended; of one that was given up, now."""
    given_up = reading.status is ResponseStatus.TIMEOUT or reading.end_ns < 0
    return monotonic_ns() if given_up else reading.end_ns


_EMPTY = np.zeros(0, dtype=np.int64)


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
