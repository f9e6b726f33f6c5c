from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from gpuyield.model.declaration import Metric, OutcomePolicy, VerdictPolicy
from gpuyield.model.outcome import (
    CheckResult,
    EvaluatorKind,
    ExecStatus,
    JudgedSpan,
    Judging,
    Outcome,
    OutcomeKind,
    OutcomeStatus,
    Verdict,
    shares_over_time,
)
from gpuyield.outcomes.derive import judge
from gpuyield.units import HOUR_MS, Window


def attempt(
    number: int = 1,
    *,
    ended: ExecStatus = ExecStatus.SUCCEEDED,
    from_ms: int = 0,
    to_ms: int = HOUR_MS,
    output_tokens: int | None = None,
    ttft_us: int | None = None,
) -> Outcome:
    return Outcome(
        source="s",
        outcome_id="o",
        attempt=number,
        kind=OutcomeKind.JOB,
        started_us=from_ms * 1000,
        ended_us=to_ms * 1000,
        exec_status=ended,
        namespace="ns",
        workload="w",
        output_tokens=output_tokens,
        ttft_us=ttft_us,
    )


def said(
    result: CheckResult = CheckResult.PASS,
    *,
    name: str = "v",
    check: str = "c",
    kind: EvaluatorKind = EvaluatorKind.CODE,
    evaluator: str = "",
    revision: int = 0,
    decided_us: int = 0,
    supersedes: str = "",
    retracted: bool = False,
    attempt: int | None = None,
) -> Verdict:
    return Verdict(
        verdict_id=name,
        source="s",
        outcome_id="o",
        attempt=attempt,
        check=check,
        evaluator_kind=kind,
        evaluator=evaluator,
        result=result,
        decided_us=decided_us,
        revision=revision,
        supersedes=supersedes,
        retracted=retracted,
    )


def status(*verdicts: Verdict, judging: Judging | None = None, outcome: Outcome | None = None) -> OutcomeStatus:
    judged = judge([outcome or attempt()], verdicts, lambda _: judging or Judging())
    return judged.results[0].status


PASS, FAIL, ERROR, SKIPPED = CheckResult
HUMAN, CODE, JUDGE = EvaluatorKind.HUMAN, EvaluatorKind.CODE, EvaluatorKind.LLM_JUDGE


def test_an_outcome_without_a_verdict_is_unverified() -> None:
    assert status() is OutcomeStatus.UNVERIFIED


def test_a_passed_check_verifies_and_a_failed_one_rejects() -> None:
    assert status(said(PASS)) is OutcomeStatus.VERIFIED
    assert status(said(FAIL)) is OutcomeStatus.REJECTED


@pytest.mark.parametrize("broken", [ERROR, SKIPPED])
def test_a_check_that_broke_or_was_skipped_never_counts_as_a_fail(broken: CheckResult) -> None:
    assert status(said(broken)) is OutcomeStatus.UNVERIFIED
    assert (
        status(said(broken, name="v1", evaluator="a"), said(PASS, name="v2", evaluator="b")) is OutcomeStatus.VERIFIED
    )


def test_an_outcome_is_verified_only_when_every_required_check_passed() -> None:
    judging = Judging(policy=OutcomePolicy(require=("c", "d")))

    assert status(said(PASS), judging=judging) is OutcomeStatus.UNVERIFIED
    assert status(said(PASS), said(PASS, name="w", check="d"), judging=judging) is OutcomeStatus.VERIFIED
    assert status(said(PASS), said(FAIL, name="w", check="d"), judging=judging) is OutcomeStatus.REJECTED


def test_a_check_that_is_not_required_does_not_reject() -> None:
    judging = Judging(policy=OutcomePolicy(require=("c",)))

    assert status(said(PASS), said(FAIL, name="w", check="style"), judging=judging) is OutcomeStatus.VERIFIED


