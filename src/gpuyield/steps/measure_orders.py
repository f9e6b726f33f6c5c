"""What a question means for the sender and for the search."""

from __future__ import annotations

from gpuyield.measure.search import Settings
from gpuyield.measure.sender.bench import Orders
from gpuyield.measure.sender.ceiling import Cost
from gpuyield.steps.measure_asked import Asked


def orders_of(asked: Asked, *, cost: Cost | None = None, e2e_s: float = 0.0) -> Orders:
    """What is sent, and how; `cost` is what the self-test found, `e2e_s` how long an answer took."""
    return Orders(
        target=asked.target,
        spoken=asked.spoken,
        lines=asked.lines,
        model=asked.model,
        checks=asked.checks,
        workers=asked.workers,
        lag_limit_s=asked.lag_limit_s,
        cost=cost,
        abort_if=asked.abort_if,
        e2e_s=e2e_s,
    )


def settings_of(asked: Asked) -> Settings:
    """What the search is asked."""
    return Settings(
        objectives=asked.objectives,
        level=asked.level,
        seed=asked.seed,
        max_rps=asked.max_rps,
        max_duration_s=asked.max_duration_s,
    )
