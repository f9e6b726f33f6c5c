"""The live bench: a probe's arrivals sent to a real service by the worker processes, graded, with the sender judged."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Self

import numpy as np

from gpuyield.errors import SourceError
from gpuyield.measure.graders import Check, grade_texts
from gpuyield.measure.protocols.protocol import Spoken
from gpuyield.measure.requests import RequestLine
from gpuyield.measure.sender.abort import Aborter, Condition
from gpuyield.measure.sender.ceiling import Cost
from gpuyield.measure.sender.health import Vitals, judge, together
from gpuyield.measure.sender.limits import Job, Limits, Slice
from gpuyield.measure.sender.messages import COLUMNS, Progress, Rows
from gpuyield.measure.sender.target import Target
from gpuyield.measure.sender.workers import Workers
from gpuyield.measure.served import Served, difference
from gpuyield.model.measure import CODES, SECOND_NS, Arrivals, Phase, ProbePlan, Records, ResponseStatus, Run

_LONGEST_LAG_S = 0.05
_SPARE = 1.5
_FEWEST_CONNECTIONS = 4
_MOST_CONNECTIONS = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Flight:
    """Where a probe is, for whoever watches. `left_s`: until the last request is sent. `told` by each worker."""

    plan: ProbePlan
    sent: int
    done: int
    failed: int
    in_flight: int
    left_s: float
    told: tuple[Progress | None, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    """What a live bench does.

    `lag_limit_s` is the largest slip that leaves a probe valid. `cost`: what the self-test found. `look` asks the
    service what it is, before and after each probe. `e2e_s` is how long answers took so far, for connections in
    advance. `at_once` > 0 keeps so many requests running instead of a schedule, which certifies nothing.
    """

    target: Target
    spoken: Spoken
    lines: Sequence[RequestLine]
    model: str
    checks: Mapping[str, Check] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)
    workers: int = 1
    cpus: Sequence[int] | None = None
    lag_limit_s: float = _LONGEST_LAG_S
    cost: Cost | None = None
    abort_if: Sequence[Condition] = ()
    look: Callable[[], Served] | None = None
    e2e_s: float = 0.0
    at_once: int = 0
    tell: Callable[[Flight], None] = lambda flight: None


class LiveBench:
    """Implements `Bench` for a real service; a context manager, since it owns processes."""

    def __init__(self, orders: Orders) -> None:
        self._orders = orders
        job = Job(
            target=orders.target,
            spoken=orders.spoken,
            bodies=[orders.spoken.body(line, model=orders.model) for line in orders.lines],
            limits=orders.limits,
            keep_texts=bool(orders.checks),
        )
        self._workers = Workers(job, number=orders.workers, cpus=orders.cpus)
        self._whole_s = orders.e2e_s
        self._first: Served | None = None
        self.problems: dict[str, int] = {}
        """What was wrong with answers of the last run, without their content, and how often."""
        self.connections = 0
        """Connections opened during the last run, because none was idle."""
        self.vitals: Vitals | None = None
        """What the sender saw of itself during the last run."""
        self.started_ns = 0
        """The instant of the monotonic clock from which the last run's times count."""

    def __enter__(self) -> Self:
        self._workers.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, err: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._workers.__exit__(kind, err, trace)

    @property
    def pids(self) -> list[int]:
        """The sender processes."""
        return self._workers.pids

    def run(self, plan: ProbePlan, arrivals: Arrivals, *, start_ns: int | None = None) -> Run:
        """Send every arrival at its time, from an instant of the monotonic clock on (None: from now on).

        Raises:
            SourceError: No connection at all, an abort condition holds, or the instant is over.
            KeyboardInterrupt: As soon as everything has been stopped.
        """
        self._workers.open(min(len(arrivals), self._connections(plan.rate_rps)))
        before = None if self._orders.look is None else self._orders.look()
        aborter = Aborter(self._orders.abort_if)
        last_s = int(arrivals.scheduled_ns[-1]) / SECOND_NS if len(arrivals) else 0.0

        def watch(told: Sequence[Progress | None]) -> bool:
            flight = _flight(plan, told, last_s)
            self._orders.tell(flight)
            return aborter.goes_on([one for one in told if one is not None])

        number = len(self._workers)
        parts = [
            Slice(
                scheduled_ns=arrivals.scheduled_ns[place::number],
                request=arrivals.request[place::number],
                drain_ns=plan.drain_ns,
                at_once=len(range(place, self._orders.at_once, number)),
            )
            for place in range(number)
        ]
        sent = self._workers.run(parts, watch, start_ns=start_ns)
        self.started_ns = sent.started_ns
        if sent.interrupted is not None:
            raise sent.interrupted
        if aborter.why:
            raise SourceError(aborter.why, where=self._orders.target.url, fix=aborter.fix)
        return self._run(plan, arrivals, sent.rows, "" if before is None else self._changed(before))

    def _changed(self, before: Served) -> str:
        """What changed of the service since `before`, or since the first run: in a sentence, empty when nothing did."""
        first, self._first = self._first, self._first or before
        if first is not None and first.digest != before.digest:
            return difference(first, replace(before, started=first.started), when="before the probe")
        return "" if self._orders.look is None else difference(before, self._orders.look())

    def _connections(self, rate_rps: float) -> int:
        expected = rate_rps * (self._whole_s or 0.2) * _SPARE
        return round(min(max(expected, _FEWEST_CONNECTIONS), _MOST_CONNECTIONS))

    def _run(self, plan: ProbePlan, arrivals: Arrivals, rows: Sequence[Rows | None], changed: str) -> Run:
        count, number = len(arrivals), len(rows)
        columns = {name: np.full(count, -1, dtype=np.int64) for name in COLUMNS}
        status = np.full(count, ResponseStatus.IN_FLIGHT, dtype=np.int8)
        texts: dict[int, str] = {}
        self.problems = {}
        for place, part in enumerate(rows):
            if part is None:
                continue
            for name in COLUMNS:
                columns[name][place::number] = part.columns[name]
            status[place::number] = part.status
            texts.update((place + row * number, text) for row, text in part.texts.items())
            for problem, times in part.problems.items():
                self.problems[problem] = self.problems.get(problem, 0) + times
        self.connections = sum(part.opened for part in rows if part is not None)
        ended = columns["end_ns"] >= 0
        if ended.any():
            self._whole_s = float(np.mean((columns["end_ns"] - arrivals.scheduled_ns)[ended])) / SECOND_NS
        records = Records(
            scheduled_ns=arrivals.scheduled_ns,
            sent_ns=columns["sent_ns"],
            first_ns=columns["first_ns"],
            last_ns=columns["last_ns"],
            end_ns=columns["end_ns"],
            output_tokens=columns["output_tokens"],
            input_tokens=columns["input_tokens"],
            reads=columns["reads"],
            gap_max_ns=columns["gap_max_ns"],
            status=status,
        )
        there = [part.vitals for part in rows if part is not None]
        self.vitals = vitals = together(there, lost_worker=None in rows)
        share = None if self._orders.cost is None else self._orders.cost.share(records, workers=number)
        health = judge(vitals, ceiling_share=share, lag_limit_s=self._orders.lag_limit_s)
        counts = health.valid and not changed and plan.phase is not Phase.CEILING
        measured = {
            row: text for row, text in texts.items() if counts and plan.measures(int(arrivals.scheduled_ns[row]))
        }
        return Run(
            records=replace(records, grades=self._grades(arrivals, status, texts, measured)),
            health=health,
            changed=changed,
        )

    def _grades(
        self, arrivals: Arrivals, status: CODES, texts: Mapping[int, str], measured: Mapping[int, str]
    ) -> dict[str, CODES]:
        lines = [self._orders.lines[request] for request in arrivals.request.tolist()]
        return {
            name: grade_texts(check, name, lines, status, texts if check.ahead is None else measured)
            for name, check in self._orders.checks.items()
        }


def _flight(plan: ProbePlan, told: Sequence[Progress | None], last_s: float) -> Flight:
    known = [one for one in told if one is not None]
    sent = sum(one.sent for one in known)
    return Flight(
        plan=plan,
        sent=sent,
        done=sum(one.done for one in known),
        failed=sum(one.failed for one in known),
        in_flight=sum(one.in_flight for one in known),
        left_s=max(0.0, last_s - max((one.at_s for one in known), default=0.0)),
        told=tuple(told),
    )
