"""From what came back to what a probe says: counts per batch, bounds, backlog, status."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from gpuyield.measure.backlog import backlog_grows, backlog_slope, is_behind
from gpuyield.measure.objectives import Marks, marks, seconds_of
from gpuyield.measure.statistics import miss_bounds
from gpuyield.model.declaration import Metric, Objective
from gpuyield.model.measure import (
    SECOND_NS,
    Backlog,
    Bounds,
    Phase,
    Probe,
    ProbePlan,
    ProbeStatus,
    Quantiles,
    Records,
    ResponseStatus,
    Run,
    Tally,
)

_METRICS = {"ttft": Metric.TTFT, "tpot": Metric.TPOT, "itl": Metric.ITL, "e2e": Metric.E2E}


def judge(plan: ProbePlan, run: Run, objectives: Sequence[Objective]) -> Probe:
    """What a probe says of the objectives.

    Raises:
        DeclarationError: An objective is on a metric that a client cannot see.
        EvidenceError: A check was not graded.
    """
    records = run.records
    since = records.scheduled_ns - plan.warmup_ns
    inside = (since >= 0) & (since < plan.measured_ns)
    batch = (since // plan.batch_ns)[inside]
    give_up_ns = plan.sending_ns + plan.drain_ns
    found = [marks(one, records, give_up_ns=give_up_ns) for one in objectives]
    tallies = tuple(_tally(one, mark, inside, batch, plan) for one, mark in zip(objectives, found, strict=True))
    backlog = _backlog(plan, records)
    status, reason = _status(plan, run, tallies, backlog)
    is_ok = inside & (records.status == ResponseStatus.OK)
    good = is_ok.copy()
    for mark in found:
        good &= ~mark.missed
    e2e = seconds_of(Metric.E2E, records)[is_ok]
    ends = np.sort(records.end_ns[records.end_ns >= 0])
    return Probe(
        plan=plan,
        requests=int(inside.sum()),
        completed=int(is_ok.sum()),
        failed=int((inside & ~is_ok & (records.status != ResponseStatus.IN_FLIGHT)).sum()),
        good=int(good.sum()),
        sent=len(records),
        duration_s=max(plan.sending_ns, int(ends[-1]) if len(ends) else 0) / SECOND_NS,
        drain_s=max(0.0, (int(ends[-1]) - plan.sending_ns) / SECOND_NS) if len(ends) else 0.0,
        served_rps=_served_rps(ends),
        e2e_mean_s=float(e2e.mean()) if len(e2e) else None,
        latencies=_latencies(records, is_ok),
        tallies=tallies,
        backlog=backlog,
        health=run.health,
        status=status,
        reason=reason,
        witness=run.witness,
    )


def _tally(
    objective: Objective, found: Marks, inside: NDArray[np.bool_], batch: NDArray[np.int64], plan: ProbePlan
) -> Tally:
    def counted(flags: NDArray[np.bool_]) -> tuple[int, ...]:
        return tuple(np.bincount(batch[flags], minlength=plan.batches).tolist())

    attempts = counted(np.ones(len(batch), bool))
    misses, pending = counted(found.missed[inside]), counted(found.pending[inside])
    return Tally(
        objective=objective.name,
        allowed=float(1 - objective.share),
        attempts=attempts,
        misses=misses,
        pending=pending,
        bounds=tally_bounds(attempts, misses, pending, keep=plan.alpha_keep, break_=plan.alpha_break),
    )


def tally_bounds(
    attempts: Sequence[int], misses: Sequence[int], pending: Sequence[int], *, keep: float, break_: float
) -> Bounds:
    """Bounds that hold whatever becomes of the pending ones: all missed above, none below."""
    low = miss_bounds(attempts, misses, alpha=break_)
    if not any(pending) and keep == break_:
        return low
    most = [missed + open_ for missed, open_ in zip(misses, pending, strict=True)]
    high = miss_bounds(attempts, most, alpha=keep)
    return Bounds(share=low.share, lo=low.lo, hi=high.hi, n_eff=high.n_eff, inflation=high.inflation)


def _backlog(plan: ProbePlan, records: Records) -> Backlog:
    edges = plan.warmup_ns + plan.batch_ns * np.arange(plan.batches + 1)
    ends = np.sort(records.end_ns[records.end_ns >= 0])
    arrived = np.searchsorted(records.scheduled_ns, edges)
    completed = np.searchsorted(ends, edges)
    in_flight = tuple((arrived - completed).tolist())
    half = plan.batches // 2
    return Backlog(
        in_flight=in_flight,
        slope=backlog_slope(in_flight) * SECOND_NS / plan.batch_ns,
        grows=backlog_grows(in_flight),
        late_arrivals=int(arrived[-1] - arrived[half]),
        late_completions=int(completed[-1] - completed[half]),
    )


def _status(plan: ProbePlan, run: Run, tallies: Sequence[Tally], backlog: Backlog) -> tuple[ProbeStatus, str]:
    if not run.health.valid:
        return ProbeStatus.INVALID, run.health.why
    if run.changed:
        return ProbeStatus.INVALID, run.changed
    if plan.phase is Phase.CEILING:
        return ProbeStatus.UNDECIDED, "a burst has no steady state"
    broken = [one.objective for one in tallies if one.broken]
    if broken:
        return ProbeStatus.FAIL, f"{', '.join(broken)} not kept"
    if backlog.grows:
        return ProbeStatus.FAIL, "the backlog grows"
    if is_behind(backlog):
        return ProbeStatus.FAIL, "less is completed than offered"
    unclear = [one.objective for one in tallies if not one.holds]
    if unclear:
        return ProbeStatus.UNDECIDED, f"{', '.join(unclear)} not certain"
    return ProbeStatus.PASS, "all objectives kept"


def _served_rps(ends_ns: NDArray[np.int64]) -> float | None:
    """The rate of the middle of the completions, between the first and the last quarter."""
    low, high = len(ends_ns) // 4, (3 * len(ends_ns)) // 4
    if high <= low or ends_ns[high] <= ends_ns[low]:
        return None
    return float((high - low) * SECOND_NS / (ends_ns[high] - ends_ns[low]))


def _latencies(records: Records, is_ok: NDArray[np.bool_]) -> dict[str, Quantiles]:
    columns = {name: seconds_of(metric, records) for name, metric in _METRICS.items()}
    waited = (records.sent_ns - records.scheduled_ns) / SECOND_NS
    columns |= {"ttft_sent": columns["ttft"] - waited, "e2e_sent": columns["e2e"] - waited}
    found: dict[str, Quantiles] = {}
    for name, column in columns.items():
        values = np.sort(column[is_ok & ~np.isnan(column)])
        if len(values):
            found[name] = Quantiles(
                p50=_rank(values, 50), p90=_rank(values, 90), p95=_rank(values, 95), p99=_rank(values, 99)
            )
    return found


def _rank(values: NDArray[np.float64], percent: int) -> float:
    """The smallest value that so many percent do not exceed (nearest rank)."""
    return float(values[max(0, -(-len(values) * percent // 100) - 1)])
