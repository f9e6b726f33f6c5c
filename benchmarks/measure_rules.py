"""Stopping rules of other tools, simplified and put on an arrival rate: bisection where each level starts empty.

Source of the rules: measuring notes of the tools' own code; the real ones step concurrency.
"""

from __future__ import annotations

from collections.abc import Callable

from gpuyield.measure.objectives import marks
from gpuyield.measure.shapes import Shape
from gpuyield.model.measure import SECOND_NS, Phase, ProbePlan


def bisect(
    shape: Shape,
    seed: int,
    *,
    seconds: float | None = None,
    requests: int | None = None,
    share: float | None = None,
    trials: int = 1,
    width: float = 0.1,
) -> tuple[float, int]:
    """The highest rate that passed (any of the trials), and the requests spent."""
    low, high, sent = shape.guess_rps / 64, shape.guess_rps, 0
    needed = float(shape.objective.share) if share is None else share
    number = 0
    while high / low > 1 + width:
        rate = (low * high) ** 0.5 if high / low > 2 else (low + high) / 2
        passed = False
        for _ in range(trials):
            number += 1
            span_s = seconds if seconds is not None else (requests or 0) / rate
            plan = ProbePlan(
                number=number,
                phase=Phase.SEARCH,
                seed=seed * 1_000 + number,
                rate_rps=rate,
                warmup_ns=0,
                batch_ns=round(span_s * SECOND_NS),
                batches=1,
                runout_ns=0,
                drain_ns=round(3_600 * SECOND_NS),
            )
            arrivals = shape.schedule().arrivals(plan)
            records = shape.bench().run(plan, arrivals).records
            sent += len(records)
            missed = marks(shape.objective, records, give_up_ns=plan.sending_ns + plan.drain_ns).missed
            passed = passed or float(1 - missed.mean()) >= needed
        low, high = (rate, high) if passed else (low, rate)
    return low, sent


Rule = Callable[[Shape, int], tuple[float, int]]

RULES: dict[str, Rule] = {
    "64_requests_90_percent": lambda shape, seed: bisect(shape, seed, requests=64, share=0.90),
    "300_requests_point_estimate": lambda shape, seed: bisect(shape, seed, requests=300),
    "60_s_percentile": lambda shape, seed: bisect(shape, seed, seconds=60, width=0.05),
    "60_s_any_of_3_trials": lambda shape, seed: bisect(shape, seed, seconds=60, trials=3, width=0.05),
    "300_s_percentile": lambda shape, seed: bisect(shape, seed, seconds=300, width=0.05),
}
