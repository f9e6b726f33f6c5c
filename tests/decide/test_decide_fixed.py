"""Running jobs without a deadline are no reason to buy, even where they hold more than exists."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

from gpuyield.decide.decide import decide
from gpuyield.model.decision import DecideInputs, DecisionStatus, GpuRate
from gpuyield.units import Money
from plan.small import UNIT_MS, job, problem


def test_running_jobs_without_a_deadline_that_hold_more_than_exists_prove_no_need() -> None:
    running = replace(job("running", 6, 5), started_ms=-UNIT_MS)
    given = problem(running, job("a", 1, 2, deadline=20))
    price = GpuRate(gpu_hour=Money(Decimal("2.49"), "EUR"), source="declared")

    decision = decide(
        DecideInputs(now_ms=given.origin_ms, cluster="c", zone="UTC", problem=given, prices={"gpu": price}, sources=())
    )

    assert decision.status is DecisionStatus.UNKNOWN
    assert "without a deadline, hold more than exists: running" in " ".join(decision.reasons)