def test_a_human_no_rejects_whatever_the_check() -> None:
    judging = Judging(policy=OutcomePolicy(require=("c",)))

    assert (
        status(said(PASS), said(FAIL, name="w", check="style", kind=HUMAN), judging=judging) is OutcomeStatus.REJECTED
    )


@pytest.mark.parametrize(
    ("policy", "results", "expected"),
    [
        (OutcomePolicy(policy=VerdictPolicy.ALL), (PASS, PASS, FAIL), OutcomeStatus.REJECTED),
        (OutcomePolicy(policy=VerdictPolicy.ANY), (FAIL, PASS, FAIL), OutcomeStatus.VERIFIED),
        (OutcomePolicy(policy=VerdictPolicy.ANY), (FAIL, FAIL), OutcomeStatus.REJECTED),
        (OutcomePolicy(policy=VerdictPolicy.K_OF_N, k=2, n=3), (PASS, FAIL, PASS), OutcomeStatus.VERIFIED),
        (OutcomePolicy(policy=VerdictPolicy.K_OF_N, k=2, n=3), (PASS, FAIL), OutcomeStatus.UNVERIFIED),
        (OutcomePolicy(policy=VerdictPolicy.K_OF_N, k=2, n=3), (FAIL, FAIL), OutcomeStatus.REJECTED),
        (OutcomePolicy(policy=VerdictPolicy.K_OF_N, k=2, n=3), (PASS, ERROR, ERROR), OutcomeStatus.UNVERIFIED),
    ],
)
def test_several_verdicts_of_one_check_combine_by_the_declared_policy(
    policy: OutcomePolicy, results: tuple[CheckResult, ...], expected: OutcomeStatus
) -> None:
    verdicts = [said(one, name=f"v{at}", evaluator=f"e{at}") for at, one in enumerate(results)]

    found = status(*verdicts, judging=Judging(policy=policy))

    assert found is expected


def test_with_precedence_code_is_heard_before_a_judging_model() -> None:
    judging = Judging(policy=OutcomePolicy(policy=VerdictPolicy.PRECEDENCE))

    assert status(said(PASS), said(FAIL, name="w", kind=JUDGE), judging=judging) is OutcomeStatus.VERIFIED
    assert status(said(PASS, kind=JUDGE), said(FAIL, name="w", kind=CODE), judging=judging) is OutcomeStatus.REJECTED


def test_the_latest_verdict_is_by_revision_then_time_then_id() -> None:
    first = said(FAIL, name="a", revision=0, decided_us=9)

    assert status(first, said(PASS, name="b", revision=1, decided_us=1)) is OutcomeStatus.VERIFIED
    assert status(first, said(PASS, name="b", decided_us=8)) is OutcomeStatus.REJECTED
    assert status(first, said(PASS, name="b", decided_us=9)) is OutcomeStatus.VERIFIED


def test_a_superseded_verdict_does_not_count_whoever_gave_it() -> None:
    found = status(said(FAIL, name="a"), said(PASS, name="b", kind=HUMAN, supersedes="a"))

    assert found is OutcomeStatus.VERIFIED


def test_a_retracted_verdict_leaves_the_outcome_unjudged() -> None:
    found = status(said(PASS, name="a"), said(PASS, name="a", revision=1, retracted=True))

    assert found is OutcomeStatus.UNVERIFIED


def test_a_deadline_missed_is_late_even_when_the_check_passed() -> None:
    assert status(said(PASS), judging=Judging(deadline_ms=HOUR_MS)) is OutcomeStatus.VERIFIED
    assert status(said(PASS), judging=Judging(deadline_ms=HOUR_MS - 1)) is OutcomeStatus.LATE


