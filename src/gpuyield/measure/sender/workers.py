"""The worker processes of a sender, seen from the parent: started once, given slices, stopped at once."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection as Pipe
from multiprocessing.connection import wait
from multiprocessing.context import SpawnProcess
from types import TracebackType
from typing import Any, Self, TypeVar

from gpuyield.errors import InternalError, SourceError
from gpuyield.measure.sender.limits import Job, Slice
from gpuyield.measure.sender.messages import STOP, Progress, Rows, Trouble
from gpuyield.measure.sender.worker import work

_START_S = 60.0
_LEAD_NS = 50_000_000
_POLL_S = 0.1
_STOPPED_WITHIN_S = 2.0
_Answer = TypeVar("_Answer")

Watch = Callable[[Sequence[Progress | None]], bool]
"""Looks at how far each worker is; whether to go on."""


@dataclass(slots=True)
class _Worker:
    process: SpawnProcess
    pipe: Pipe


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """What the workers brought, None of one that died; `interrupted`: somebody stopped it."""

    rows: Sequence[Rows | None]
    started_ns: int
    interrupted: BaseException | None = None


class Workers:
    """Sender processes for one job; a context manager, at whose end none is left."""

    def __init__(self, job: Job, *, number: int, cpus: Sequence[int] | None = None) -> None:
        self._job = job
        self._number = number
        self._cpus = cpus
        self._workers: list[_Worker] = []
        self.addresses: list[str] = []

    def __enter__(self) -> Self:
        context = multiprocessing.get_context("spawn")
        try:
            for _ in range(self._number):
                ours, theirs = context.Pipe()
                process = context.Process(target=work, args=(theirs,), daemon=True, name="gpuyield-sender")
                process.start()
                theirs.close()
                self._workers.append(_Worker(process, ours))
            for place, worker in enumerate(self._workers):
                if self._cpus and worker.process.pid is not None:
                    os.sched_setaffinity(worker.process.pid, {self._cpus[place % len(self._cpus)]})
                worker.pipe.send(self._job)
            for worker in self._workers:
                self.addresses = self._answer(worker, list, within_s=_START_S)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, err: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    @property
    def pids(self) -> list[int]:
        """The processes."""
        return [worker.process.pid for worker in self._workers if worker.process.pid is not None]

    def __len__(self) -> int:
        return self._number

    def open(self, connections: int) -> int:
        """Have that many connections open before a run; how many are."""
        for worker in self._workers:
            worker.pipe.send(-(-connections // self._number))
        within_s = self._job.limits.connect_s * 10 + _START_S
        return sum(self._answer(worker, int, within_s=within_s) for worker in self._workers)

    def run(self, parts: Sequence[Slice], watch: Watch, *, start_ns: int | None = None) -> Sent:
        """Send one slice on each worker, all from the same instant; stop at once when `watch` says so, or on Ctrl-C.

        `Slice.start_ns` is set here: to `start_ns`, else to a moment from now.

        Raises:
            SourceError: That instant is over.
        """
        earliest_ns = time.monotonic_ns() + _LEAD_NS
        if start_ns is not None and start_ns < earliest_ns:
            late_s = (earliest_ns - start_ns) / 1e9
            raise SourceError(f"ready {late_s:.1f} s too late to send.", where=self._job.target.url, fix="Start later.")
        start_ns = earliest_ns if start_ns is None else start_ns
        for worker, part in zip(self._workers, parts, strict=True):
            worker.pipe.send(part.starting(start_ns))
        rows: list[Rows | None] = [None] * self._number
        progress: list[Progress | None] = [None] * self._number
        running = {worker.pipe: place for place, worker in enumerate(self._workers)}
        interrupted: BaseException | None = None
        stop_by_s = float("inf")
        while running and time.monotonic() < stop_by_s:
            try:
                told = False
                for pipe in wait(list(running), timeout=_POLL_S):
                    assert isinstance(pipe, Pipe)
                    place = running[pipe]
                    try:
                        message: Any = pipe.recv()
                    except (EOFError, OSError):
                        del running[pipe]
                        continue
                    if isinstance(message, Rows):
                        rows[place] = message
                        del running[pipe]
                    elif isinstance(message, Progress):
                        progress[place], told = message, True
                if told and stop_by_s == float("inf") and not watch(progress):
                    stop_by_s = self._stop()
            except BaseException as err:
                interrupted = interrupted or err
                stop_by_s = self._stop()
        return Sent(rows=rows, started_ns=start_ns, interrupted=interrupted)

    def _stop(self) -> float:
        for worker in self._workers:
            with contextlib.suppress(OSError):
                worker.pipe.send(STOP)
        return time.monotonic() + _STOPPED_WITHIN_S

    def _answer(self, worker: _Worker, kind: type[_Answer], *, within_s: float) -> _Answer:
        give_up_s = time.monotonic() + within_s
        while time.monotonic() < give_up_s:
            if not worker.pipe.poll(_POLL_S):
                continue
            try:
                message: Any = worker.pipe.recv()
            except (EOFError, OSError):
                break
            if isinstance(message, Trouble):
                raise SourceError(
                    f"the service's address cannot be used: {message.what}.",
                    where=self._job.target.url,
                    fix="Is its name right, and known from here?",
                )
            if isinstance(message, kind):
                return message
        raise InternalError("a sender process did not start.", where="measure", fix="Is there enough memory?")

    def _end(self) -> None:
        for worker in self._workers:
            worker.pipe.close()
        for worker in self._workers:
            worker.process.join(timeout=_STOPPED_WITHIN_S)
            if worker.process.is_alive():
                worker.process.kill()
                worker.process.join()
            worker.process.close()
        self._workers.clear()
