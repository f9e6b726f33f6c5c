"""One run that is no search: a recorded trace as it was, or a closed loop; it certifies nothing."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any  # Documents are JSON.

import numpy as np

from gpuyield.errors import DeclarationError
from gpuyield.measure.judge import judge
from gpuyield.measure.rules import BATCHES
from gpuyield.measure.sender.bench import LiveBench
from gpuyield.measure.sender.ceiling import self_test
from gpuyield.measure.traces import replay
from gpuyield.model.document import schema_name
from gpuyield.model.measure import SECOND_NS, Arrivals, Phase, Probe, ProbePlan, Records, ResponseStatus, Run, Tally
from gpuyield.report.answer import Answer, Next
from gpuyield.report.screens.measure_once import announced_once, once_answer
from gpuyield.steps.documents import write_answer
from gpuyield.steps.measure_asked import Asked, read_question
from gpuyield.steps.measure_orders import orders_of
from gpuyield.steps.measure_question import Question, same_question
from gpuyield.steps.measure_service import first_answer, looker
from gpuyield.steps.setting import read_declaration, wall_clock_ms
from gpuyield.units import format_instant

Say = Callable[[str], None]

INVALID = 4
"""The exit code where the sender was starved, or the service changed: the run says nothing of the service."""

_DRAIN_S = 120.0
_TURNS, _FEWEST_ANSWERS = 20, 200
_MOST_AT_ONCE = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Once:
    """What is to run: `scale` is how many times as fast as recorded; `at_once` > 0 is a closed loop instead."""

    scale: Decimal = Decimal(1)
    at_once: int = 0

    @property
    def mode(self) -> str:
        """Its name in documents."""
        return "closed_loop" if self.at_once else "replay"


def ask_once(
    question: Question,
    *,
    scale: str | None,
    at_once: int | None,
    file: Path,
    apply: bool,
    out: Path | None,
    say: Say,
    tell: Say,
) -> Answer:
    """The answer of `--replay` (with its `scale`) or of `--closed-loop`, from the options.

    Raises:
        DeclarationError: All mistakes of the question.
        SourceError: The service is out of reach, or an abort condition holds.
    """
    asked = read_question(question, read_declaration(file, required=question.service is not None), searches=False)
    if scale is not None and (not re.fullmatch(r"\d{1,6}(\.\d{1,6})?", scale) or not Decimal(scale)):
        raise DeclarationError(f'"{scale[:30]}" is no factor.', where="--scale", fix="Write a number such as 10.")
    ends = ["--replay", "--scale", scale] if scale is not None else ["--closed-loop", str(at_once)]
    ends += ["--out", shlex.quote(str(out))] if out is not None else []
    return run_once(
        asked,
        Once(scale=Decimal(scale or 1), at_once=at_once or 0),
        apply=apply,
        out=out,
        again=" ".join(["gpuyield measure", same_question(question), *ends]),
        say=say,
        tell=tell,
    )


def run_once(asked: Asked, once: Once, *, apply: bool, out: Path | None, again: str, say: Say, tell: Say) -> Answer:
    """The answer of `--replay` and of `--closed-loop`; without `apply` it says what it would send, and sends nothing.

    Raises:
        DeclarationError: No trace to replay, or more than the highest rate allowed.
        SourceError: The service is out of reach, or an abort condition holds.
    """
    arrivals, plan = _planned(asked, once)
    about = {
        "mode": once.mode,
        "url": asked.target.url,
        "model": asked.model,
        "requests": len(arrivals),
        "requests_from": asked.requests_words,
        "scale": None if once.at_once else float(once.scale),
        "at_once": once.at_once or None,
        "seconds": None if once.at_once else int(arrivals.scheduled_ns[-1]) / SECOND_NS,
        "mean_rps": None if once.at_once else plan.rate_rps,
        "busiest_second": None if once.at_once else busiest_second(arrivals),
    }
    if not apply:
        return announced_once(about, command=f"{again} --apply")
    for line in announced_once(about, command="").headline[1:]:
        say(line)
    started_at_ms = wall_clock_ms()
    first = first_answer(asked)
    asked = replace(asked, spoken=first.spoken)
    tell("testing the sender itself")
    orders = replace(
        orders_of(asked, cost=None if once.at_once else self_test(), e2e_s=first.e2e_s),
        workers=min(asked.workers, once.at_once or asked.workers),
        look=looker(asked),
        at_once=once.at_once,
        tell=lambda flight: tell(f"{flight.done} of {len(arrivals)} answered, {flight.in_flight} in flight"),
    )
    with LiveBench(orders) as bench:
        run = bench.run(plan, arrivals)
        problems = dict(bench.problems)
    if once.at_once:
        run = _from_sending(run)
        plan = _plan(int(run.records.scheduled_ns.max()) + 1, plan.rate_rps)
    document = {
        "schema": schema_name("measure-once"),
        "started_at": format_instant(started_at_ms),
        **about,
        "certifies": False,
        **_found(judge(plan, run, asked.objectives), run, once),
        "problems": problems,
    }
    notes = write_answer(document, out)
    return once_answer(
        document,
        exit_code=0 if run.health.valid and not run.changed else INVALID,
        notes=notes,
        next_=[Next(command="gpuyield measure --help", why="certifies a rate")],
    )


def _planned(asked: Asked, once: Once) -> tuple[Arrivals, ProbePlan]:
    if once.at_once:
        return _closed(asked, once.at_once)
    if asked.trace is None:
        raise DeclarationError("there is nothing to replay.", where="--replay", fix="Name a trace with --trace FILE.")
    arrivals = replay(asked.trace, speed=float(once.scale), requests=len(asked.lines))
    most = busiest_second(arrivals)
    if most > asked.max_rps:
        raise DeclarationError(
            f"its busiest second sends {most} requests, and {asked.max_rps:g} a second are allowed.",
            where="--max-rate",
            fix=f"Write --max-rate {most}, or a smaller --scale.",
        )
    span_ns = int(arrivals.scheduled_ns[-1]) + 1
    return arrivals, _plan(span_ns, len(arrivals) * SECOND_NS / span_ns)


def _closed(asked: Asked, at_once: int) -> tuple[Arrivals, ProbePlan]:
    if not 1 <= at_once <= _MOST_AT_ONCE:
        raise DeclarationError(
            f"{at_once} requests at once.", where="--closed-loop", fix=f"Write a number from 1 to {_MOST_AT_ONCE:,}."
        )
    count = max(_FEWEST_ANSWERS, _TURNS * at_once)
    rows = np.arange(count, dtype=np.int64)
    nothing = np.zeros(count, dtype=np.int64)
    # The schedule is not looked at: the next one is sent when one of them is answered.
    return Arrivals(scheduled_ns=nothing, request=rows % len(asked.lines)), _plan(SECOND_NS, float(at_once))


def _plan(span_ns: int, rate_rps: float) -> ProbePlan:
    return ProbePlan(
        number=0,
        phase=Phase.SEARCH,
        seed=0,
        rate_rps=rate_rps,
        warmup_ns=0,
        batch_ns=-(-span_ns // BATCHES),
        batches=BATCHES,
        runout_ns=0,
        drain_ns=round(_DRAIN_S * SECOND_NS),
    )


def _from_sending(run: Run) -> Run:
    """In a closed loop nothing is scheduled: latencies count from sending, whatever that hides."""
    return replace(run, records=replace(run.records, scheduled_ns=np.maximum(run.records.sent_ns, 0)))


def busiest_second(arrivals: Arrivals) -> int:
    """The most requests of any second, wherever it begins."""
    times = arrivals.scheduled_ns
    return int((np.searchsorted(times, times + SECOND_NS) - np.arange(len(times))).max())


def _found(probe: Probe, run: Run, once: Once) -> Mapping[str, Any]:
    records = run.records
    is_ok = records.status == ResponseStatus.OK
    ends = records.end_ns[records.end_ns >= 0]
    lasted_s = int(ends.max()) / SECOND_NS if len(ends) else None
    return {
        "completed": int(is_ok.sum()),
        "failed": int((~is_ok & (records.status != ResponseStatus.IN_FLIGHT)).sum()),
        "in_flight": int((records.status == ResponseStatus.IN_FLIGHT).sum()),
        "lasted_s": lasted_s,
        "answered_rps": int(is_ok.sum()) / lasted_s if lasted_s else None,
        **{
            f"{name}_s": None if one is None else {"p50": one.p50, "p90": one.p90, "p95": one.p95, "p99": one.p99}
            for name, one in ((name, probe.latencies.get(name)) for name in ("ttft", "tpot", "itl", "e2e"))
        },
        "kept": {one.objective: None if once.at_once else _kept(one) for one in probe.tallies},
        "sender": {
            "valid": run.health.valid,
            "why": run.health.why,
            "changed": run.changed,
            **({} if once.at_once else _punctual(records)),
        },
    }


def _kept(tally: Tally) -> float | None:
    """The share of the requests that kept an objective; None of none."""
    attempts = sum(tally.attempts)
    return 1 - (sum(tally.misses) + sum(tally.pending)) / attempts if attempts else None


def _punctual(records: Records) -> Mapping[str, Any]:
    """Whether requests were sent in their order, and how late each was against its schedule."""
    sent = records.sent_ns >= 0
    late_s = np.sort((records.sent_ns - records.scheduled_ns)[sent]) / SECOND_NS
    # A request on a new connection leaves when that is open: one that was due after it may find an idle one.
    due_ns = records.scheduled_ns[sent][np.argsort(records.sent_ns[sent], kind="stable")]
    overtaken_s = (np.maximum.accumulate(due_ns) - due_ns) / SECOND_NS
    return {
        "sent": int(sent.sum()),
        "overtaken": int((overtaken_s > 0).sum()),
        "overtaken_most_s": float(overtaken_s.max(initial=0.0)),
        "late_p50_s": float(late_s[len(late_s) // 2]) if len(late_s) else None,
        "late_p99_s": float(np.percentile(late_s, 99)) if len(late_s) else None,
        "late_max_s": float(late_s[-1]) if len(late_s) else None,
    }
