"""What became of each attempt and of each logical outcome. No I/O here.

First match: superseded (a later attempt took its place), failed, late, rejected, unverified, verified. The attempt
that decides is the last one that executed, else the last one; failed attempts after it stay failed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from gpuyield.model.declaration import Metric
from gpuyield.model.evidence import Gap
from gpuyield.model.outcome import (
    CheckResult,
    EvaluatorKind,
    ExecStatus,
    JudgedSpan,
    Judging,
    Outcome,
    OutcomeResult,
    OutcomeStatus,
    Verdict,
)
from gpuyield.outcomes.verdicts import check_result, standing_verdicts
from gpuyield.units import Window, format_duration, format_instant

JudgingOf = Callable[[Outcome], Judging]
Key = tuple[str, str]

_MICROSECOND_FIELDS = {Metric.TTFT: "ttft_us", Metric.TPOT: "tpot_us", Metric.QUEUE: "queue_us"}


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedAttempt:
    """An attempt and what became of it, with the reason in words."""

    outcome: Outcome
    status: OutcomeStatus
    decides: bool
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """All attempts, all logical outcomes, and the verdicts whose outcome is not there (yet)."""

    attempts: tuple[JudgedAttempt, ...]
    results: tuple[OutcomeResult, ...]
    orphans: int

    def spans(self, window: Window | None = None) -> tuple[JudgedSpan, ...]:
        """When each attempt ran, with its status, for the accounting (None: all of them)."""
        return tuple(
            span
            for one in self.attempts
            if (span := _span(one)) and (window is None or Window(span.from_ms, span.to_ms).cut(window))
        )

    def gaps(self) -> tuple[Gap, ...]:
        """What the outcomes leave open."""
        if not self.orphans:
            return ()
        word = "verdict has" if self.orphans == 1 else "verdicts have"
        return (Gap(reason=f"{self.orphans:,} {word} no outcome in the ledger yet.", where="outcomes"),)


def judge(
    outcomes: Iterable[Outcome], verdicts: Iterable[Verdict], judging_of: JudgingOf = lambda _: Judging()
) -> Judged:
    """What became of every attempt and logical outcome; the order of either argument does not matter.

    A verdict may come from another source than its outcome (see `outcome_key`).
    """
    by_key: dict[Key, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        by_key[outcome.source, outcome.outcome_id].append(outcome)
    sources = sources_by_id(by_key)
    verdicts_by_key: dict[Key, list[Verdict]] = defaultdict(list)
    orphans = 0
    for verdict in verdicts:
        key = outcome_key(verdict, sources)
        if key is None:
            orphans += 1
        else:
            verdicts_by_key[key].append(verdict)
    attempts: list[JudgedAttempt] = []
    results: list[OutcomeResult] = []
    for key in sorted(by_key):
        judged, unplaced = _judge_one(by_key[key], verdicts_by_key.get(key, []), judging_of)
        attempts.extend(judged)
        results.append(_result(judged))
        orphans += unplaced
    return Judged(attempts=tuple(attempts), results=tuple(results), orphans=orphans)


def judged_spans(
    outcomes: Iterable[Outcome],
    verdicts: Iterable[Verdict],
    judging_of: JudgingOf = lambda _: Judging(),
    window: Window | None = None,
) -> tuple[JudgedSpan, ...]:
    """When each attempt ran and what became of it, for the accounting."""
    return judge(outcomes, verdicts, judging_of).spans(window)


def sources_by_id(keys: Iterable[Key]) -> dict[str, set[str]]:
    """The sources that know an outcome of this id."""
    sources: dict[str, set[str]] = defaultdict(set)
    for source, outcome_id in keys:
        sources[outcome_id].add(source)
    return sources


def outcome_key(verdict: Verdict, sources: Mapping[str, Collection[str]]) -> Key | None:
    """The outcome that a verdict means: its own source's, else that of the only source with the id; None: an orphan."""
    known = sources.get(verdict.outcome_id, ())
    if verdict.source in known:
        return verdict.source, verdict.outcome_id
    return (next(iter(known)), verdict.outcome_id) if len(known) == 1 else None


def deciding_attempt(attempts: Sequence[Outcome]) -> Outcome:
    """The attempt that stands for the logical outcome: the last that executed, else the last."""
    executed = [one for one in attempts if one.exec_status is ExecStatus.SUCCEEDED]
    return max(executed or attempts, key=lambda one: one.attempt)


