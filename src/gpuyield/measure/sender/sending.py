"""Sends slices of a schedule: each request at its time, each answer read as soon as no request is due."""

from __future__ import annotations

import asyncio
import gc
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection as Pipe
from time import monotonic_ns

import numpy as np

from gpuyield.measure.protocols.framing import Ended
from gpuyield.measure.protocols.reading import Reading
from gpuyield.measure.sender.connection import FAR_NS, Exchange, Pulse
from gpuyield.measure.sender.health import throttled_ns, waited_ns
from gpuyield.measure.sender.limits import Job, Slice
from gpuyield.measure.sender.messages import Rows
from gpuyield.measure.sender.overdue import Overdue
from gpuyield.measure.sender.pool import Pool
from gpuyield.measure.sender.recording import Recording, nanos
from gpuyield.measure.sender.timer import Timer
from gpuyield.model.measure import ResponseStatus

_TICK_S = 0.02
_TELL_EVERY_TICKS = 10
_READ_AT_ONCE_NS = 1_000_000
_MANY_UNREAD = 500
_SLOW_LANE_BYTES = 512 * 1024
_EMPTY = np.zeros(0, dtype=np.int64)


class Sending:
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
        kept = self._kept
        return Rows(
            columns=kept.columns,
            status=kept.status,
            texts=kept.texts,
            problems=kept.problems,
            lags_ns=nanos(kept.lags),
            loop_lags_ns=nanos(kept.loop_lags),
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
        self._overdue = Overdue(self._job.limits)
        self._reading = 0
        self._unread: deque[tuple[Exchange, Ended]] = deque()
        self._drain_at_ns = -1
        self._kept = Recording(self._total, part.start_ns, keep_texts=self._job.keep_texts)
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
            self._kept.lags.append(now_ns - scheduled[self._next])
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
            self._kept.keep(exchange, self._read(exchange, ended))
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
            self._kept.keep(exchange, self._read(exchange, ended))
            now_ns = monotonic_ns()
            if now_ns >= self._pulse.next_ns:
                self._due()
        if self._unread:
            self._loop.call_soon(self._read_some)

    def _refused(self, exchange: Exchange, why: str) -> None:
        self._running.pop(exchange, None)
        reading = Reading(ResponseStatus.CONNECT_FAILED, end_ns=monotonic_ns(), problem=f"no connection: {why}")
        self._kept.keep(exchange, reading)
        self._go_on()

    def _read(self, exchange: Exchange, ended: Ended) -> Reading:
        return self._job.spoken.read(exchange.response(ended), keep_text=self._job.keep_texts)

    def _read_slowly(self, exchange: Exchange, done: asyncio.Future[Reading]) -> None:
        self._reading -= 1
        self._kept.keep(exchange, done.result())

    def _go_on(self) -> None:
        if self._part.at_once and self._next < self._total:
            self._send(monotonic_ns())
        elif not self._running and self._next >= self._total:
            self._over.set()

    def _tick(self) -> None:
        now_s = self._loop.time()
        self._kept.loop_lags.append(round((now_s - self._tick_due_s) * 1e9))
        self._tick_due_s = max(self._tick_due_s + _TICK_S, now_s)
        self._look(monotonic_ns())
        self._ticks += 1
        if self._ticks % _TELL_EVERY_TICKS == 0:
            self._tell()
        if not self._over.is_set():
            self._tick_handle = self._loop.call_at(self._tick_due_s, self._tick)

    def _look(self, now_ns: int) -> None:
        """Enforce the time limits."""
        if 0 <= self._drain_at_ns <= now_ns:
            self._drain()
            return
        for exchange in self._overdue.found(self._running, now_ns):
            # What was given up before may have ended this one too.
            if exchange in self._running:
                self._give_up(exchange, Ended.LATE)

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
        self._pipe.send(self._kept.progress(sent=self._next, in_flight=len(self._running)))
