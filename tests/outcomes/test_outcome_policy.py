from __future__ import annotations

from decimal import Decimal

from gpuyield.model.declaration import (
    BatchFamily,
    Declaration,
    Metric,
    Objective,
    OutcomePolicy,
    Selector,
    Service,
)
from gpuyield.model.outcome import ExecStatus, Judging, Outcome, OutcomeKind
from gpuyield.outcomes.policy import judging_of

CHAT = OutcomePolicy(require=("resolved",))
NIGHTLY = OutcomePolicy(require=("schema_valid",))
DECLARATION = Declaration(
    services=(
        Service(
            name="chat",
            selector=Selector(namespace="support"),
            objectives=(
                Objective(name="ttft", metric=Metric.TTFT, at_most_us=800_000, share=Decimal("0.95")),
                Objective(name="resolved", check="resolved", share=Decimal("0.9")),
            ),
            outcome=CHAT,
        ),
    ),
    batch=(
        BatchFamily(name="nightly", selector=Selector(namespace="evals"), outcome=NIGHTLY),
        BatchFamily(name="weekly", selector=Selector(namespace="evals")),
    ),
)


def outcome(namespace: str, workload: str, service: str = "") -> Outcome:
    return Outcome(
        source="s",
        outcome_id="o",
        kind=OutcomeKind.JOB,
        started_us=0,
        ended_us=1,
        exec_status=ExecStatus.SUCCEEDED,
        namespace=namespace,
        workload=workload,
        service=service,
    )


def test_a_request_is_measured_by_its_service_and_its_latency_objectives() -> None:
    judging = judging_of(DECLARATION)

    expected = Judging(policy=CHAT, limits_us={Metric.TTFT: 800_000})
    assert judging(outcome("elsewhere", "x", service="chat")) == expected
    assert judging(outcome("support", "chat-7c9f")) == expected


def test_a_job_is_measured_by_the_family_whose_name_it_carries_and_by_its_deadline() -> None:
    judging = judging_of(DECLARATION, {("evals", "nightly-28"): 5})

    assert judging(outcome("evals", "nightly-28")) == Judging(policy=NIGHTLY, deadline_ms=5)
    assert judging(outcome("evals", "weekly-2")) == Judging()


def test_what_nobody_declared_is_measured_by_any_check_that_has_a_verdict() -> None:
    judging = judging_of(DECLARATION)

    assert judging(outcome("research", "notebook")) == Judging()