def _judge_one(
    attempts: Sequence[Outcome], verdicts: Sequence[Verdict], judging_of: JudgingOf
) -> tuple[list[JudgedAttempt], int]:
    decides = deciding_attempt(attempts)
    known = {one.attempt for one in attempts}
    mine = [one for one in verdicts if one.attempt is None or one.attempt == decides.attempt]
    judged = []
    for one in sorted(attempts, key=lambda one: one.attempt):
        if one.attempt < decides.attempt:
            status, reason = OutcomeStatus.SUPERSEDED, f"attempt {decides.attempt} took its place"
        elif one.exec_status is not ExecStatus.SUCCEEDED:
            status, reason = OutcomeStatus.FAILED, f"it ended as {one.exec_status}"
        else:
            status, reason = _executed(one, standing_verdicts(mine), judging_of(one))
        judged.append(JudgedAttempt(outcome=one, status=status, decides=one is decides, reason=reason))
    return judged, sum(one.attempt is not None and one.attempt not in known for one in verdicts)


def _executed(outcome: Outcome, verdicts: Sequence[Verdict], judging: Judging) -> tuple[OutcomeStatus, str]:
    late, unmeasured = _latency(outcome, judging)
    if late:
        return OutcomeStatus.LATE, late
    by_check: dict[str, list[Verdict]] = defaultdict(list)
    for verdict in verdicts:
        by_check[verdict.check].append(verdict)
    required = judging.policy.require if judging.policy and judging.policy.require else tuple(sorted(by_check))
    passed: Mapping[str, bool | None] = {
        check: check_result(by_check.get(check, ()), judging.policy) for check in required
    }
    refused = [check for check, said in passed.items() if said is False]
    if refused:
        return OutcomeStatus.REJECTED, f"check {refused[0]} failed"
    human = next((one for one in verdicts if _is_human_no(one)), None)
    if human:
        return OutcomeStatus.REJECTED, f"a human said no to {human.check}"
    open_checks = [check for check, said in passed.items() if said is None]
    if open_checks:
        return OutcomeStatus.UNVERIFIED, f"no conclusive verdict of check {open_checks[0]}"
    if not required:
        return OutcomeStatus.UNVERIFIED, "no verdict"
    if unmeasured:
        return OutcomeStatus.UNVERIFIED, unmeasured
    return OutcomeStatus.VERIFIED, f"{len(required)} of {len(required)} required checks passed"


def _latency(outcome: Outcome, judging: Judging) -> tuple[str, str]:
    """Why it is late, and what could not be judged for want of a figure ("" each: nothing)."""
    if judging.deadline_ms is not None and outcome.ended_us > judging.deadline_ms * 1000:
        return f"it ended after its deadline {format_instant(judging.deadline_ms)}", ""
    unmeasured = ""
    for metric, limit_us in sorted(judging.limits_us.items()):
        found = _measured(outcome, metric)
        if found is None:
            # The time between tokens does not exist where there are fewer than two.
            short = outcome.output_tokens is not None and outcome.output_tokens < 2
            if not (short and metric in (Metric.TPOT, Metric.ITL)):
                unmeasured = unmeasured or f"it has no {metric} to hold against the objective"
        elif found > limit_us:
            return f"{metric} was above {format_duration(limit_us // 1000)}", ""
    return "", unmeasured


def _measured(outcome: Outcome, metric: Metric) -> int | None:
    if metric is Metric.E2E:
        return outcome.ended_us - outcome.started_us
    name = _MICROSECOND_FIELDS.get(metric)
    found: int | None = getattr(outcome, name) if name else None
    return found


def _is_human_no(verdict: Verdict) -> bool:
    return verdict.evaluator_kind is EvaluatorKind.HUMAN and verdict.result is CheckResult.FAIL


def _result(judged: Sequence[JudgedAttempt]) -> OutcomeResult:
    decides = next(one for one in judged if one.decides)
    outcome = decides.outcome
    return OutcomeResult(
        source=outcome.source,
        outcome_id=outcome.outcome_id,
        status=decides.status,
        service=outcome.service,
        namespace=outcome.namespace,
        workload=outcome.workload,
        ended_ms=outcome.ended_us // 1000,
        units=outcome.units,
        attempts=len(judged),
        reason=decides.reason,
    )


def _span(judged: JudgedAttempt) -> JudgedSpan | None:
    outcome = judged.outcome
    if not outcome.namespace or not outcome.workload:
        return None
    return JudgedSpan(
        namespace=outcome.namespace,
        workload=outcome.workload,
        pod_uid=outcome.pod_uid or None,
        from_ms=outcome.started_us // 1000,
        to_ms=-(-outcome.ended_us // 1000),
        status=judged.status,
        units=outcome.units,
    )
