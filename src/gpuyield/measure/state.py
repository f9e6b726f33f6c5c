"""What the probes of a search amount to so far: ceiling of throughput, response time, belief, what is decided."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from gpuyield.measure.backlog import is_behind
from gpuyield.measure.curve import Belief, Estimate, believe, estimate, seen_of
from gpuyield.measure.rules import BURSTS, Rules
from gpuyield.model.declaration import Metric, Objective
from gpuyield.model.measure import SECOND_NS, Phase, Probe, ProbePlan, ProbeStatus, Stop

_WAITING = 6.0
"""A burst fills the server when its requests take so many times as long as those of the first burst."""

_KEEPS_UP = 0.85
_FIRST_DRAIN_S = 600.0
_DRAIN_E2E = 100.0


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """What the valid probes amount to; `guess` joins the beliefs of all objectives (at least one)."""

    rules: Rules
    objectives: tuple[Objective, ...]
    max_rps: float
    probes: tuple[Probe, ...]
    ceiling_rps: float
    e2e_s: float
    beliefs: tuple[Belief, ...]
    guess: Estimate

    def of(self, phase: Phase) -> list[Probe]:
        """The probes of a phase."""
        return [one for one in self.probes if one.plan.phase is phase]

    @property
    def certified_rps(self) -> float | None:
        """The highest rate that a confirmation passed."""
        passed = [one.plan.rate_rps for one in self.of(Phase.CONFIRM) if one.status is ProbeStatus.PASS]
        return max(passed, default=None)

    @property
    def refuted_rps(self) -> float | None:
        """The lowest rate that a refutation broke."""
        return min([one.plan.rate_rps for one in self.of(Phase.REFUTE) if is_broken(one)], default=None)

    @property
    def limited_by(self) -> str | None:
        """The objective with the lowest capacity; `max_rate` or `throughput` where that ends the search before."""
        if self.certified_rps is not None and self.certified_rps >= self.max_rps:
            return "max_rate"
        if self.guess.median_rps >= self.ceiling_rps:
            return "throughput"
        return self.objectives[self.guess.objective].name


def is_broken(probe: Probe) -> bool:
    """Whether a rate is shown not to hold: an objective is not kept, or the backlog grows for want of throughput."""
    return any(one.broken for one in probe.tallies) or (probe.backlog.grows and is_behind(probe.backlog))


def is_latency(objective: Objective) -> bool:
    """Whether misses come in waves, because requests wait for each other."""
    return objective.metric is not None and objective.metric is not Metric.ERROR


def burst(valid: Sequence[Probe], max_rps: float) -> ProbePlan | Stop | None:
    """The next burst that looks for the ceiling of throughput; None when it is known."""
    bursts = [one for one in valid if one.plan.phase is Phase.CEILING]
    for at, count in enumerate(BURSTS):
        if at < len(bursts):
            if bursts[at].e2e_mean_s is None:
                return Stop.NOT_SERVING
            if at and (bursts[at].e2e_mean_s or 0.0) > _WAITING * (bursts[0].e2e_mean_s or math.inf):
                return None
            continue
        drain_s = _DRAIN_E2E * (bursts[0].e2e_mean_s or 1.0) if bursts else _FIRST_DRAIN_S
        return ProbePlan(
            number=0,
            phase=Phase.CEILING,
            seed=0,
            rate_rps=max_rps,
            warmup_ns=0,
            batch_ns=max(1, round(count / max_rps * SECOND_NS)),
            batches=1,
            runout_ns=0,
            drain_ns=round(drain_s * SECOND_NS),
        )
    return None


def state_of(rules: Rules, objectives: Sequence[Objective], max_rps: float, valid: Sequence[Probe]) -> State:
    """The state after the bursts and what else ran."""
    bursts = [one for one in valid if one.plan.phase is Phase.CEILING]
    steady = [one for one in valid if one.plan.phase is not Phase.CEILING]
    served = bursts[-1].served_rps
    # A server that keeps up with the highest rate allowed shows no ceiling.
    ceiling = 2 * max_rps if served is None or served > _KEEPS_UP * max_rps else served
    e2e = min((one.e2e_mean_s for one in steady if one.e2e_mean_s), default=bursts[0].e2e_mean_s or 1.0)
    beliefs = tuple(
        believe(
            float(1 - objective.share),
            ceiling,
            [seen_of(one, at, is_latency=is_latency(objective), e2e_s=e2e) for one in steady],
        )
        for at, objective in enumerate(objectives)
    )
    return State(
        rules=rules,
        objectives=tuple(objectives),
        max_rps=max_rps,
        probes=tuple(valid),
        ceiling_rps=ceiling,
        e2e_s=e2e,
        beliefs=beliefs,
        guess=estimate(beliefs),
    )
