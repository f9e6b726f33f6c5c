"""The numbers of a slice while it is sent: a row for each request, and a sample of what ended for whoever watches."""

from __future__ import annotations

from array import array
from time import monotonic_ns

import numpy as np

from gpuyield.measure.protocols.reading import Reading
from gpuyield.measure.sender.connection import Exchange
from gpuyield.measure.sender.messages import COLUMNS, Progress
from gpuyield.model.measure import CODES, NANOS, NEVER_NS, ResponseStatus

_SAMPLE = 256


class Recording:
    """Rows of so many requests; times count from `start_ns` of the monotonic clock."""

    def __init__(self, total: int, start_ns: int, *, keep_texts: bool) -> None:
        self._start_ns = start_ns
        self._keep_texts = keep_texts
        self._columns = {name: array("q", [NEVER_NS]) * total for name in COLUMNS}
        self._status = array("b", [ResponseStatus.IN_FLIGHT]) * total
        self._failed = 0
        self._sample = _nothing()
        self.done = 0
        self.lags = array("q")
        self.loop_lags = array("q")
        self.texts: dict[int, str] = {}
        self.problems: dict[str, int] = {}

    def keep(self, exchange: Exchange, reading: Reading) -> None:
        """Write the row of a request that ended."""
        row, start_ns, columns = exchange.row, self._start_ns, self._columns
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
        self.done += 1
        if reading.status is not ResponseStatus.OK:
            self._failed += 1
            self.problems[reading.problem] = self.problems.get(reading.problem, 0) + 1
        elif self._keep_texts:
            self.texts[row] = reading.text
        sample = self._sample
        if len(sample.statuses) < _SAMPLE:
            sample.statuses.append(int(reading.status))
            if reading.first_ns >= 0:
                sample.first_s.append((reading.first_ns - exchange.begun_ns) / 1e9)
            if reading.end_ns >= 0:
                sample.whole_s.append((reading.end_ns - exchange.begun_ns) / 1e9)

    def progress(self, *, sent: int, in_flight: int) -> Progress:
        """How far it is; the sample begins anew."""
        sample, self._sample = self._sample, _nothing()
        return Progress(
            at_s=(monotonic_ns() - self._start_ns) / 1e9,
            sent=sent,
            done=self.done,
            failed=self._failed,
            in_flight=in_flight,
            statuses=sample.statuses,
            first_s=sample.first_s,
            whole_s=sample.whole_s,
        )

    @property
    def columns(self) -> dict[str, NANOS]:
        """The rows so far."""
        return {name: nanos(column) for name, column in self._columns.items()}

    @property
    def status(self) -> CODES:
        """How each request ended."""
        return np.frombuffer(self._status, dtype=np.int8).copy()


def nanos(column: array[int]) -> NANOS:
    """A column of its own."""
    return np.frombuffer(column, dtype=np.int64).copy()


def _end_ns(reading: Reading) -> int:
    """When a response ended; of one that was given up, now."""
    given_up = reading.status is ResponseStatus.TIMEOUT or reading.end_ns < 0
    return monotonic_ns() if given_up else reading.end_ns


def _nothing() -> Progress:
    return Progress(at_s=0.0, sent=0, done=0, failed=0, in_flight=0)