def test_a_latency_beyond_its_limit_is_late_and_one_that_was_not_measured_is_unverified() -> None:
    judging = Judging(limits_us={Metric.TTFT: 800_000})

    assert status(said(PASS), judging=judging, outcome=attempt(ttft_us=800_000)) is OutcomeStatus.VERIFIED
    assert status(said(PASS), judging=judging, outcome=attempt(ttft_us=800_001)) is OutcomeStatus.LATE
    assert status(said(PASS), judging=judging) is OutcomeStatus.UNVERIFIED


def test_a_single_token_has_no_time_between_tokens_to_miss() -> None:
    judging = Judging(limits_us={Metric.TPOT: 40_000})

    assert status(said(PASS), judging=judging, outcome=attempt(output_tokens=0)) is OutcomeStatus.VERIFIED
    assert status(said(PASS), judging=judging, outcome=attempt(output_tokens=9)) is OutcomeStatus.UNVERIFIED


def test_an_attempt_that_a_later_one_replaced_is_superseded() -> None:
    judged = judge([attempt(1), attempt(2, ended=ExecStatus.FAILED), attempt(3)], [said(PASS)])

    assert [one.status for one in judged.attempts] == [
        OutcomeStatus.SUPERSEDED,
        OutcomeStatus.SUPERSEDED,
        OutcomeStatus.VERIFIED,
    ]
    assert (judged.results[0].status, judged.results[0].attempts) == (OutcomeStatus.VERIFIED, 3)


def test_an_outcome_fails_only_when_no_attempt_executed() -> None:
    after = judge([attempt(1), attempt(2, ended=ExecStatus.TIMED_OUT)], [said(PASS)])
    never = judge([attempt(1, ended=ExecStatus.CANCELLED), attempt(2, ended=ExecStatus.FAILED)], [said(PASS)])

    assert (after.results[0].status, after.attempts[1].status) == (OutcomeStatus.VERIFIED, OutcomeStatus.FAILED)
    assert [one.status for one in never.attempts] == [OutcomeStatus.SUPERSEDED, OutcomeStatus.FAILED]


def test_a_verdict_on_an_attempt_says_nothing_about_another() -> None:
    judged = judge([attempt(1), attempt(2)], [said(PASS, attempt=1)])

    assert judged.results[0].status is OutcomeStatus.UNVERIFIED


def test_a_verdict_of_another_source_finds_its_outcome_where_only_one_has_the_id() -> None:
    elsewhere = replace(said(FAIL), source="judges")
    same_id = replace(attempt(), source="t")

    assert judge([attempt()], [elsewhere]).results[0].status is OutcomeStatus.REJECTED
    assert judge([attempt(), same_id], [elsewhere]).orphans == 1


def test_verdicts_without_an_outcome_are_counted_as_a_gap() -> None:
    judged = judge([], [said(PASS)])

    assert [gap.reason for gap in judged.gaps()] == ["1 verdict has no outcome in the ledger yet."]


def test_busy_time_that_several_attempts_cover_splits_between_them() -> None:
    def span(from_ms: int, to_ms: int, found: OutcomeStatus, weight: int = 1) -> JudgedSpan:
        return JudgedSpan(
            namespace="ns", workload="w", pod_uid=None, from_ms=from_ms, to_ms=to_ms, status=found, weight=weight
        )

    segments = shares_over_time(
        [
            span(0, 10, OutcomeStatus.VERIFIED),
            span(5, 15, OutcomeStatus.REJECTED, weight=3),
            span(20, 30, OutcomeStatus.LATE),
            span(20, 30, OutcomeStatus.LATE, weight=0),
        ]
    )

    assert [(one.window, dict(one.shares)) for one in segments] == [
        (Window(0, 5), {OutcomeStatus.VERIFIED: 1}),
        (
            Window(5, 10),
            {OutcomeStatus.REJECTED: Fraction(3, 4), OutcomeStatus.VERIFIED: Fraction(1, 4)},
        ),
        (Window(10, 15), {OutcomeStatus.REJECTED: 1}),
        (Window(20, 30), {OutcomeStatus.LATE: 1}),
    ]
