"""A probe that several senders share: who sends what from when on, what each reports, and what all of it amounts to.

Nobody leads them. The whole schedule follows from the seed and the rate; shard i of n sends every n-th arrival from
the i-th on, counted from an instant that was fixed before any of them began. What is missing, doubled or of another
probe is an error, never a smaller load.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from gpuyield.errors import Mistake
from gpuyield.measure.sender.health import Vitals, judge, together
from gpuyield.measure.served import Served
from gpuyield.model.measure import (
    NANOS,
    RECORD_NUMBERS,
    SECOND_NS,
    Arrivals,
    Phase,
    ProbePlan,
    Records,
    Run,
    SenderHealth,
)

_Number = TypeVar("_Number", bound=np.generic)
MOST_SHARDS = 1_000
_CLOCK_SHARE = 0.1
"""How far the clocks of shards may be apart, in batches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One probe for so many shards. The two digests are of what is asked, and of every arrival."""

    name: str
    plan: ProbePlan
    shards: int
    start_at_ms: int
    question_sha256: str
    arrivals_sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a shard tells of itself; `usage`: whether the service counts tokens.

    `beat_ms` is when it told the others that it saw all of them, on its own clock, and `seen_ms` when it saw that
    they had, by shard. `clock_error_s` is how far the system believes its clock to be off at most (None: unknown).
    """

    round: str
    index: int
    files: Mapping[str, str]
    symptoms: Symptoms
    ceiling_share: float | None
    changed: str
    served: Served
    usage: bool | None
    beat_ms: int
    seen_ms: Mapping[int, int] = field(default_factory=dict)
    clock_error_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Symptoms:
    """Vitals without the lags, which are a file of their own."""

    throttled_s: float
    waited_s: float | None
    duration_s: float
    shortage: str
    lost_worker: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """What one shard left behind."""

    report: Report
    records: Records
    lags_ns: NANOS
    loop_lags_ns: NANOS

    @property
    def vitals(self) -> Vitals:
        """What it saw of itself."""
        seen = self.report.symptoms
        return Vitals(
            lags_ns=self.lags_ns,
            loop_lags_ns=self.loop_lags_ns,
            throttled_s=seen.throttled_s,
            waited_s=seen.waited_s,
            duration_s=seen.duration_s,
            shortage=seen.shortage,
            lost_worker=seen.lost_worker,
        )


def part_of(arrivals: Arrivals, index: int, shards: int) -> Arrivals:
    """What a shard sends."""
    return Arrivals(scheduled_ns=arrivals.scheduled_ns[index::shards], request=arrivals.request[index::shards])


def arrivals_sha256(arrivals: Arrivals) -> str:
    """The digest of a schedule: another version that draws others is found out before it sends them."""
    digest = hashlib.sha256()
    for column in (arrivals.scheduled_ns, arrivals.request):
        digest.update(np.ascontiguousarray(column, dtype="<i8").tobytes())
    return digest.hexdigest()


def mistakes_of(round_: Round, arrivals: Arrivals, shards: Sequence[Shard], *, where: str) -> list[Mistake]:
    """What is wrong with the set of shards: missing, doubled, of another round, or not what was to be sent."""
    found = []
    indices = [one.report.index for one in shards]
    again = "Run this probe again: gpuyield measure ... --in-cluster."
    missing = sorted(set(range(round_.shards)) - set(indices))
    if missing:
        named = ", ".join(map(str, missing[:20]))
        what = f"shard {named} of {round_.shards} reported nothing: the load was not whole."
        found.append(Mistake(what=what, where=where, fix=f"See the log of its pod. {again}"))
    doubled = sorted({one for one in indices if indices.count(one) > 1})
    found += [Mistake(what=f"shard {index} is there twice.", where=where, fix=again) for index in doubled]
    for one in shards:
        report = one.report
        if report.round != round_.name or not 0 <= report.index < round_.shards:
            what = f"shard {report.index} belongs to {report.round[:60]}, not to {round_.name}."
            found.append(Mistake(what=what, where=where, fix="Merge the folder of one round."))
            continue
        part = part_of(arrivals, report.index, round_.shards)
        if not np.array_equal(one.records.scheduled_ns, part.scheduled_ns):
            what = f"shard {report.index} has {len(one.records)} requests that are not its part of the schedule."
            found.append(Mistake(what=what, where=where, fix=again))
    return found


def run_of(round_: Round, arrivals: Arrivals, shards: Sequence[Shard], *, lag_limit_s: float) -> Run:
    """What one sender would have handed back; the shards must be whole."""
    ordered = sorted(shards, key=lambda one: one.report.index)
    names = RECORD_NUMBERS[1:]
    columns = {name: _joined([getattr(one.records, name) for one in ordered]) for name in names}
    checks = list(ordered[0].records.grades)
    records = Records(
        scheduled_ns=arrivals.scheduled_ns,
        status=_joined([one.records.status for one in ordered]),
        grades={name: _joined([one.records.grades[name] for one in ordered]) for name in checks},
        **columns,
    )
    return Run(records=records, health=_health(round_, ordered, lag_limit_s), changed=_changed(ordered))


def clock_spread_s(reports: Sequence[Report]) -> float | None:
    """How far apart the clocks of two shards may be at most; None where nothing tells.

    A shard cannot see a beat before it was made: seen on clock j minus made on clock i is at least clock j minus
    clock i. Both ways together that is an interval, as in NTP. What the systems say of their own clocks may be closer.
    """
    spread = 0.0
    for at, one in enumerate(reports):
        for other in reports[at + 1 :]:
            there, back = other.seen_ms.get(one.index), one.seen_ms.get(other.index)
            bounds = []
            if there is not None and back is not None:
                bounds.append(max(abs(there - one.beat_ms), abs(back - other.beat_ms)) / 1000)
            if one.clock_error_s is not None and other.clock_error_s is not None:
                bounds.append(one.clock_error_s + other.clock_error_s)
            if not bounds:
                return None
            spread = max(spread, min(bounds))
    return spread


def _joined(parts: Sequence[NDArray[_Number]]) -> NDArray[_Number]:
    """The column of which each shard holds every n-th value."""
    joined = np.empty(sum(map(len, parts)), dtype=parts[0].dtype)
    for place, part in enumerate(parts):
        joined[place :: len(parts)] = part
    return joined


def _health(round_: Round, shards: Sequence[Shard], lag_limit_s: float) -> SenderHealth:
    reports = [one.report for one in shards]
    shares = [one.ceiling_share for one in reports if one.ceiling_share is not None]
    vitals = together([one.vitals for one in shards], apart=_clock_trouble(round_.plan, reports))
    return judge(vitals, ceiling_share=max(shares, default=None), lag_limit_s=lag_limit_s)


def _clock_trouble(plan: ProbePlan, reports: Sequence[Report]) -> str:
    """Why the shards cannot be said to have sent together; empty where they can."""
    if plan.phase is Phase.CEILING or len(reports) < 2:
        return ""
    limit_s = plan.batch_ns * _CLOCK_SHARE / SECOND_NS
    spread_s = clock_spread_s(reports)
    if spread_s is None:
        return "nothing tells how far the clocks of the shards are apart"
    if spread_s > limit_s:
        return f"the clocks of the shards may be {spread_s:.2f} s apart (limit {limit_s:.2f} s)"
    return ""


def _changed(shards: Sequence[Shard]) -> str:
    reports = [one.report for one in shards]
    told = next((one.changed for one in reports if one.changed), "")
    if not told and len({(one.served.digest, one.usage) for one in reports}) > 1:
        return "The shards saw services that differ: not all replicas are the same."
    return told
