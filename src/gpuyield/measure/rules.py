"""What each level spends, and how long a search will take: lengths in mean response times (E2E) of the service."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from gpuyield.model.declaration import Objective
from gpuyield.model.measure import Level

ALPHA = 0.05
"""What a certified rate may cost in false claims; a refuted one as much again."""

CONFIDENCE = 1 - ALPHA

BURSTS = (8, 64, 512)
"""Requests of each burst that looks for the ceiling of throughput; it ends as soon as requests wait for each other."""

RUNOUT_E2E = 4
DRAIN_E2E = 60
MAX_INVALID = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """How much a level spends.

    `tries` are the shares of alpha of each confirmation; none of them, and nothing is certified. The search ends when
    the logarithm of the capacity is known to `spread`, or after `search_probes`. A confirmation is tried at the rate
    where rate^`greed` x chance to pass is highest.
    """

    search_probes: int
    search_e2e: int
    warmup_e2e: int
    tries: tuple[float, ...] = ()
    confirm_e2e: int = 0
    confirm_warmup_e2e: int = 0
    refutes: int = 0
    refute_e2e: int = 0
    spread: float = 0.04
    greed: float = 5.0


_TRIES = (0.5, 0.25, 0.25)

RULES = {
    Level.QUICK: Rules(search_probes=4, search_e2e=60, warmup_e2e=20),
    Level.STANDARD: Rules(
        search_probes=4,
        search_e2e=90,
        warmup_e2e=20,
        tries=_TRIES,
        confirm_e2e=400,
        confirm_warmup_e2e=30,
        refutes=3,
        refute_e2e=90,
    ),
    Level.STRICT: Rules(
        search_probes=6,
        search_e2e=150,
        warmup_e2e=30,
        tries=_TRIES,
        confirm_e2e=900,
        confirm_warmup_e2e=60,
        refutes=4,
        refute_e2e=200,
        spread=0.03,
    ),
}

BATCHES = 15
LONG_BATCH_E2E = 30
"""Long probes have more batches than 15, each at least so long."""


def confirm_e2e(rules: Rules, objectives: Sequence[Objective]) -> int:
    """How long a confirmation is: rarer misses need longer ones, up to three times."""
    rarest = min((float(1 - one.share) for one in objectives), default=0.05)
    return round(rules.confirm_e2e * min(3.0, max(1.0, math.sqrt(0.05 / max(rarest, 1e-6)))))


def expected_s(rules: Rules, objectives: Sequence[Objective], e2e_s: float) -> float:
    """How long a search most often takes against a service whose responses take so long, in seconds."""
    search = rules.search_probes * (rules.warmup_e2e + rules.search_e2e + RUNOUT_E2E)
    confirm = 1.5 * (rules.confirm_warmup_e2e + confirm_e2e(rules, objectives) + RUNOUT_E2E) if rules.tries else 0.0
    refute = 1.3 * (rules.warmup_e2e + rules.refute_e2e + RUNOUT_E2E) if rules.refutes else 0.0
    bursts = 45.0
    return e2e_s * (bursts + search + confirm + refute)


def judged_s(rules: Rules, objectives: Sequence[Objective], e2e_s: float) -> float:
    """How much of that is measured, the time whose answers are graded, in seconds."""
    confirm = 1.5 * confirm_e2e(rules, objectives) if rules.tries else 0.0
    refute = 1.3 * rules.refute_e2e if rules.refutes else 0.0
    return e2e_s * (rules.search_probes * rules.search_e2e + confirm + refute)
